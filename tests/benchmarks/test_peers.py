"""The comparison with peers: its posteriors, its scores, and that it runs."""

import dataclasses
import math
import time
from concurrent.futures import Future

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from scipy import stats


@pytest.fixture(autouse=True)
def _from_the_root(pytestconfig, monkeypatch):
    monkeypatch.syspath_prepend(str(pytestconfig.rootpath))
    pytest.importorskip("blackjax")
    pytest.importorskip("matplotlib")


def target_of(start):
    from benchmarks.peers.targets import targets

    return next(target for target in targets() if target.name.startswith(start))


# ---------------------------------------------------------------- posteriors


def test_prior_and_likelihood_make_the_given_density():
    target = target_of("two modes, 10-d")
    for key in random.split(random.key(0), 3):
        x = 2 * random.normal(key, (10,))
        step = 4.7 / math.sqrt(10)
        parts = [
            m * stats.norm.pdf(np.asarray(x) - c).prod() for m, c in ((0.4, -step), (0.6, step))
        ]
        scaled = np.log(sum(parts)) + 5 * np.log(2 * np.pi)
        assert float(target.log_density(x)) == pytest.approx(scaled, rel=1e-4)
        prior = stats.norm.logpdf(np.asarray(x), scale=10).sum()
        assert float(target.log_prior(x)) == pytest.approx(prior, rel=1e-5)
    # The barrier between the modes.
    way = jax.vmap(target.potential)(jnp.linspace(-1, 1, 201)[:, None] * step * jnp.ones(10))
    assert 10 < float(way[50:150].max() - way.min()) < 12


def test_every_posterior_can_be_traced_by_one_kernel_after_the_other():
    from benchmarks.peers.targets import targets

    for target in targets():
        x = 0.1 * jnp.ones(target.size)
        # What a first trace leaves behind must be of use to a second one.
        first, again = (float(jax.jit(lambda x, t=target: t.potential(x))(x)) for _ in range(2))
        assert first == again == pytest.approx(float(target.potential(x)), rel=1e-5)


def test_truths_by_grids_are_those_of_draws():
    target = target_of("two components, 20")
    rng = np.random.default_rng(0)
    # Importance draws from the prior, 25 posterior sds a side: enough for means to 0.05.
    x = rng.uniform(-4, 4, (200_000, 2))
    log_w = np.asarray(jax.lax.map(target.log_density, jnp.asarray(x), batch_size=4096), float)
    w = np.exp(log_w - log_w.max())
    w /= w.sum()
    truth = target.truth
    means = w @ x
    errors = np.sqrt((w**2) @ (x - means) ** 2)
    assert np.all(np.abs(means - truth.means) < 4 * errors)
    np.testing.assert_allclose(truth.sds, np.sqrt(w @ (x - means) ** 2), rtol=0.05)
    np.testing.assert_allclose(truth.masses, 0.5, atol=1e-6)


def test_the_six_labellings_are_told_apart():
    from benchmarks.peers.targets import galaxy_mode

    orders = np.array([[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]], float)
    assert sorted(galaxy_mode(np.c_[orders, np.zeros((6, 6))])) == list(range(6))
    target = target_of("galaxies")
    x = np.asarray(target.starts(random.key(0), 1)[0])
    swapped = x.reshape(3, 3)[:, [1, 0, 2]].ravel()
    assert float(target.potential(x)) == pytest.approx(float(target.potential(swapped)), rel=1e-5)


def test_the_sinusoid_is_integrated_out():
    from benchmarks.peers.targets import AUTOCORRELATION, period_of
    from numpyro_contour.examples.datasets import read_columns

    target = target_of("sunspots")
    t, y = read_columns("sunspots_monthly").values()
    t = t - t.mean()
    found, expected = [], []
    for x in (-1.0, 0.53, 1.2):
        period = period_of(np.array(x))
        design = np.c_[
            np.ones_like(t), np.cos(2 * np.pi * t / period), np.sin(2 * np.pi * t / period)
        ]
        white, z = (a[1:] - AUTOCORRELATION * a[:-1] for a in (design, y))
        residual = z - white @ np.linalg.lstsq(white, z, rcond=None)[0]
        gram = np.linalg.slogdet(white.T @ white)[1]
        expected.append(-0.5 * (len(z) - 3) * np.log(residual @ residual) - 0.5 * gram)
        found.append(float(target.log_likelihood(jnp.array([x]))))
    # Differences: a constant is left out. Float32 holds them to about 0.01 nats.
    np.testing.assert_allclose(np.diff(found), np.diff(expected), atol=0.02)
    assert found[1] > max(found[0], found[2]) + 5


# ---------------------------------------------------------------- scores


@pytest.fixture
def fake():
    from benchmarks.peers.methods import RUNS, Drawn, Method
    from benchmarks.peers.target import Target, Truth

    truth = Truth(np.array([0.25, 0.75]), np.array([0.5]), np.array([2.0]))
    target = Target(
        "fake", 1, lambda x: 0.0 * x[0], lambda x: (x[..., 0] > 0).astype(int), lambda: truth, 100
    )

    def method(name, x, weights=None, package="other"):
        x = np.tile(np.asarray(x, float)[..., None], (RUNS, 1, 1))
        weights = np.ones(x.shape[:2]) if weights is None else np.tile(weights, (RUNS, 1))
        return Method(name, lambda target, gradients: Drawn(x, weights, gradients * RUNS), package)

    return target, method


def test_runs_are_scored_by_their_weighted_draws(fake):
    from benchmarks.peers.methods import run

    target, method = fake
    # Masses of the left mode: 1/4 and 3/4 of the chains' weights, 1/2 of a run.
    made = method("m", [[-1.0, 1.0], [-1.0, 1.0]], [[1.0, 3.0], [30.0, 10.0]])
    found = run(made, target, 100)
    np.testing.assert_allclose(found.variation, 0.25)
    np.testing.assert_allclose(sorted(found.chain_variation), [0.0] * 3 + [0.5] * 3, atol=1e-12)
    np.testing.assert_allclose(found.mean_error, abs(0.0 - 0.5) / 2)
    assert found.gradients == 100
    # What is not finite counts for nothing.
    found = run(method("m", [[-1.0, np.nan], [1.0, 1.0]]), target, 100)
    np.testing.assert_allclose(found.variation, 0.25)


def test_a_pilot_is_in_nobodys_time(fake):
    from benchmarks.peers.methods import RUNS, Drawn, run, without_compiling

    target, method = fake
    drawn = method("m", [[1.0]]).draw(target, 100)

    def slow(pilot):
        def draw(target, gradients):
            time.sleep(0.05)
            return dataclasses.replace(drawn, pilot=pilot)

        return dataclasses.replace(method("m", [[1.0]]), draw=draw)

    assert isinstance(drawn, Drawn)
    assert run(slow(0.0), target, 100).seconds >= 0.05 / RUNS
    assert run(slow(0.05), target, 100).seconds < 0.05 / RUNS
    result, seconds = without_compiling(lambda: time.sleep(0.05) or "result")
    assert result == "result"
    assert seconds >= 0.05


def test_equal_seconds_are_those_of_the_reference(fake, monkeypatch):
    from benchmarks.peers import measure

    target, method = fake
    speed = {"ContourSGLD": 1.0, "slow": 0.25, "fast": 4.0, "near": 1.1}
    asked = []

    def run(method, target, gradients):
        from benchmarks.peers.methods import Outcome

        asked.append((method.name, gradients))
        one = np.ones(3)
        seconds = gradients / 1000 / speed[method.name]
        return Outcome(method, one, one, one, gradients, seconds, 0.0)

    monkeypatch.setattr(measure, "run", run)
    monkeypatch.setattr(measure, "tuned", lambda kernel, target: None)
    methods = tuple(
        method(name, [[0.0]], package="numpyro_contour" if name == "ContourSGLD" else "other")
        for name in ("slow", "fast", "near", "ContourSGLD")
    )
    found, failed = measure.compare(target, methods, 10_000)
    assert not failed
    assert asked[0] == ("ContourSGLD", 10_000)
    assert [seconds for name, seconds in asked if name == "slow"] == [10_000, 2500]
    assert [seconds for name, seconds in asked if name == "fast"] == [10_000, 40_000]
    assert [seconds for name, seconds in asked if name == "near"] == [10_000]
    assert found["fast"].equal_seconds.seconds == pytest.approx(10.0)
    # A method that gets a tenth of the gradients, and is ten times as slow.
    speed["dear"] = 0.1
    dear = dataclasses.replace(method("dear", [[0.0]]), share=0.1)
    found, _ = measure.compare(target, (*methods, dear), 100_000)
    assert found["dear"].equal_gradients.gradients == 10_000
    assert found["dear"].equal_seconds is found["dear"].equal_gradients
    # So slow that what it would do in these seconds says nothing, and one that fails.
    speed["slow"] = 0.01
    del speed["near"]
    found, failed = measure.compare(target, methods, 10_000)
    assert found["slow"].equal_seconds is None
    assert "near" not in found
    assert len(failed) == 1
    assert "other's near on fake" in failed[0]


def test_claims_name_where_they_fail(fake):
    from benchmarks.peers import ours, text
    from benchmarks.peers.measure import Compared
    from benchmarks.peers.methods import Outcome

    target, method = fake

    def compared(name, chains, runs, package="blackjax", stochastic=True):
        single, pooled = (value + np.array([-0.01, 0.0, 0.01]) for value in (chains, runs))
        made = dataclasses.replace(method(name, [[0.0]], package=package), draw=None)
        made = dataclasses.replace(made, stochastic_gradient=stochastic)
        outcome = Outcome(made, pooled, single, pooled, 1, 1.0, 0.0)
        return Compared(outcome, outcome if stochastic else None)

    row = {
        "ContourSGLD": compared("ContourSGLD", 0.2, 0.1, "numpyro_contour"),
        ours.GIVEN[1.0]: compared(ours.GIVEN[1.0], 0.5, 0.1, "numpyro_contour"),
        text.DOCUMENTED: compared(text.DOCUMENTED, 0.5, 0.15),
        text.OUR_SETTINGS: compared(text.OUR_SETTINGS, 0.3, 0.11),
        # A little better than ours, but within two errors.
        "sgld": compared("sgld", 0.19, 0.05),
        "smc": compared("smc", 0.01, 0.01, stochastic=False),
    }
    lines = [line.strip("| ").split("|") for line in text.claims({target: row}).splitlines()[2:]]
    cells = [[cell.strip() for cell in line] for line in lines]
    assert cells[0][1:3] == ["all", "1 of 1: holds"]
    assert cells[0][4:] == ["0 of 1: fails", "fake (0.100, 0.150)"]
    assert cells[1][0].startswith(f"{ours.GIVEN[1.0]}: no worse than blackjax's csgld, our")
    assert cells[1][2:4] == ["0 of 1: fails", "fake (0.500, 0.300)"]
    assert cells[2][1:5] == ["six of seven", "1 of 1: holds", "", "0 of 1: fails"]
    assert cells[3][1:3] == ["none", "0 of 1"]
    assert len(cells) == 4
    assert "blackjax's sgld (0.050; 0.050), blackjax's smc (0.010)" in text.losses({target: row})
    assert "csgld" not in text.losses({target: row})


def test_errors_fit_into_the_cells_of_the_overview():
    from benchmarks.peers.text import in_four_characters

    errors = {0.001: ".001", 0.0994: ".099", 0.5: ".50", 0.9999: "1.00", 1.26: "1.3", 1e30: ">99"}
    assert {error: in_four_characters(error) for error in errors} == errors


class Inline:
    """In place of a pool of processes: at once, in this one."""

    def __init__(self, *args, **kwargs):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def submit(self, function, *args):
        future = Future()
        try:
            future.set_result(function(*args))
        except ValueError as error:
            future.set_exception(error)
        return future


def test_results_are_kept_and_a_posterior_that_fails_takes_no_other_along(
    fake, monkeypatch, tmp_path
):
    from benchmarks.peers import posteriors, results
    from benchmarks.peers.measure import Compared
    from benchmarks.peers.methods import Outcome
    from benchmarks.shared import pages
    from benchmarks.shared.experiment import Experiment

    target, method = fake
    other = dataclasses.replace(target, name="Second, 2-d")
    made = dataclasses.replace(method("ContourSGLD", [[0.0]]), draw=None)
    first, second = (
        Outcome(made, *(np.array([0.1, 0.2, 0.3]) + shift + n for n in range(3)), 7.5, 1.0, 0.5)
        for shift in (0.0, 0.05)
    )
    asked = []

    def compare(target, *_):
        asked.append(target.name)
        if asked.count(other.name) == 2:
            raise ValueError("no such density\nat all")
        rows = {"ContourSGLD": Compared(first, second), "slow": Compared(second, None)}
        return rows, [f"somebody's sampler on {target.name}"]

    monkeypatch.setattr(posteriors, "targets", lambda: (target, other))
    monkeypatch.setattr(posteriors, "compare", compare)
    monkeypatch.setattr(posteriors, "ProcessPoolExecutor", Inline)
    experiment = Experiment(tmp_path)
    page = posteriors.main(experiment)
    assert asked == ["fake", "Second, 2-d"]
    assert (tmp_path / "peers" / "second-2-d.json").exists()
    # The second fails when it is asked again, and stands on the page with what was kept of it.
    again = posteriors.main(Experiment(tmp_path, only=("Second",)))
    assert asked == ["fake", "Second, 2-d", "Second, 2-d"]
    failure = "- nothing new on Second, 2-d: ['no such density']\n"
    assert failure in again
    assert again.replace(failure, "") == page
    assert "### fake" in page
    assert page.count("- somebody's sampler on ") == 2
    row = results.kept_of(other, tmp_path).found
    assert row["slow"].equal_seconds is None
    kept = row["ContourSGLD"].equal_seconds
    assert kept.method == made
    for field in dataclasses.fields(Outcome)[1:]:
        values = getattr(kept, field.name), getattr(second, field.name)
        np.testing.assert_allclose(*values, rtol=1e-4)
    # A method that is run by itself takes its own place only, beside the reference that is kept.
    references = []

    def compare_one(target, methods, gradients, report, reference):
        references.append(reference)
        assert [one.name for one in methods] == ["SGLD"]
        return {"SGLD": Compared(second, second)}, []

    monkeypatch.setattr(posteriors, "compare", compare_one)
    one_more = posteriors.main(Experiment(tmp_path, only=("fake",), methods=("SGLD",)))
    assert [one.equal_gradients.seconds for one in references] == [first.seconds]
    kept = results.kept_of(target, tmp_path)
    assert list(kept.found) == ["ContourSGLD", "slow", "SGLD"]
    assert kept.again == ("SGLD",)
    assert kept.failed == ["somebody's sampler on fake"]
    assert "run again on some posteriors" in one_more
    assert "run again on some posteriors" not in page
    # What was made elsewhere is marked as such.
    monkeypatch.setattr(posteriors, "made_with", lambda: "Made on Mars.")
    assert f"Some of the posteriors: {pages.made_with()}" in posteriors.main(
        Experiment(tmp_path, only=())
    )


# ---------------------------------------------------------------- the page


def test_quick_forms_write_their_sections(tmp_path):
    from benchmarks.__main__ import main

    main(["peers", "--quick", "--output", str(tmp_path)])
    page = (tmp_path / "peers.md").read_text()
    for section in ("posteriors", "known_modes", "by_the_clock", "flights"):
        assert f"<!-- {section} -->" in page
    for method in ("ContourSGLD", "csgld, documented", "HMCECS", "NUTS, all rows"):
        assert f"| {method} | " in page
    assert "nan" not in page
    assert (tmp_path / "figures" / "peers.png").exists()
