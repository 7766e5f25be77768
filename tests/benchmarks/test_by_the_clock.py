"""The benchmark by the clock: its posteriors, processes, and the sentences about its figures."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer.util import log_density
from scipy import special, stats


@pytest.fixture(autouse=True)
def _from_the_root(pytestconfig, monkeypatch):
    monkeypatch.syspath_prepend(str(pytestconfig.rootpath))
    pytest.importorskip("matplotlib")


def names():
    return (
        "README's model, 1-d",
        "nine modes, 2-d",
        "mixture, 5-d",
        "two modes, 20-d",
        "galaxies, 9-d",
        "four periods, 1-d",
        "sensor positions, 8-d",
    )


def from_the_prior(posterior, number=20):
    from benchmarks.peers.clock.priors import from_cube

    u = np.random.default_rng(0).uniform(size=(number, posterior.size))
    return from_cube(posterior.priors, special, np.stack)(u)


# ---------------------------------------------------------------- posteriors


@pytest.mark.parametrize("name", names())
def test_likelihoods_of_numpy_and_of_jax_are_those_of_the_model(name):
    from benchmarks.peers.clock.exact import data_of
    from benchmarks.peers.clock.models import MODELS, potential
    from benchmarks.peers.clock.posteriors import POSTERIORS
    from benchmarks.peers.targets import targets

    posterior, data = POSTERIORS[name], data_of(name)
    x = from_the_prior(posterior)
    found = posterior.log_likelihood(x, data, np)
    one_by_one = [posterior.log_likelihood(one, data, np) for one in x]
    np.testing.assert_allclose(one_by_one, found, rtol=1e-10)
    log_priors = sum(p.of_scipy(stats).logpdf(x[:, i]) for i, p in enumerate(posterior.priors))
    if name in MODELS:
        model, coordinates = MODELS[name]
        sites = {
            "README's model, 1-d": lambda a: {"a": a[0]},
            "mixture, 5-d": lambda a: {
                "share": np.array([a[0], 1 - a[0]]),
                "mean": a[1:3],
                "sd": a[3:],
            },
            "four periods, 1-d": lambda a: {"distance": a[0]},
            "sensor positions, 8-d": lambda a: {"place": a.reshape(4, 2)},
        }[name]
        expected = [float(log_density(model, data, {}, sites(one))[0]) for one in x]
        draws = jax.tree.map(lambda *a: np.stack(a)[None], *[sites(one) for one in x])
        np.testing.assert_allclose(coordinates(draws)[0], x)
    else:
        target = next(target for target in targets() if target.name == name)
        expected = [float(target.log_density(jnp.asarray(one, jnp.float32))) for one in x]
        energy = jax.vmap(potential(posterior, data))(jnp.asarray(x, jnp.float32))
        scale = np.abs(found + log_priors).max()
        of_jax = found + log_priors + np.asarray(energy)
        np.testing.assert_allclose(of_jax, of_jax[0], atol=1e-5 * scale)
    difference = found + log_priors - expected
    np.testing.assert_allclose(difference, difference[0], atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("name", names())
def test_masses_are_those_of_modes_that_are_told_apart(name):
    from benchmarks.peers.clock.exact import masses_of
    from benchmarks.peers.clock.posteriors import POSTERIORS
    from benchmarks.peers.targets import targets

    posterior = POSTERIORS[name]
    x, exact = from_the_prior(posterior, 4000), masses_of(name)
    assert exact.shape == (posterior.modes,)
    assert exact.sum() == pytest.approx(1)
    modes = posterior.mode(x)
    assert set(modes) <= set(range(posterior.modes))
    for target in targets():
        if target.name == name:
            # The same modes, whose numbers may differ where their masses are equal.
            pairs = set(zip(modes, target.mode(x)))
            assert len(pairs) == len(set(modes))
            # Those of the galaxies are equal by symmetry, and their truth takes long runs of NUTS.
            if not name.startswith("galaxies"):
                truth = target.truth.masses
                assert all(exact[i] == pytest.approx(truth[j], abs=1e-6) for i, j in pairs)


def test_masses_of_small_posteriors_are_those_of_the_prior_with_weights():
    from benchmarks.peers.clock.exact import data_of, masses_of
    from benchmarks.peers.clock.posteriors import POSTERIORS
    from benchmarks.peers.clock.priors import from_cube

    for name, number in {"README's model, 1-d": 20_000, "four periods, 1-d": 200_000}.items():
        posterior = POSTERIORS[name]
        line = (np.arange(number) + 0.5)[:, None] / number
        x = from_cube(posterior.priors, special, np.stack)(line)
        log_likelihood = posterior.log_likelihood(x, data_of(name), np)
        weights = np.exp(log_likelihood - log_likelihood.max())
        np.testing.assert_allclose(posterior.masses(x, weights), masses_of(name), atol=1e-3)


def test_priors_by_cubes_and_by_scores_are_those_of_scipy():
    from benchmarks.peers.clock.priors import HalfNormal, Normal, Uniform, from_cube, from_scores

    priors = Normal(0.3, 2.0), Uniform(-1.0, 3.0), HalfNormal(2.0)
    u = np.linspace(0.01, 0.99, 9)
    expected = np.stack([prior.of_scipy(stats).ppf(u) for prior in priors], -1)
    cube = np.stack([u] * 3, -1)
    np.testing.assert_allclose(from_cube(priors, special, np.stack)(cube), expected)
    scores = special.ndtri(cube)
    np.testing.assert_allclose(from_scores(priors, special, np.stack)(scores), expected)
    far = from_scores(priors, jax.scipy.special, jnp.stack)(jnp.full(3, 6.0))
    assert float(far[2]) == pytest.approx(2 * stats.norm.isf(stats.norm.sf(6) / 2), rel=1e-3)


# ---------------------------------------------------------------- processes


def test_what_needs_no_jax_does_not_import_it():
    import subprocess
    import sys

    from benchmarks.peers.clock import start

    script = (
        "import sys; import benchmarks.peers.clock.process, benchmarks.peers.clock.by_numpy; "
        "print('jax' in sys.modules, 'numpyro_contour' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        capture_output=True,
        text=True,
        env=start.environment(),
    )
    assert ran.stdout.split() == ["False", "False"]


def test_a_process_that_fails_or_takes_too_long_says_so(tmp_path, monkeypatch):
    from benchmarks.peers.clock import start

    file = tmp_path / "data.npz"
    np.savez(file)
    found = start.run("ContourSGLD", "no such posterior", 0, file)
    assert found == {"failed": "KeyError: 'no such posterior'"}
    monkeypatch.setattr(start, "LIMIT", 0.01)
    assert start.run("NUTS", "nine modes, 2-d", 0, file) == {"failed": "> 0.01 s"}
    assert not any("COMPILATION_CACHE_DIR" in key for key in start.environment())


# ---------------------------------------------------------------- the page


def runs(seconds, error, exact, errors=(0.01, 0.01), rounds=3):
    masses = [exact[0] + error, exact[1] - error]
    one = {"seconds": seconds, "masses": masses, "peak": 2**30, "evaluations": 5000}
    return [{**one, "errors": list(errors)} for _ in range(rounds)]


def test_sentences_follow_from_the_figures(tmp_path):
    from benchmarks.peers.clock import results, text

    first, second, third = "mixture, 5-d", "two modes, 20-d", "README's model, 1-d"
    half, other = (0.5, 0.5), (0.4, 0.6)
    results.keep("eight schools", {"NUTS": [{"seconds": 7.0}]}, tmp_path)
    # A peer that is faster but wrong does not count.
    found = {
        "ContourSGLD": runs(10.0, 0.01, half),
        "NUTS": runs(5.0, 0.25, half, (0.1, None)),
        "dynesty": runs(11.0, 0.001, half),
    }
    results.keep(first, found, tmp_path)
    results.keep(
        second,
        {"ContourSGLD": runs(20.0, 0.01, other), "dynesty": runs(15.0, 0.01, other)},
        tmp_path,
    )
    exact = results.masses_of(third)
    failed = [{"failed": "ValueError: two | parameters"}]
    results.keep(third, {"ContourSGLD": runs(8.0, 0.03, exact), "nautilus": failed}, tmp_path)
    rows = results.kept_in(tmp_path)
    assert list(rows) == ["eight schools", third, first, second]
    page = text.section(rows)
    assert "On one of the three posteriors `ContourSGLD` reaches an error of 0.02" in page
    assert f"({first}). Faster on {second}: dynesty (15.0 s, 0.010)." in page
    assert f"`ContourSGLD` does not reach it on {third}. No peer does" in page
    assert "`ContourSGLD` ends within it on two of three posteriors" in page
    assert "which is 12.0 s here" in page
    assert "Errors are means over 3 rounds" in page
    predicted = 0.02 * np.sqrt(2 / np.pi) / 2
    assert f"| {first} | `ContourSGLD` | 10.0 | 0.010 | {predicted:.3f} | 5 | 1.00 |" in page
    assert f"| {first} | NUTS | 5.0 | 0.250 | — | 5 | 1.00 |" in page
    assert f"| {third} | nautilus | ValueError: two / parameters |" in page
    # One method again leaves the others as they are.
    results.keep(first, {"NUTS": runs(4.0, 0.0, half)}, tmp_path)
    again = results.kept_in(tmp_path)[first]
    assert list(again) == list(rows[first])
    assert again["NUTS"][0]["seconds"] == 4.0
    assert "Faster on mixture, 5-d: NUTS (4.0 s, 0.000)" in text.section(results.kept_in(tmp_path))
    assert json.loads((tmp_path / "peers" / "by-the-clock.json").read_text())[first] == again
