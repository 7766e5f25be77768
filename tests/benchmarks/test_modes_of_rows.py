"""The targets whose rows make modes: exact energies, exact masses, and the rows that count."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest

from tests.helpers.tiers import in_second_tier


@pytest.fixture(autouse=True)
def _from_the_root(pytestconfig, monkeypatch):
    monkeypatch.syspath_prepend(str(pytestconfig.rootpath))
    pytest.importorskip("blackjax")


def made(name, rows):
    from benchmarks.minibatches.modes_of_rows import one_column, places_and_times, quadratic_forms

    makers = {
        "sign": one_column.sign,
        "amplitude": lambda rows: one_column.amplitude(rows, 200),
        "weak mixture": one_column.weak_mixture,
        "period": places_and_times.period,
        "drive-by location": places_and_times.drive_by,
        "phase retrieval": quadratic_forms.phase_retrieval,
        "logistic": lambda rows: quadratic_forms.logistic(6, 25, rows=rows),
    }
    return makers[name](rows)


def around(target, key):
    """Sites on the scale of the distance between the mode and the top, around the latter."""
    size = {"period": 0.02, "amplitude": 1.0}.get(target.name.split(",")[0], 0.15)
    keys = jax.random.split(key, len(target.top))
    return {
        name: jnp.asarray(x) + size * jax.random.normal(k, jnp.shape(x))
        for k, (name, x) in zip(keys, target.top.items())
    }


@pytest.mark.parametrize(
    "name",
    [
        "sign",
        "weak mixture",
        "phase retrieval",
        *map(in_second_tier, ("amplitude", "period", "drive-by location", "logistic")),
    ],
)
def test_exact_energies_are_those_of_all_rows(name):
    # The cells and the second order in logits are exact where each row says little.
    target = made(name, 50_000)

    @jax.jit
    def of_rows(sites):
        *given, observed = target.columns
        terms = -target.likelihood(sites, *given).log_prob(observed)
        return terms

    first = np.asarray(of_rows(target.top), np.float64)
    start = float(target.energy(target.top, *target.statistics))
    rises = []
    for key in jax.random.split(jax.random.key(0), 4):
        sites = around(target, key)
        exact = (np.asarray(of_rows(sites), np.float64) - first).sum()
        found = float(target.energy(sites, *target.statistics)) - start
        # The logistic one is an expansion.
        share = 0.05 if name == "logistic" else 1e-3
        rises.append(abs(exact))
        assert found == pytest.approx(exact, rel=share, abs=0.02), sites
    assert max(rises) > 0.5


@pytest.mark.parametrize(
    ("name", "mass", "barrier"),
    [
        ("sign", 0.515, 6.0),
        ("phase retrieval", 0.520, 12.8),
        in_second_tier("weak mixture", 0.1741, 19.3),
        in_second_tier("period", 0.6333, 11.7),
        in_second_tier("drive-by location", 0.3259, 21.1),
    ],
)
def test_masses_and_barriers_are_those_of_finer_grids(name, mass, barrier):
    target = made(name, 100_000)
    assert target.mass == pytest.approx(mass, abs=1e-3)
    assert target.barrier == pytest.approx(barrier, abs=0.1)


@pytest.mark.slow
def test_mirrored_draws_tell_the_mass_of_a_mode():
    from benchmarks.minibatches.modes_of_rows.quadratic_forms import _mirrored_mass

    # A quartic in one coordinate: the mass by a grid.
    slope, bend, mean = -8.0, 4.0, 0.4
    grid = np.linspace(-4, 4, 8001)
    energy = slope * grid**2 + 0.5 * bend * grid**4 + 0.5 * (grid - mean) ** 2
    density = np.exp(energy.min() - energy)
    exact = density[grid > 0].sum() / density.sum()
    statistics = jnp.array([slope]), jnp.array([[bend]])
    found = _mirrored_mass(np.array([1.4]), np.array([mean]), statistics)
    assert found == pytest.approx(exact, abs=0.01)
    assert abs(exact - 0.5) > 0.1


def test_rows_of_a_run_are_steps_passes_and_weights():
    from benchmarks.minibatches.modes_of_rows.runs import Used, rows_of
    from benchmarks.minibatches.modes_of_rows.target import Length
    from benchmarks.minibatches.modes_of_rows.targets import TARGETS

    target = TARGETS["sign"]()
    target = type(target)(**{**vars(target), "length": Length(10, 20, 50)})
    steps, draws, rows = 8 * 30 * 50, 8 * 20, 100_000
    first = rows_of(target, target.model, 8, Used(1, 3, 7))
    assert first == steps * 2 * 500 + 7 * rows + draws * 3 * rows
    # A Hessian-vector product for each step and weight; a Hessian in one dimension is a pass.
    second = rows_of(target, target.model, 8, Used(2, 3, 7))
    assert second == first + steps * 500 + 7 * rows + draws * rows
    # Clusters have a second derivative along each of two columns.
    third = rows_of(target, target.model, 8, Used(3, 1, 7, 64, 2))
    assert third == first + (steps + draws) * 64 * 3
    alone = rows_of(target, target.model, 8, Used())
    assert alone == steps * 500 + draws * 3 * rows
    assert rows_of(target, target.without_noise, 8, Used()) == steps * rows


def test_models_with_and_without_noise_have_one_posterior():
    target = made("sign", 2_000)
    sites = [{"a": jnp.array(x)} for x in (0.2, -0.4)]
    of = lambda model, data: [
        float(numpyro.infer.util.log_density(model, data, {}, x)[0]) for x in sites
    ]
    whole = type(target)(**{**vars(target), "minibatch": target.rows})
    a, b = of(whole.model, whole.columns), of(target.without_noise, target.statistics)
    assert a[0] - a[1] == pytest.approx(b[0] - b[1], abs=0.01)
