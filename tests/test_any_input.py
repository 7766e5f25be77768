"""Whatever is given, the answer is right or an error names the argument, and nothing is lost.

Hypothesis makes the input. A case is a row of one of the tables; the names of the rows are those of
the functions and arguments.
"""

import json
import math
import re
import shutil
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpyro.infer import MCMC
from weighted_runs import weighted_idata

import numpyro_contour as nc
from numpyro_contour import diagnostics, plots
from numpyro_contour.statistics.arviz_versions import from_datasets, to_datasets

fixed = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
#: how an error says what it is about
NAMED = re.compile(r"`\w+")


def outcome(call, *arguments, **more):
    """The result of a call and None, or None and the error."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return call(*arguments, **more), None
        except (ValueError, TypeError) as error:
            return None, error


def refused_or(call, *arguments, **more):
    """The result of a call, or None where an error named what is wrong."""
    found, error = outcome(call, *arguments, **more)
    assert error is None or NAMED.search(str(error)) or "store" in str(error), repr(error)
    return found


# ---------------------------------------------------------------------- statistics of arrays

anything = st.one_of(
    st.floats(width=32, allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, 1e300, -1e300, 1e-300, math.nan, math.inf, -math.inf]),
)
shapes = st.lists(st.integers(0, 5), min_size=0, max_size=4).map(tuple)
arrays = st.one_of(shapes.flatmap(lambda s: hnp.arrays(float, s, elements=anything)), st.none())
#: shapes that belong together, with values that need not be numbers
of_a_run = st.tuples(st.integers(1, 3), st.integers(1, 8)).flatmap(
    lambda s: st.tuples(
        hnp.arrays(float, s, elements=anything), hnp.arrays(float, s, elements=anything)
    )
)
OF_DRAWS = {
    "weighted_mean": (),
    "weighted_sd": (),
    "weighted_mcse": (),
    "weighted_ess": (),
    "weighted_mad": (),
    "weighted_rhat": (),
    "weighted_quantile": (0.3,),
    "weighted_eti": (0.9,),
    "weighted_hdi": (0.9,),
}
OF_WEIGHTS = ("normalise", "kish_share", "pareto_khat")


@pytest.mark.parametrize("name", OF_DRAWS)
def test_statistics_of_draws(name):
    function, more = getattr(diagnostics, name), OF_DRAWS[name]

    @fixed
    @given(arrays, arrays)
    def any_shapes(x, log_weights):
        refused_or(function, x, log_weights, *more)

    @fixed
    @given(of_a_run)
    def any_values(run):
        x, log_weights = run
        found = refused_or(function, x, log_weights, *more)
        counted = np.isfinite(log_weights)
        if found is None or not np.isfinite(x).all() or not (counted.any(1)).all():
            return
        if (log_weights == np.inf).any() or np.abs(x).max() > 1e30:
            return
        if name in ("weighted_mean", "weighted_quantile", "weighted_eti", "weighted_hdi"):
            seen = x[counted]
            slack = 1e-6 * (1 + np.abs(seen).max())
            assert (np.asarray(found) >= seen.min() - slack).all(), (x, log_weights, found)
            assert (np.asarray(found) <= seen.max() + slack).all(), (x, log_weights, found)

    any_shapes()
    any_values()


@pytest.mark.parametrize("name", OF_WEIGHTS)
def test_statistics_of_weights(name):
    @fixed
    @given(arrays)
    def any_weights(log_weights):
        refused_or(getattr(diagnostics, name), log_weights)

    any_weights()


# ---------------------------------------------------------------------- settings of kernels

junk = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=3),
    st.integers(-3, 3),
    st.floats(),
    st.sampled_from([10**30, -(10**30), (), {}, [], object(), b"x", 1j, np.nan, float("inf")]),
    st.lists(st.floats(), max_size=3),
    st.lists(st.floats(), max_size=3).map(tuple),
    hnp.arrays(float, (2,), elements=st.floats()),
    st.dictionaries(st.text(max_size=2), st.integers(-1, 2), max_size=2),
)
OF_ALL = (
    "step_size", "preconditioner", "temperature", "num_steps", "draw", "energy", "noise", "jumps",
    "minibatch_size", "init_strategy", "chunk_bytes", "drift_limit", "curvature_correction",
)  # fmt: skip
ARGUMENTS = [
    *[("ContourSGLD", name) for name in OF_ALL],
    *[
        ("ContourSGLD", name)
        for name in (
            "partition", "num_bins", "zeta", "gain", "interpolation", "one_sided",
            "multiplier_bound", "random_field", "rho", "weight", "theta", "barrier",
            "collect_theta",
        )
    ],
    ("SGLD", "adjusted"),
    ("SGHMC", "momentum"),
    ("SGHMC", "friction"),
    ("SGNHT", "friction"),
    ("CyclicalSGLD", "cycle_length"),
    ("CyclicalSGLD", "exploration"),
    ("ReplicaExchangeSGLD", "temperatures"),
    ("ReplicaExchangeSGLD", "swap_every"),
    ("ReplicaExchangeSGLD", "swap"),
    ("ReplicaExchangeSGLD", "correction_factor"),
    ("ReplicaExchangeSGLD", "swap_window"),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "argument"), ARGUMENTS, ids=map(".".join, ARGUMENTS))
def test_settings(kernel, argument):
    make = getattr(nc, kernel)

    @fixed
    @given(junk)
    def any_value(value):
        made, error = outcome(make, potential_fn=lambda x: x**2, **{argument: value})
        if error is None:
            # What is collected is no setting of the sampler.
            assert argument in made.settings or argument == "collect_theta" or value is None
        else:
            assert f"`{argument}" in str(error), repr(error)

    any_value()


@pytest.mark.parametrize("name", ["lower", "upper", "num_bins"])
def test_energy_partitions(name):
    @fixed
    @given(junk)
    def any_value(value):
        right = {"lower": 0.0, "upper": 1.0, "num_bins": 4} | {name: value}
        refused_or(nc.EnergyPartition, **right)

    any_value()


@pytest.mark.parametrize("name", ["scale", "exponent", "offset", "maximum"])
def test_gains(name):
    @fixed
    @given(junk)
    def any_value(value):
        right = {"scale": 10.0, "exponent": 0.8, "offset": 100.0, "maximum": 0.5} | {name: value}
        found = refused_or(nc.robbins_monro, **right)
        if found is not None:
            assert 0 <= float(found(1)) <= 1

    any_value()


# ---------------------------------------------------------------------- what is done with a run

RNG = np.random.default_rng(0)
DRAWS = RNG.normal(size=(2, 40))


def idata_of(log_weights, **more):
    return weighted_idata(log_weights, x=DRAWS[: len(log_weights), : log_weights.shape[1]], **more)


values = st.one_of(st.floats(-5, 5), st.sampled_from([math.nan, math.inf, -math.inf, 1e300, -1e4]))
weights_of_any_run = st.tuples(st.integers(1, 2), st.integers(1, 40)).flatmap(
    lambda s: hnp.arrays(float, s, elements=values)
)
FUNCTIONS = {
    "summary": lambda data: nc.summary(data),
    "expectation": lambda data: nc.expectation(data, "x"),
    "diagnose": lambda data: nc.diagnose(data),
    "resample": lambda data: nc.resample(data),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_weights_of_a_run(name):
    @settings(fixed, max_examples=8)
    @given(weights_of_any_run)
    def any_weights(log_weights):
        found, error = outcome(FUNCTIONS[name], idata_of(log_weights))
        if error is not None:
            assert re.search("weight|draw", str(error)), repr(error)
        elif name == "expectation" and np.isfinite(found.mean):
            counted = DRAWS[: len(log_weights), : log_weights.shape[1]]
            assert counted.min() - 1e-9 <= found.mean <= counted.max() + 1e-9

    any_weights()


def without(name):
    return lambda groups: {n: g for n, g in groups.items() if n != name}


def changed(name, change):
    return lambda groups: groups | {name: change(groups[name])}


DAMAGED = {
    "no posterior": without("posterior"),
    "no sample_stats": without("sample_stats"),
    "no log_weight": changed("sample_stats", lambda g: g.drop_vars("log_weight")),
    "fewer weights": changed("sample_stats", lambda g: g.isel(draw=slice(0, 3))),
    "other chains": changed("sample_stats", lambda g: g.isel(chain=[0])),
    "no variables": changed("posterior", lambda g: g.drop_vars(list(g.data_vars))),
}
NOT_RUNS = {"a number": 3, "nothing": None, "a list": [], "an array": DRAWS, "a set": xr.Dataset()}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("damage", DAMAGED)
def test_groups_that_are_damaged(name, damage):
    groups = DAMAGED[damage](to_datasets(idata_of(np.zeros((2, 40)))))
    with pytest.raises((ValueError, KeyError), match=r"group|weight|variable|draws"):
        FUNCTIONS[name](from_datasets(groups))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("thing", NOT_RUNS)
def test_things_that_are_no_run(name, thing):
    with pytest.raises(ValueError, match="`data`"):
        FUNCTIONS[name](NOT_RUNS[thing])


@pytest.mark.parametrize("name", ["plot_energy_histogram", "plot_dashboard", "plot_theta_trace"])
def test_plots_of_things_that_are_no_run(name):
    with pytest.raises(ValueError, match="`"):
        getattr(plots, name)(3)


# ---------------------------------------------------------------------- runs

START = jnp.zeros(2)


def run(kernel=None, samples=3, warmup=2, chains=1, start=START, *data):
    kernel = kernel or nc.SGLD(potential_fn=lambda x: x @ x / 2, step_size=0.1, num_steps=1)
    mcmc = MCMC(
        kernel, num_warmup=warmup, num_samples=samples, num_chains=chains, progress_bar=False
    )
    mcmc.run(jax.random.key(0), *data, init_params=start)
    return mcmc


STARTS = {
    "NaN": jnp.array([jnp.nan, 0.0]),
    "infinity": jnp.array([jnp.inf, 0.0]),
    "huge": jnp.array([1e30, 0.0]),
    "nothing": jnp.zeros(0),
    "text": "start",
}


@pytest.mark.parametrize("name", STARTS)
def test_starts(name):
    kernel = nc.SGLD(potential_fn=lambda x: x @ x / 2, step_size=0.1)
    with pytest.raises(ValueError, match=r"init_params"):
        kernel.init(jax.random.key(0), 1, STARTS[name])


def test_one_draw_of_one_chain():
    mcmc = run(samples=1, warmup=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = nc.expectation(mcmc, lambda d: d["z"])
        assert nc.summary(mcmc).shape[0] == 2
        assert not nc.diagnose(mcmc).trusted
    np.testing.assert_array_equal(found.mean, np.asarray(mcmc.get_samples())[0])


# ---------------------------------------------------------------------- stores that are damaged


def stored(path, samples=6):
    kernel = nc.ContourSGLD(
        potential_fn=lambda x: x @ x / 2,
        step_size=0.1,
        num_steps=1,
        partition=nc.EnergyPartition(0.0, 5.0, 5),
        preconditioner="identity",
    )
    mcmc = MCMC(kernel, num_warmup=2, num_samples=samples, progress_bar=False)
    nc.run_stored(mcmc, path, jax.random.key(0), init_params=START, segment_draws=4)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "run.zarr"
    stored(path)
    return path


def draws_of(path):
    groups = to_datasets(nc.to_inference_data(path))
    return {
        name: np.asarray(groups[group][name])
        for group in ("weighted_posterior", "weighted_sample_stats")
        for name in groups[group].data_vars
    }


DAMAGES = ("removed", "emptied", "torn", "overwritten")


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_any_file_of_a_store_that_is(damage, whole, tmp_path):
    """What is read is what was written, or an error says that it is not."""
    expected = draws_of(whole)
    files = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())

    copy = shutil.copytree(whole, tmp_path / "run.zarr")

    @fixed
    @given(st.sampled_from(files), st.integers(0, 10**6))
    def any_file(name, place):
        file, content = copy / name, (whole / name).read_bytes()
        if damage == "removed":
            file.unlink()
        elif damage == "emptied":
            file.write_bytes(b"")
        elif damage == "torn":
            file.write_bytes(content[: place % len(content)])
        else:
            at = place % len(content)
            file.write_bytes(content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :])
        found = refused_or(draws_of, copy)
        file.write_bytes(content)
        if found is None or name.parts[0] in ("state", "checks"):
            return
        for variable, values in expected.items():
            np.testing.assert_array_equal(found[variable], values, err_msg=f"{name} {variable}")

    any_file()


def test_a_store_of_a_later_form(whole, tmp_path):
    copy = shutil.copytree(whole, tmp_path / "run.zarr")
    known = json.loads((copy / "zarr.json").read_text())
    known["attributes"]["numpyro_contour_format"] = 2
    (copy / "zarr.json").write_text(json.dumps(known))
    with pytest.raises(ValueError, match="has form 2: read it with the version that wrote it"):
        nc.to_inference_data(copy)
