"""What `diagnose` says of a search for modes, and of chains that disagree about them."""

import numpy as np
import pytest
import xarray as xr

from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.diagnosis.mode_checks import modes_by_chain, unseen_modes
from numpyro_contour.diagnosis.step_checks import divergences, guard


def evidence(labels, unseen=0.0, walks=0.0, modes=2, left_out=0.0, **stats):
    """Groups of a run whose draws were in these modes, (chains, draws)."""
    labels = np.asarray(labels)
    search = xr.Dataset(
        {
            "all_descents": ((), 96),
            "new_modes": ((), 3),
            "unseen_mass": ((), unseen),
            "left_out_mass": ((), left_out),
            "descents": (("known_mode",), np.full(modes, 10)),
        }
    )
    counted = np.array([[100 * (1 - walks), 100 * walks], [100 * walks, 100 * (1 - walks)]])
    walked = np.broadcast_to(counted, (len(labels), 2, 2))
    of_modes = xr.Dataset({"walks": (("chain", "from_mode", "to_mode"), walked)})
    values = {"mode": labels, "log_weight": np.zeros(labels.shape), **stats}
    draws = xr.Dataset({name: (("chain", "draw"), x) for name, x in values.items()})
    return Evidence({"sample_stats": draws, "mode_search": search, "modes": of_modes})


MIXED = np.random.default_rng(0).integers(2, size=(4, 200))


@pytest.mark.parametrize(
    ("unseen", "walks", "outcome"),
    [(0.01, 0.0, "good"), (0.2, 0.0, "bad"), (0.2, 0.3, "good"), (np.nan, 0.0, "not checked")],
)
def test_modes_that_may_be_missing(unseen, walks, outcome):
    (found,) = unseen_modes(evidence(MIXED, unseen, walks))
    assert found.outcome == outcome
    if outcome != "not checked":
        assert "96 descents found 2 modes, 3 of them by a single one" in found.finding
    assert ("parts of larger modes" in found.finding) == (walks > 0)


def test_modes_that_are_too_many_to_jump_between():
    (found,) = unseen_modes(evidence(MIXED, unseen=0.01, left_out=0.3))
    assert found.outcome == "bad"
    assert "the others have 30.0% of the mass" in found.finding


def test_descents_that_end_nowhere_tell_nothing():
    (found,) = unseen_modes(evidence(MIXED, modes=0))
    assert found.outcome == "not checked"
    assert found.finding.startswith("None of 96 descents ended in a mode")


def test_chains_that_agree_on_the_modes():
    (found,) = modes_by_chain(evidence(MIXED))
    assert found.outcome == "good"
    assert found.figure < 1.05


def test_chains_that_each_keep_to_a_mode():
    (found,) = modes_by_chain(evidence(np.array([[0], [0], [1], [1]]) * np.ones((4, 200), int)))
    assert found.outcome == "bad"
    slow = np.repeat(np.random.default_rng(1).integers(2, size=(4, 4)), 50, axis=1)
    (found,) = modes_by_chain(evidence(slow))
    assert found.outcome == "bad"


def test_one_mode_alone_is_not_compared():
    assert modes_by_chain(evidence(np.zeros((4, 200), int))) == []
    assert modes_by_chain(evidence(MIXED[:1])) == []


@pytest.mark.parametrize(("share", "outcome"), [(0.0, "good"), (0.005, "good"), (0.03, "bad")])
def test_trajectories_that_diverge(share, outcome):
    diverging = np.arange(800).reshape(4, 200) < 800 * share
    of_numpyro = {"diverging": diverging, "n_steps": np.full((4, 200), 7)}
    found = evidence(MIXED, **of_numpyro)
    (verdict,) = divergences(found)
    assert verdict.outcome == outcome
    assert verdict.figure == pytest.approx(share, abs=2e-3)
    assert guard(found) == []
    assert divergences(evidence(MIXED, diverging=diverging)) == []
