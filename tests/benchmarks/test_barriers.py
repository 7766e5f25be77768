"""The page on barriers: its bridge between two modes, and that it is made."""

import numpy as np
import pytest
from scipy import stats


@pytest.fixture(autouse=True)
def _from_the_root(pytestconfig, monkeypatch):
    monkeypatch.syspath_prepend(str(pytestconfig.rootpath))


def test_the_bridge_finds_a_known_ratio():
    """Normals of unit evidence and of e^2, the first wider than the second."""
    from benchmarks.barriers.unequal import bridge

    rng = np.random.default_rng(0)
    first, second = stats.norm(0, 1.5), stats.norm(0.5, 1)

    def log_ratio(x):
        return second.logpdf(x) + 2 - first.logpdf(x)

    forward = log_ratio(first.rvs(20_000, random_state=rng))
    backward = log_ratio(second.rvs(20_000, random_state=rng))
    assert bridge(forward, backward) == pytest.approx(2, abs=0.03)


def test_labels_are_put_in_order():
    from benchmarks.barriers.label_switching import REFERENCE, data, relabelled

    assert data().shape == (1000,)
    draws = {
        "mu": np.array([[[1.0, -2.0], [-2.0, 1.0]]]),
        "sigma": np.array([[[0.1, 0.2], [0.2, 0.1]]]),
        "weight": np.array([[0.3, 0.7]]),
    }
    found = relabelled(draws)
    assert list(found) == list(REFERENCE)
    for name, value in zip(REFERENCE, (-2.0, 1.0, 0.2, 0.1, 0.7)):
        np.testing.assert_allclose(found[name], value)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_page_is_made(tmp_path):
    from benchmarks.__main__ import main

    main(["gaussians", "--quick", "--output", str(tmp_path)])
    text = (tmp_path / "barriers.md").read_text()
    assert "40 nats, 5 dimensions" in text
    assert "nan" not in text
