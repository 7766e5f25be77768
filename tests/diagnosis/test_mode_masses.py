"""Modes that chains missed, and masses that are not those of the modes, are told."""

import numpy as np
import pytest
import xarray as xr
from mode_groups import CHAINS, DRAWS, mode_groups

from numpyro_contour.diagnosis import mode_masses
from numpyro_contour.diagnosis.evidence import Evidence

ALL = (mode_masses.modes, mode_masses.jumps, mode_masses.by_bridges)


def of(check, groups):
    (found,) = check(Evidence(groups))
    return found


def reweighted(groups, chains, mode, factor):
    """The weights of a mode's draws in some chains times a factor."""
    stats = groups["sample_stats"]
    here = stats["mode"].values == mode
    here &= np.isin(np.arange(CHAINS), chains)[:, None]
    with np.errstate(divide="ignore"):
        log_weight = np.where(here, np.log(factor), 0.0)
    return groups | {"sample_stats": stats.assign(log_weight=(("chain", "draw"), log_weight))}


def test_masses_are_told_with_errors():
    groups = mode_groups([0.6, 0.3, 0.095, 0.005])
    found = of(mode_masses.modes, groups)
    assert (found.outcome, found.figure, found.limit) == ("good", 0.0, 0.1)
    assert "3 of 4 modes that are known have masses above 1%: " in found.finding
    # Independent draws: the error of 0.6 is sqrt(0.6 * 0.4 / 4000).
    share = (groups["sample_stats"]["mode"].values == 0).mean()
    assert f"{share:.3f} +- 0.008 (0), " in found.finding


@pytest.mark.parametrize(("mass", "outcome"), [(0.2, "bad"), (0.08, "good")])
def test_a_mode_that_a_chain_missed(mass, outcome):
    groups = reweighted(mode_groups([0.4, 0.6 - mass, mass]), [1], 2, 0.0)
    found = of(mode_masses.modes, groups)
    assert found.outcome == outcome
    assert found.figure == pytest.approx(0.75 * mass, rel=0.1)
    assert "Chain 1 has no weight in mode 2" in found.finding
    # No chain was there: others have nothing to disagree about.
    nobody = of(mode_masses.modes, reweighted(groups, range(CHAINS), 2, 0.0))
    assert (nobody.outcome, nobody.figure) == ("good", 0.0)


def test_jumps_are_told_and_where_there_are_none():
    groups = mode_groups([0.5, 0.3, 0.17, 0.03])
    made = groups["modes"]["jumps_made"].values
    made[:, 0, 2] = made[:, 2, 0] = 10
    found = of(mode_masses.jumps, groups)
    assert found.outcome == "good"
    assert found.figure == pytest.approx((4 * 100 + 2 * 10) / (6 * 200))
    assert "of 4,800 tries to jump between the 3 modes" in found.finding
    assert "5% of those between 0 and 2, the fewest" in found.finding
    assert "exchanged none" not in found.finding
    # Jumps to a mode of little mass are no exchange.
    made[:, 2, :2] = made[:, :2, 2] = 0
    assert "Mode 2 (mass 0.17) exchanged none" in of(mode_masses.jumps, groups).finding


@pytest.mark.parametrize(
    ("bridged", "error", "outcome"),
    [
        ([0.7, 0.3], 0.01, "good"),
        ([0.62, 0.38], 0.01, "good"),  # not large
        ([0.5, 0.5], 0.01, "bad"),
        ([0.5, 0.5], 0.05, "good"),  # within the error of the bridge
        ([1.0, 1.0], 0.02, "bad"),  # of their sum
        ([0.5, np.nan], 0.01, None),
    ],
)
def test_masses_by_bridges(bridged, error, outcome):
    groups = mode_groups([0.7, 0.3], bridged, error)
    found = mode_masses.by_bridges(Evidence(groups))
    assert [one.outcome for one in found] == ([] if outcome is None else [outcome])


def test_masses_by_bridges_are_those_of_modes_that_bridges_tell():
    groups = mode_groups([0.4, 0.3, 0.3], [0.4, 0.3, np.nan])
    found = of(mode_masses.by_bridges, groups)
    assert found.outcome == "good"
    assert "Nothing is told of 3" in found.finding
    assert of(mode_masses.by_bridges, mode_groups([0.4, 0.3, 0.3], [0.2, 0.5, np.nan])).outcome == (
        "bad"
    )


def test_draws_that_seldom_change_modes_have_errors_that_say_so():
    """Three visits do not tell masses: far from the bridge, but not by five standard errors."""
    groups = mode_groups([0.7, 0.3], [0.5, 0.5])
    for place, trips in ((500, "good"), (0, "bad")):
        labels = np.ones((CHAINS, DRAWS), int)
        labels[:, DRAWS * 15 // 100 : DRAWS - DRAWS * 15 // 100] = 0  # there and back once
        if not place:
            labels = groups["sample_stats"]["mode"].values
        stats = groups["sample_stats"].assign(mode=(("chain", "draw"), labels))
        found = of(mode_masses.by_bridges, groups | {"sample_stats": stats})
        assert found.outcome == trips, found


def test_one_mode_is_silent_unless_a_bridge_speaks():
    groups = mode_groups([0.996, 0.004], [0.996, 0.004])
    assert [found for check in ALL for found in check(Evidence(groups))] == []
    elsewhere = mode_groups([0.996, 0.004], [0.4, 0.6])
    assert of(mode_masses.by_bridges, elsewhere).outcome == "bad"
    # Nor is anything told of a run that knows no modes.
    del groups["modes"]
    assert [found for check in ALL for found in check(Evidence(groups))] == []


def test_joined_runs_have_their_modes_in_common_or_none():
    one = mode_groups([0.7, 0.3], [0.7, 0.3])
    joined = {
        name: xr.concat([group, group], "chain", data_vars="all") for name, group in one.items()
    }
    assert of(mode_masses.by_bridges, joined).outcome == "good"
    joined["modes"]["mean"][5:] += 1
    assert [found for check in ALL for found in check(Evidence(joined))] == []


def test_no_tries_and_no_round_trips_are_told_in_words():
    groups = mode_groups([0.75, 0.25], [0.4, 0.6], jumps=0)
    labels = np.zeros((CHAINS, DRAWS), int)
    labels[3] = 1
    stats = groups["sample_stats"].assign(mode=(("chain", "draw"), labels))
    groups["sample_stats"] = stats
    assert of(mode_masses.jumps, groups).finding == (
        "No tries to jump between the 2 modes of 5% of the mass or more were made. Modes 0 (mass "
        "0.75), 1 (mass 0.25) exchanged none: the masses rest on what chains climbed over."
    )
    found = of(mode_masses.by_bridges, groups)
    assert found.outcome == "bad"
    assert "The mass of mode 0 is 0.75 (error unknown) by the weighted draws" in found.finding
