import re
import sys
from contextlib import redirect_stdout
from io import StringIO
from types import SimpleNamespace

import jax
import numpy as np
import pytest
import xarray as xr

from numpyro_contour.examples import demo, demo_nine_modes, demo_peers, demo_rows, phase_retrieval
from numpyro_contour.examples.demo_peers import Drawn
from numpyro_contour.examples.demo_runs import Job

JOB = Job(chains=2, warmup=1, draws=4, num_steps=10)


def drawn(signs, weights, rows=3_000_000):
    """Draws at the two modes."""
    w = np.array(signs)[..., None] * phase_retrieval.SIGNAL
    return Drawn(w, np.array(weights), rows, 1.5)


# ---------------------------------------------------------------------------------- the table


def test_a_row_weighs_its_draws_and_counts_crossings():
    row = demo_rows._row(drawn([[1, -1, -1, 1], [1, 1, 1, -1]], [[4, 1, 1, 2], [1, 1, 1, 1]]))
    np.testing.assert_allclose(row.by_chain, [0.75, 0.75])
    assert row.crossings == 1.5
    row = demo_rows._row(drawn([[1, 1], [-1, -1]], [[1.0, 3.0], [1.0, 1.0]]))
    assert (row.mass, row.error, row.crossings) == (0.5, 0.5, 0)


def test_the_table_holds_what_was_measured():
    rows = {"one": demo_rows._row(drawn([[1, 1, -1, 1], [1, 1, 1, -1]], np.ones((2, 4))))}
    text = demo_rows.describe_table(JOB, rows)
    exact = phase_retrieval.exact_mass()
    assert f"exact {exact:.3f}".split() == re.search(r"^exact.*$", text, re.M)[0].split()
    values = ["0.750", "0.000", f"{0.75 - exact:.3f}", "1.5", "3", "M", "1.5"]
    assert re.search(r"^one .*$", text, re.M)[0].split() == ["one", *values]
    assert "2 chains of 50 steps each" in text
    assert "100,000 rows make two modes, minibatches of 200 rows (0.2%)" in text


@pytest.mark.parametrize("there", [True, False])
def test_without_blackjax_its_row_is_missing_and_a_line_says_so(monkeypatch, there):
    if there:
        pytest.importorskip("blackjax")
    else:
        monkeypatch.setitem(sys.modules, "blackjax", None)  # so that its import fails
    one = drawn([[1, -1], [1, 1]], np.ones((2, 2)))
    for name in ("draw_csgld", "draw_nuts", "_drawn"):
        monkeypatch.setattr(demo_rows, name, lambda *args: one)
    monkeypatch.setattr(demo_rows, "run", lambda *args: None)
    runs = demo_rows.run_all(JOB, 1, jax.random.key(0))
    assert (demo_rows.CSGLD in runs.table) == there
    text = demo_rows.describe_table(JOB, runs.table)
    assert ("pip install 'numpyro_contour[demo]'" in text) != there


# ---------------------------------------------------------------------------------- the peers


@pytest.mark.long
def test_peers_draw_from_the_modes_where_they_are():
    """Their draws of |w'u| in a mode have the mean of the posterior: only crossings fail them."""
    pytest.importorskip("blackjax")
    data = tuple(jax.numpy.asarray(a) for a in phase_retrieval.load())
    length = np.linalg.norm(phase_retrieval.SIGNAL)
    nuts = demo_peers.draw_nuts(20, 4, jax.random.key(0), *data)
    csgld = demo_peers.draw_csgld(
        Job(chains=4, warmup=50, draws=100, num_steps=200), jax.random.key(1), *data
    )
    assert csgld.rows == 4 * 150 * 200 * 200
    assert nuts.rows > 2 * 4 * 20 * phase_retrieval.ROWS
    means = []
    for peer, draws in ((nuts, 20), (csgld, 100)):
        assert peer.w.shape == (4, draws, 3)
        np.testing.assert_allclose(peer.weights.mean(1), 1)
        along = np.abs(peer.w @ phase_retrieval.SIGNAL) / length
        means.append((peer.weights * along).mean(1) / peer.weights.mean(1))
    # Chains of csgld hold about five independent draws, whose sd is 0.02.
    assert means[0].mean() == pytest.approx(length, abs=0.02)
    assert means[1].mean() == pytest.approx(means[0].mean(), abs=0.02)


# ---------------------------------------------------------------------------------- its length


class Begun(Exception):
    """The second half has begun."""


def jobs_of(monkeypatch, *arguments):
    """The lengths of all runs of a demo, which makes none."""
    seen = []

    def nine(job, key):
        seen.append(job.chains * job.gradients)
        return {"ContourSGLD": SimpleNamespace(mcmc=None)}

    def rows(job, nuts_draws, key):
        seen.extend([job.chains * job.gradients, nuts_draws])
        raise Begun

    monkeypatch.setattr(demo_nine_modes, "run_all", nine)
    monkeypatch.setattr(demo_rows, "run_all", rows)
    monkeypatch.setattr(demo_nine_modes, "describe", lambda *args: "")
    for name in ("to_inference_data", "diagnose"):
        monkeypatch.setattr(demo, name, lambda *args: None)
    with pytest.raises(Begun):
        demo.main(arguments)
    return np.array(seen)


def test_quick_runs_are_shorter(monkeypatch):
    assert (jobs_of(monkeypatch, "--quick") < 0.5 * jobs_of(monkeypatch)).all()


# ---------------------------------------------------------------------------------- the whole


def output_of(*arguments):
    text = StringIO()
    with redirect_stdout(text):
        demo.main([str(argument) for argument in arguments])
    return text.getvalue()


def mass_in_file(text):
    return [float(x) for x in re.search(r"P\(mode\) = (\d\.\d+) \+- (\d\.\d+)", text).groups()]


@pytest.mark.long
@pytest.mark.optimized
def test_the_demo_ends_without_a_fault_and_writes_what_it_found(tmp_path, monkeypatch):
    # The rows take nine tenths of the time; the nine modes need all of their draws to be trusted.
    monkeypatch.setattr(demo_nine_modes, "QUICK_JOB", demo_nine_modes.JOB)
    text = output_of("--quick", "--output", tmp_path)
    assert text.count("No fault was found.") == 2, text
    assert_masses(text)
    assert_file(tmp_path / "phase_retrieval.nc", text)
    assert_figures(tmp_path)


def assert_masses(text):
    exact = phase_retrieval.exact_mass()
    mass, error = mass_in_file(text)
    assert error < 0.06
    assert mass == pytest.approx(exact, abs=4 * error)
    table = text.split("Phase retrieval")[1].split("\nerror:")[0]
    rows = {
        name: [float(x) for x in re.search(rf"^{name} ([^M]*) M", table, re.M)[1].split()]
        for name in ("ContourSGLD", "SGLD", "NUTS on all rows")
    }
    assert rows["ContourSGLD"][0] == pytest.approx(mass, abs=0.0015)
    assert rows["ContourSGLD"][3] > 4  # crossings
    assert rows["NUTS on all rows"][3] == 0
    distances = re.search(r"all chains together: +SGLD ([\d.]+) +ContourSGLD ([\d.]+)", text)
    sgld, contour = (float(number) for number in distances.groups())
    assert contour < sgld < 1
    assert "0.0494 0.1239 0.0494" in text


def assert_file(file, text):
    assert str(file) in text
    with xr.open_dataset(file, group="weighted_sample_stats") as stats:
        stats = stats.load()
    weights = np.exp(stats["log_weight"].values)
    np.testing.assert_allclose(weights.mean(axis=1), 1.0)
    theta = np.exp(stats["log_theta"])
    assert theta.shape == (*weights.shape, theta.shape[-1])
    np.testing.assert_allclose(theta.sum(axis=-1), 1.0, rtol=1e-4)
    with xr.open_dataset(file, group="weighted_posterior") as posterior:
        of_mode = phase_retrieval.has_sign_of_signal(posterior["w"].values)
    assert (weights * of_mode).mean() == pytest.approx(mass_in_file(text)[0], abs=0.0006)
    with xr.open_dataset(file, group="observed_data") as observed:
        assert observed["y"].shape == (phase_retrieval.ROWS,)


def assert_figures(folder):
    from matplotlib.image import imread

    picture = imread(folder / "warmup.png")
    assert picture.shape[:2] == (720, 960)
    assert all(panel[..., :3].std() > 0.05 for panel in np.array_split(picture, 3, axis=0))
    picture = imread(folder / "demo.png")
    assert picture.shape[:2] == (1080, 1320)
    # Four panels, none of them blank.
    for rows in np.array_split(picture[..., :3], 2, axis=0):
        for panel in np.array_split(rows, 2, axis=1):
            assert panel.std() > 0.05
