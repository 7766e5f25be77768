"""What the figures of a run show, against the numbers of the run."""

from itertools import pairwise

import arviz as az
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure
from numpyro.infer import MCMC
from weighted_runs import weighted_only

from numpyro_contour import (
    SGLD,
    ContourSGLD,
    EnergyPartition,
    diagnose,
    resample,
    to_inference_data,
)
from numpyro_contour.diagnostics import kish_share, pareto_khat
from numpyro_contour.examples import nine_modes
from numpyro_contour.plots import (
    plot_dashboard,
    plot_energy_histogram,
    plot_energy_trace,
    plot_marginals,
    plot_mode_occupancy,
    plot_pair,
    plot_theta_trace,
    plot_warmup,
    plot_weights,
)
from numpyro_contour.statistics.arviz_versions import from_datasets, to_datasets

CHAINS, DRAWS, BINS = 3, 200, 12


@pytest.fixture(autouse=True)
def _no_windows():
    plt.switch_backend("Agg")
    yield
    plt.close("all")


@pytest.fixture
def ax():
    return Figure().subplots()


def run(kernel, chains, warmup=50, draws=DRAWS):
    mcmc = MCMC(
        kernel,
        num_warmup=warmup,
        num_samples=draws,
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(0), init_params=jnp.zeros((chains, 2) if chains > 1 else 2))
    return mcmc


@pytest.fixture(scope="module")
def mcmc():
    """Chains that have found their step sizes, on bins that they share."""
    kernel = ContourSGLD(
        potential_fn=nine_modes.potential,
        num_steps=10,
        partition=EnergyPartition(-7.0, 17.0, BINS),
    )
    return run(kernel, CHAINS)


@pytest.fixture(scope="module")
def data(mcmc):
    return weighted_only(to_inference_data(mcmc))


@pytest.fixture(scope="module")
def plain():
    """Chains of a kernel without theta."""
    return to_inference_data(run(SGLD(potential_fn=nine_modes.potential, step_size=0.02), 2))


def changed(data, group, attrs=None, **variables):
    """The data with other variables in a group; None drops one."""
    groups = to_datasets(data)
    dataset = groups[group]
    for name, values in variables.items():
        if values is None:
            dataset = dataset.drop_vars(name)
        else:
            dataset[name] = (dataset[name].dims, np.asarray(values))
    dataset.attrs |= attrs or {}
    return from_datasets(groups | {group: dataset})


def weights_of(data):
    weights = np.exp(data["sample_stats"]["log_weight"].values)
    return weights / weights.mean(axis=1, keepdims=True)


def stairs(ax):
    return [patch.get_data() for patch in ax.patches]


# ------------------------------------------------------------------------------- energy histogram


def test_histogram_shows_visits_theta_and_the_flattened_density(data, mcmc, ax):
    assert plot_energy_histogram(data, ax=ax) is ax
    state = mcmc.last_state
    counts = np.asarray(state.sampler.theta.bin_counts, float)
    learnt = np.exp(np.asarray(state.log_theta, float))
    assert counts.shape == (CHAINS, BINS)
    seen = counts > 0
    assert seen.any(0).sum() > 3
    visits, line, band, theta, _, flattened = stairs(ax)
    np.testing.assert_array_equal(visits.values, line.values)
    edges = np.linspace(-7.0, 17.0, BINS + 1)
    places = np.searchsorted(edges, visits.edges - 1e-3)
    np.testing.assert_allclose(edges[places], visits.edges, rtol=1e-5)
    powers = np.where(seen, learnt**0.25, 0.0)

    def joined(shares):
        """Shares of chains in each drawn bin per nat, (drawn bins, chains)."""
        ends = list(pairwise(places))
        return np.array([shares[:, a:b].sum(1) / (edges[b] - edges[a]) for a, b in ends])

    of_chains = joined(counts / counts.sum(1, keepdims=True))
    np.testing.assert_allclose(visits.values, of_chains.mean(1), rtol=1e-4)
    np.testing.assert_allclose(band.values, of_chains.max(1), rtol=1e-4)
    np.testing.assert_allclose(band.baseline, of_chains.min(1), rtol=1e-4)
    expected = joined(np.where(seen, learnt, 0.0)).mean(1)
    np.testing.assert_allclose(theta.values, expected, rtol=1e-4)
    expected = joined(powers / powers.sum(1, keepdims=True)).mean(1)
    np.testing.assert_allclose(flattened.values, expected, rtol=1e-4)
    for shown in (visits, flattened):
        assert (shown.values * np.diff(shown.edges)).sum() == pytest.approx(1.0, abs=1e-9)
    assert ax.get_yscale() == "log"
    assert visits.edges[-1] < ax.get_xlim()[1] <= visits.edges[-1] + 0.02 * 24.1
    low, high = ax.get_ylim()
    assert 0 < low < visits.values.min()
    assert high > visits.values.max()
    assert ax.get_xlabel() == "potential energy (nats)"


def test_histogram_of_an_mcmc_is_that_of_its_data(data, mcmc, ax):
    plot_energy_histogram(mcmc, ax=ax)
    other = plot_energy_histogram(data, ax=Figure().subplots())
    for one, two in zip(stairs(ax), stairs(other)):
        np.testing.assert_array_equal(one.values, two.values)


@pytest.mark.slow
def test_the_scalable_field_flattens_evenly(data, ax):
    groups = to_datasets(changed(data, "sample_stats", {"random_field": "scalable"}))
    values = {
        "lower_edge": [0.0, 1.0, 2.0],
        "upper_edge": [1.0, 2.0, 3.0],
        "theta": [0.2, 0.3, 0.5],
        "visits": [10, 10, 20],
    }
    partition = {name: (("chain", "bin"), np.array([x] * CHAINS)) for name, x in values.items()}
    groups["energy_partition"] = xr.Dataset(partition)
    plot_energy_histogram(from_datasets(groups), ax=ax)
    np.testing.assert_allclose(stairs(ax)[-1].values, np.full(3, 1 / 3))


@pytest.mark.parametrize("plot", [plot_energy_histogram, plot_theta_trace, plot_energy_trace])
def test_runs_without_theta_are_refused(plot, plain):
    with pytest.raises(ValueError, match=r"`data` takes a run of a contour .* got 'SGLD without"):
        plot(plain)
    with pytest.raises(ValueError, match=r"`data` takes the result of .* got dict"):
        plot({})


# ------------------------------------------------------------------------------------- theta trace


def test_theta_trace_has_a_line_a_bin_and_chain(data, ax):
    assert plot_theta_trace(data, bins=[3, 1], ax=ax) is ax
    theta = np.exp(data["sample_stats"]["log_theta"].values.astype(float))
    assert len(ax.lines) == 2 * CHAINS
    for i, line in enumerate(ax.lines):
        np.testing.assert_array_equal(line.get_xdata(), np.arange(DRAWS))
        np.testing.assert_array_equal(line.get_ydata(), theta[i % CHAINS, :, (3, 1)[i // CHAINS]])
    colours = [tuple(line.get_color()) for line in ax.lines]
    assert len(set(colours[:CHAINS])) == len(set(colours[CHAINS:])) == 1
    assert colours[0] != colours[-1]
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["-1.0 to 1.0", "-5.0 to -3.0"]
    assert ax.get_yscale() == "log"


def test_theta_trace_of_thinned_theta_is_at_its_draws(mcmc, ax):
    data = to_inference_data(mcmc, collect_theta=50)
    plot_theta_trace(data, bins=[1], ax=ax)
    assert ax.lines[0].get_xdata().tolist() == [49, 99, 149, 199]
    full = np.exp(np.asarray(mcmc.get_extra_fields(group_by_chain=True)["log_theta"]))
    np.testing.assert_allclose(ax.lines[0].get_ydata(), full[0, 49::50, 1], rtol=1e-5)


def test_theta_trace_takes_six_bins_that_matter(data, ax):
    last = np.tile([0.1, 1e-4, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.05, 0.04, 0.0099], (CHAINS, 1))
    data = changed(data, "energy_partition", theta=last)
    plot_theta_trace(data, ax=ax)
    theta = np.exp(data["sample_stats"]["log_theta"].values.astype(float))
    drawn = [line.get_ydata() for line in ax.lines[::CHAINS]]
    for values, place in zip(drawn, [0, 3, 5, 7, 9, 11], strict=True):
        np.testing.assert_array_equal(values, theta[0, :, place])


def test_theta_trace_names_mean_ends_of_different_partitions(data, ax):
    shift = np.array([[0.0], [0.3], [0.6]])
    edges = {
        name: data["energy_partition"][name].values + shift for name in ("lower_edge", "upper_edge")
    }
    plot_theta_trace(changed(data, "energy_partition", **edges), bins=[0], ax=ax)
    legend = ax.get_legend()
    assert legend.get_title().get_text() == "bin (nats,\nmean ends)"
    assert legend.get_texts()[0].get_text() == "-6.7 to -4.7"


@pytest.mark.parametrize("bins", [[], [BINS], [-1], [0.5], 3])
def test_theta_trace_refuses_bins_that_are_not_there(bins, data, ax):
    with pytest.raises(ValueError, match=r"`bins` takes numbers of bins from 0 to 11"):
        plot_theta_trace(data, bins=bins, ax=ax)


def test_theta_trace_refuses_runs_that_did_not_collect_it(data, ax):
    without = changed(data, "sample_stats", log_theta=None)
    with pytest.raises(ValueError, match=r"`data` takes a run whose theta was collected"):
        plot_theta_trace(without, ax=ax)


# ------------------------------------------------------------------------------------ energy trace


def test_energy_trace_shows_draws_windows_and_bouncy_moves(data):
    axes = plot_energy_trace(data, chains=[2, 0], axes=Figure().subplots(2, 1))
    stats = data["sample_stats"]
    energy, multiplier = -stats["lp"].values, stats["gradient_multiplier"].values
    assert 0 < (multiplier < 0).sum() < multiplier.size
    weights, typical = weights_of(data), axes[0].lines[2].get_ydata()[0]
    assert weights[energy < typical - 0.02].sum() / weights.sum() < 0.5
    assert weights[energy < typical + 0.02].sum() / weights.sum() > 0.5
    for chain, ax in zip((2, 0), axes):
        draws, bouncy, level = ax.lines
        np.testing.assert_allclose(draws.get_ydata(), energy[chain], rtol=1e-6)
        np.testing.assert_array_equal(draws.get_xdata(), np.arange(DRAWS))
        at = np.flatnonzero(multiplier[chain] < 0)
        np.testing.assert_array_equal(bouncy.get_xdata(), at)
        np.testing.assert_allclose(bouncy.get_ydata(), energy[chain, at], rtol=1e-6)
        assert level.get_ydata()[0] == typical
        band, edges = ax.collections
        outline = band.get_paths()[0].vertices
        low, high = (stats[f"{end}_energy"].values[chain] for end in ("lowest", "highest"))
        assert (high > low).any()
        for draw in (0, 57, DRAWS - 1):
            ends = outline[outline[:, 0] == draw, 1]
            np.testing.assert_allclose([ends.min(), ends.max()], [low[draw], high[draw]])
        bottom, top = ax.get_ylim()
        assert bottom < energy[[2, 0]].min()
        assert (high > top).mean() < 0.25
        levels = [segment[0, 1] for segment in edges.get_segments()]
        expected = [x for x in np.linspace(-7.0, 17.0, BINS + 1) if bottom <= x <= top]
        np.testing.assert_allclose(levels, expected)
        assert ax.get_ylabel() == f"chain {chain}\nenergy (nats)"
    assert axes[0].get_ylim() == axes[1].get_ylim()


def test_energy_trace_thins_bins_and_takes_four_chains_at_most(data):
    fine = np.linspace(-7.0, 17.0, 401)
    groups = to_datasets(data)
    four = {
        name: xr.concat([group, group], "chain", data_vars="minimal")
        for name, group in groups.items()
    }
    edges = {"lower_edge": fine[:-1], "upper_edge": fine[1:]}
    four["energy_partition"] = xr.Dataset(
        {name: (("chain", "bin"), np.tile(x, (2 * CHAINS, 1))) for name, x in edges.items()}
    )
    axes = plot_energy_trace(from_datasets(four))
    assert len(axes) == 4
    segments = axes[3].collections[1].get_segments()
    assert 10 < len(segments) <= 20
    steps = np.diff([segment[0, 1] for segment in segments]) / (fine[1] - fine[0])
    np.testing.assert_allclose(steps, steps[0])
    assert steps[0] > 1.5
    assert "some bin edges" in [text.get_text() for text in axes[0].get_legend().get_texts()]


@pytest.mark.parametrize("chains", [[], [CHAINS], [-1], 0])
def test_energy_trace_refuses_chains_that_are_not_there(chains, data):
    with pytest.raises(ValueError, match=r"`chains` takes numbers of chains from 0 to 2"):
        plot_energy_trace(data, chains=chains)


def test_as_many_axes_as_panels_are_needed(data):
    with pytest.raises(ValueError, match=r"`axes` takes 3 matplotlib axes, but got \(2,\)"):
        plot_energy_trace(data, axes=Figure().subplots(2, 1))


# ----------------------------------------------------------------------------------------- weights


def test_weights_are_sorted_and_add_up(data):
    left, right = plot_weights(data, axes=Figure().subplots(1, 2))
    weights = weights_of(data)
    assert len(left.lines) == len(right.lines) == CHAINS + 2
    rows = [*weights, weights.ravel()]
    for values, sizes, shares in zip(rows, left.lines, right.lines):
        n = values.size
        falling = np.array(sorted(values, reverse=True))
        np.testing.assert_allclose(sizes.get_ydata(), falling)
        np.testing.assert_allclose(sizes.get_xdata(), (1 + np.arange(n)) / n)
        heaviest = falling[: n // 10].sum() / falling.sum()
        assert shares.get_ydata()[n // 10] == pytest.approx(heaviest)
        assert shares.get_xdata()[n // 10] == pytest.approx((n // 10) / n)
        assert shares.get_ydata()[[0, -1]] == pytest.approx([0.0, 1.0])
    assert left.lines[-1].get_ydata() == [1.0, 1.0]
    np.testing.assert_array_equal(right.lines[-1].get_xydata(), [[0, 0], [1, 1]])
    kish = weights.sum() ** 2 / (weights**2).sum() / weights.size
    assert kish_share(np.log(weights)) == pytest.approx(kish)
    title = f"Kish share {kish:.2f}\nPareto k-hat {pareto_khat(np.log(weights)):.2f}"
    assert right.get_legend().get_title().get_text() == title
    assert left.get_yscale() == "log"


def test_weights_of_zero_are_left_out_of_the_logarithms(data):
    log_weight = data["sample_stats"]["log_weight"].values.copy()
    log_weight[0, :50] = -np.inf
    log_weight[1, 0] = -50.0
    data = changed(data, "sample_stats", log_weight=log_weight)
    left, right = plot_weights(data, axes=Figure().subplots(1, 2))
    assert left.lines[1].get_ydata().min() < 1e-15
    assert left.get_ylim()[0] == pytest.approx(1e-4)
    assert left.lines[0].get_ydata().size == DRAWS - 50
    assert left.lines[0].get_xdata()[-1] == pytest.approx((DRAWS - 50) / DRAWS)
    assert right.lines[0].get_ydata()[DRAWS - 50] == pytest.approx(1.0)
    assert right.lines[0].get_ydata().size == DRAWS + 1


# --------------------------------------------------------------------------- marginals and pairs


def heights(x, weights, edges):
    """The definition of the weighted density, bin by bin."""
    masses = [weights[(x >= a) & (x < b)].sum() for a, b in pairwise(edges)]
    return np.array(masses) / weights.sum() / np.diff(edges)


def assert_marginal(ax, x, weights, edges=None):
    flattened, *chains, pooled = stairs(ax)
    if edges is None:
        edges = pooled.edges
        assert len(edges) == 81
        assert np.mean((x < edges[0]) | (x > edges[-1])) <= 0.005
        assert edges[0] >= x.min()
        assert edges[-1] <= x.max()
    # The last bin holds its right edge.
    inner = slice(0, -1)
    for drawn, values, w in [
        (flattened, x, np.ones_like(weights)),
        (pooled, x, weights),
        *zip(chains, x, weights, strict=True),
    ]:
        np.testing.assert_allclose(drawn.edges, edges)
        expected = heights(values, w, edges)
        np.testing.assert_allclose(drawn.values[inner], expected[inner], atol=1e-12)


def test_marginals_are_weighted_histograms(data):
    axes = plot_marginals(data, axes=Figure().subplots(1, 2))
    z, weights = data["posterior"]["z"].values.astype(float), weights_of(data)
    for i, ax in enumerate(axes):
        assert_marginal(ax, z[..., i], weights)
        assert (ax.get_xlabel(), ax.get_ylabel()) == (f"z[{i}]", "density")
        assert ax.get_ylim()[0] == 0.0
    names = [text.get_text() for text in axes[0].get_legend().get_texts()]
    assert names == ["flattened", "chains", "weighted"]


def test_marginals_of_chosen_coordinates_on_given_bins(data):
    edges = np.linspace(-0.5, 0.5, 6)
    (dim,) = data["posterior"]["z"].dims[2:]
    (ax,) = plot_marginals(data, "z", {dim: 1}, edges)
    z, weights = data["posterior"]["z"].values[..., 1].astype(float), weights_of(data)
    assert_marginal(ax, z, weights, edges)
    assert ax.get_xlabel() == "z[1]"
    inside = (stairs(ax)[-1].values * 0.2).sum()
    assert inside == pytest.approx(weights[np.abs(z) <= 0.5].sum() / weights.sum())
    assert inside < 0.9


def test_scalars_are_chosen_and_labelled_by_name_and_coordinate(data):
    groups = to_datasets(data)
    draws = np.arange(CHAINS * DRAWS * 2.0).reshape(CHAINS, DRAWS, 2)
    groups["posterior"] = xr.Dataset(
        {
            "one": (("chain", "draw"), draws[..., 0]),
            "b": (("chain", "draw", "place"), draws),
            "name": (("chain", "draw"), np.full((CHAINS, DRAWS), "text")),
        },
        {"place": ["left", "right"]},
    )
    labelled = from_datasets(groups)
    axes = plot_marginals(labelled)
    assert [ax.get_xlabel() for ax in axes] == ["one", "b[left]", "b[right]"]
    (ax,) = plot_marginals(labelled, ["b"], {"place": ["right"]})
    assert ax.get_xlabel() == "b[right]"
    assert stairs(ax)[-1].edges[0] >= 1.0
    for arguments, message in [
        ({"var_names": ["name"]}, r"`var_names` takes names out of \['one', 'b'\], .* 'name'"),
        ({"coords": {"row": 0}}, r"`coords` takes coordinates of .* \['place'\], .* 'row'"),
        ({"coords": {"place": "up"}}, r"`coords` takes values that are there .* 'up'"),
    ]:
        with pytest.raises(ValueError, match=message):
            plot_marginals(labelled, **arguments)


def with_variables(data, number):
    groups = to_datasets(data)
    z = groups["posterior"]["z"].values[..., :1]
    many = np.tile(z, number)
    groups["posterior"] = xr.Dataset({"x": (("chain", "draw", "i"), many)})
    return from_datasets(groups)


def test_pairs_show_draws_with_areas_by_weight(data):
    axes = plot_pair(data, axes=Figure().subplots(2, 2))
    z, weights = data["posterior"]["z"].values.astype(float), weights_of(data)
    for i in range(2):
        assert_marginal(axes[i, i], z[..., i], weights)
    flattened, weighted = axes[1, 0].collections
    for points in (flattened, weighted):
        np.testing.assert_allclose(points.get_offsets(), z.reshape(-1, 2))
    assert len(set(flattened.get_sizes())) == 1
    sizes = weighted.get_sizes()
    np.testing.assert_allclose(sizes / sizes.mean(), weights.ravel(), rtol=1e-6)
    assert not axes[0, 1].get_visible()
    assert (axes[1, 0].get_xlabel(), axes[1, 0].get_ylabel()) == ("z[0]", "z[1]")
    assert axes[1, 0].get_xlim() == axes[0, 0].get_xlim()
    for low, high, x in zip(*np.transpose([axes[1, 0].get_xlim(), axes[1, 0].get_ylim()]), z.T):
        assert np.mean((x < low) | (x > high)) <= 0.005


@pytest.mark.parametrize("number", [1, 7])
def test_pairs_are_of_two_to_six_scalars(number, data):
    with pytest.raises(ValueError, match=rf"`var_names` takes .* 2 to 6 .* '{number} scalars'"):
        plot_pair(with_variables(data, number))
    with pytest.raises(ValueError, match=r"`axes` takes matplotlib axes \(3, 3\), .* \(3,\)"):
        plot_pair(with_variables(data, 3), axes=Figure().subplots(1, 3))


def test_too_many_marginals_are_refused(data):
    with pytest.raises(ValueError, match=r"`var_names` takes .* 1 to 40 .* '41 scalars'"):
        plot_marginals(with_variables(data, 41))


# -------------------------------------------------------------------------------- mode occupancy


def right_of_zero(posterior):
    return posterior["z"][..., 0] > 0


def test_mode_occupancy_shows_running_shares_and_where_chains_are(data):
    above, below = axes = plot_mode_occupancy(data, right_of_zero, axes=Figure().subplots(2, 1))
    assert axes.shape == (2,)
    z, weights = data["posterior"]["z"].values[..., 0], weights_of(data)
    for mode, is_here in enumerate((z <= 0, z > 0)):
        *chains, mean = above.lines[mode * (CHAINS + 1) : (mode + 1) * (CHAINS + 1)]
        for t in (0, 30, DRAWS - 1):
            shares = [
                weights[c, : t + 1][is_here[c, : t + 1]].sum() / weights[c, : t + 1].sum()
                for c in range(CHAINS)
            ]
            np.testing.assert_allclose([line.get_ydata()[t] for line in chains], shares)
            assert mean.get_ydata()[t] == pytest.approx(np.mean(shares))
        assert mean.get_linewidth() > chains[0].get_linewidth()
        assert mean.get_color() == chains[0].get_color()
    picture = below.images[0]
    np.testing.assert_array_equal(picture.get_array(), (z > 0).astype(int))
    shown = picture.to_rgba(picture.get_array())[z > 0][0][:3]
    np.testing.assert_allclose(shown, above.lines[-1].get_color(), atol=1 / 255)
    assert list(picture.get_extent()) == [-0.5, DRAWS - 0.5, CHAINS - 0.5, -0.5]
    assert [text.get_text() for text in above.get_legend().get_texts()] == ["False", "True"]


def test_mode_occupancy_begins_where_chains_have_weight(data):
    log_weight = data["sample_stats"]["log_weight"].values.copy()
    log_weight[1, :20] = -np.inf
    groups = to_datasets(changed(data, "sample_stats", log_weight=log_weight))
    z = groups["posterior"]["z"].values
    # Transposed, and with labels that are not 0, 1, ...
    labels = np.where(z[..., 0] > 0, 7, -3).T
    groups["posterior"]["mode"] = (("draw", "chain"), labels)
    above, _ = plot_mode_occupancy(from_datasets(groups), "mode")
    mean = above.lines[CHAINS].get_ydata()
    assert np.isnan(mean[:20]).all()
    assert np.isfinite(mean[20:]).all()
    assert above.lines[0].get_ydata()[0] == float(z[0, 0, 0] <= 0)
    assert [text.get_text() for text in above.get_legend().get_texts()] == ["-3", "7"]


@pytest.mark.parametrize(
    ("modes", "message"),
    [
        ("absent", r"a function or one of the variables \['z'\], but got 'absent'"),
        ("z", r"integer or boolean labels of the shape \(3, 200\) .* 'float32 of shape"),
        (lambda posterior: posterior["z"][..., 0], "integer or boolean labels .* 'float32"),
        (lambda posterior: np.zeros(DRAWS, int), r"integer .* labels .* of shape \(200,\)"),
        (lambda posterior: np.arange(CHAINS * DRAWS).reshape(CHAINS, DRAWS) % 21, "at most 20"),
    ],
)
def test_mode_occupancy_refuses_labels_that_do_not_fit(modes, message, data):
    with pytest.raises(ValueError, match=f"`modes` takes {message}"):
        plot_mode_occupancy(data, modes)


# --------------------------------------------------------------------------------------- warm-up


def test_warmup_is_drawn_by_stage(data, mcmc, plain):
    for given in (mcmc, data):
        axes = plot_warmup(given, axes=Figure().subplots(3, 1))
        group = data["warmup"]
        for chain in range(CHAINS):
            lines = (axes[0].containers[chain].lines[0], *(ax.lines[chain] for ax in axes[1:]))
            for line, name in zip(lines, ("energy", "step_size", "acceptance")):
                drawn = np.asarray(line.get_ydata(), float)
                np.testing.assert_allclose(drawn, group[name].values[chain])
        labels = [label.get_text() for label in axes[2].get_xticklabels()]
        assert labels == list(group["stage"].values)
    with pytest.raises(ValueError, match="`axes` takes 3 matplotlib axes"):
        plot_warmup(mcmc, axes=Figure().subplots(2, 1))
    with pytest.raises(ValueError, match="`data` takes a run whose warm-up had something to find"):
        plot_warmup(plain)


# -------------------------------------------------------------------------------------- dashboard


def names(axes):
    return [(ax.get_xlabel(), ax.get_ylabel()) for ax in axes]


CONTOUR = [
    ("potential energy (nats)", "share per nat"),
    ("draw", "theta (probability of the bin)"),
    ("draw", "chain 0\nenergy (nats)"),
    ("share of the draws, heaviest first", "weight (mean 1)"),
    ("share of the draws, heaviest first", "share of the weight"),
    ("", "energy (nats)"),
]
MARGINALS = [("z[0]", "density"), ("z[1]", "density")]


def test_dashboard_has_all_panels_and_the_diagnosis(data):
    axes = plot_dashboard(data)
    assert names(axes) == CONTOUR + MARGINALS
    figure = axes[0].figure
    assert figure.axes == list(axes)
    assert figure.get_suptitle().replace("\n", " ") == diagnose(data).headline
    # Each is what its own function draws.
    alone = plot_energy_histogram(data, ax=Figure().subplots())
    np.testing.assert_array_equal(stairs(axes[0])[0].values, stairs(alone)[0].values)
    np.testing.assert_allclose(axes[2].lines[0].get_ydata(), -data["sample_stats"]["lp"][0])
    drawn = axes[5].containers[2].lines[0].get_ydata()
    np.testing.assert_allclose(np.asarray(drawn, float), data["warmup"]["energy"][2])
    stages = [label.get_text() for label in axes[5].get_xticklabels()]
    assert stages == list(data["warmup"]["stage"].values)
    assert_marginal(axes[7], data["posterior"]["z"].values[..., 1].astype(float), weights_of(data))


def test_dashboard_shows_modes_instead_of_marginals(data):
    axes = plot_dashboard(data, right_of_zero, figsize=(12.0, 8.0))
    modes = [("draw", "weighted share so far"), ("draw", "chain")]
    assert names(axes) == CONTOUR + modes
    assert axes[0].figure.get_size_inches().tolist() == [12.0, 8.0]
    z = data["posterior"]["z"].values[..., 0]
    np.testing.assert_array_equal(axes[7].images[0].get_array(), (z > 0).astype(int))


def test_dashboard_leaves_out_what_does_not_apply(data, plain):
    assert names(plot_dashboard(plain)) == MARGINALS
    without = changed(data, "sample_stats", log_theta=None)
    assert names(plot_dashboard(without)) == CONTOUR[:1] + CONTOUR[2:] + MARGINALS


def test_dashboard_of_chains_without_weight_shows_the_rest(data):
    log_weight = data["sample_stats"]["log_weight"].values.copy()
    log_weight[1] = -np.inf
    axes = plot_dashboard(changed(data, "sample_stats", log_weight=log_weight))
    assert names(axes) == CONTOUR[:3] + CONTOUR[5:]
    assert len(axes[2].lines) == 2  # no typical energy
    assert "dead chains" in axes[0].figure.get_suptitle()


def test_dashboard_of_an_mcmc_is_that_of_its_data(data, mcmc):
    one, two = plot_dashboard(mcmc), plot_dashboard(data)
    assert names(one) == names(two)
    assert one[0].figure.get_suptitle() == two[0].figure.get_suptitle()


@pytest.mark.slow
def test_figures_of_their_own_can_be_drawn(data):
    """Nothing is cut off: all that is drawn, legends too, lies within the figure."""
    for made in (
        plot_energy_histogram(data),
        plot_theta_trace(data),
        plot_energy_trace(data),
        plot_weights(data),
        plot_marginals(data),
        plot_pair(data),
        plot_mode_occupancy(data, right_of_zero),
        plot_warmup(data),
        plot_dashboard(data),
    ):
        figure = np.ravel(made)[0].figure
        figure.canvas.draw()
        extent = figure.get_tightbbox()
        width, height = figure.get_size_inches()
        assert -0.02 <= extent.x0 <= extent.x1 <= width + 0.02
        assert -0.02 <= extent.y0 <= extent.y1 <= height + 0.02


# --------------------------------------------------------------------------- ArviZ's own


@pytest.mark.parametrize("function", ["plot_forest", "plot_pair", "plot_autocorr"])
def test_arviz_takes_resampled_draws(function, mcmc):
    even = resample(to_inference_data(mcmc), keep_chains=True)
    getattr(az, function)(even, var_names=["z"])
    drawn = [ax for number in plt.get_fignums() for ax in plt.figure(number).axes]
    assert any(ax.lines or ax.collections for ax in drawn)
    if function == "plot_pair":
        clouds = [np.asarray(c.get_offsets()[:, 0]) for ax in drawn for c in ax.collections]
        clouds += [np.asarray(line.get_xdata()) for ax in drawn for line in ax.lines]
        values = even["posterior"]["z"].values
        assert any(len(x) >= DRAWS and np.isin(x, values).all() for x in clouds)
