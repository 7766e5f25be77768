"""The flights: what is shipped, what is fetched, and the regression on them."""

import hashlib
import importlib.util
import io
import tarfile
from importlib import resources

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import optimize

from numpyro_contour.examples import flights

TABLE = pd.DataFrame(
    {
        "date": pd.to_datetime(["2001-01-01 00:01", "2001-01-06 13:30", "2001-07-01 00:00"]),
        "delay": [33, 15, -1116],
        "distance": [2176, 21, 4962],
        "origin": ["LAS", "ATL", "MCI"],
    }
)
COLUMNS = ([1, 810, 0], [1, 6, 182], [2176, 21, 4962], [33, 15, -1116])


def test_a_sample_is_shipped():
    sample = flights.load(flights.SAMPLE_ROWS)
    assert [column.shape for column in sample] == [(10_000,)] * 4
    assert all(np.issubdtype(column.dtype, np.integer) for column in sample)
    assert (sample.minute.min() >= 0) & (sample.minute.max() < 1440)
    assert (sample.day.min(), sample.day.max()) == (1, 181)
    # Of all 3,000,000 rows 0.1997 are late, and the mean distance is 731.6 miles, the sd 575.
    assert abs(sample.late.mean() - 0.1997) < 4 * 0.4 / 100
    assert abs(sample.distance.astype(float).mean() - 731.6) < 4 * 575 / 100
    folder = resources.files("numpyro_contour.examples") / "data"
    assert "`flights.csv`" in (folder / "README.md").read_text(encoding="utf-8")


def test_rows_are_chosen_at_random_but_once():
    few, again, other = flights.load(50), flights.load(50), flights.load(50, seed=1)
    np.testing.assert_array_equal(few.delay, again.delay)
    assert not np.array_equal(few.delay, other.delay)
    assert len(set(few.day.tolist())) > 20
    np.testing.assert_array_equal(few.late, few.delay > 15)
    with pytest.raises(ValueError, match="`num_rows` takes an integer of at least 1"):
        flights.load(0)


def test_days_of_the_year_are_weekdays():
    table = flights.Flights(*map(np.array, COLUMNS))
    np.testing.assert_array_equal(table.weekday, [0, 5, 6])
    np.testing.assert_array_equal(table.weekday, TABLE["date"].dt.day_of_week)
    x, y = flights.regression(table)
    assert x.shape == (3, len(flights.COLUMNS))
    np.testing.assert_array_equal(y, [1, 0, 0])
    for row, name in enumerate((None, "Saturday", "Sunday")):
        ones = {label for label, value in zip(flights.COLUMNS[7:], x[row, 7:]) if value == 1}
        assert ones == ({name} if name else set())
    np.testing.assert_allclose(x[:, 1], np.log(np.array(COLUMNS[2]) / 700), rtol=1e-6)
    np.testing.assert_allclose(x[1, 3:5], [np.sin(np.pi * 1.125), np.cos(np.pi * 1.125)], rtol=1e-6)


@pytest.fixture
def archive(monkeypatch, tmp_path):
    """An archive in place of the published one, and the addresses that were asked for."""
    packed, asked = io.BytesIO(), []
    with tarfile.open(fileobj=packed, mode="w:gz") as members:
        info = tarfile.TarInfo(flights.MEMBER)
        info.size = 5
        members.addfile(info, io.BytesIO(b"bytes"))

    def urlopen(url, timeout):
        asked.append(url)
        return io.BytesIO(packed.getvalue())

    def read_parquet(file, columns):
        assert file.read() == b"bytes"
        return TABLE[columns]

    monkeypatch.setenv("NUMPYRO_CONTOUR_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    monkeypatch.setattr(pd, "read_parquet", read_parquet)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: "there")
    return packed, asked, tmp_path / "data"


def test_an_archive_is_fetched_once_and_checked(archive, monkeypatch):
    packed, asked, folder = archive
    with pytest.raises(ValueError, match="SHA-256"):
        flights.fetch()
    assert not folder.exists()
    monkeypatch.setattr(flights, "SHA256", hashlib.sha256(packed.getvalue()).hexdigest())
    for _ in range(2):
        with np.load(flights.fetch()) as arrays:
            for name, column in zip(flights.Flights._fields, COLUMNS):
                np.testing.assert_array_equal(arrays[name], column)
    assert asked == [flights.URL] * 2
    assert [path.name for path in folder.iterdir()] == ["flights-3m.npz"]
    monkeypatch.setattr(flights, "SAMPLE_ROWS", 1)
    assert sorted(flights.load(3).delay.tolist()) == sorted(COLUMNS[3])
    with pytest.raises(ValueError, match="`num_rows` takes at most 3, but got 4"):
        flights.load(4)


def test_without_pyarrow_it_says_what_to_do(archive, monkeypatch):
    _, asked, _ = archive
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install pyarrow"):
        flights.load()
    assert not asked


@pytest.mark.slow
def test_the_normal_approximation_is_that_of_the_posterior():
    x, y = flights.regression(flights.load(3000))
    mode, sds = flights.normal_approximation(x, y, prior_sd=5.0)

    def energy(beta):
        logits = x @ beta
        return jnp.sum(jnp.logaddexp(0.0, logits) - y * logits) + 0.5 * jnp.sum(beta**2) / 25

    found = optimize.minimize(
        lambda beta: float(energy(beta)), np.zeros(len(mode)), tol=1e-6, jac=jax.grad(energy)
    )
    np.testing.assert_allclose(mode, found.x, atol=2e-3)
    precision = np.asarray(jax.hessian(energy)(jnp.asarray(mode, jnp.float32)), float)
    np.testing.assert_allclose(sds, np.sqrt(np.diag(np.linalg.inv(precision))), rtol=1e-3)
