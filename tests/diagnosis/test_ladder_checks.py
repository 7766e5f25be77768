"""Whether replicas that never went through their ladder are told, and healthy ones left alone."""

import numpy as np
import pytest
import xarray as xr

from numpyro_contour.diagnosis import ladder_checks
from numpyro_contour.diagnosis.evidence import Evidence

CHAINS, DRAWS = 2, 1000


def groups(trips, modes=2, rates=(0.5, 0.5), **settings):
    """Draws that change modes often; `trips` round trips of each chain while they were made."""
    rng = np.random.default_rng(0)
    above = np.arange(DRAWS) // 20 % modes
    x = rng.normal(size=(CHAINS, DRAWS)) + 8 * above
    counted = np.floor(np.linspace(7, 7 + trips, DRAWS)).astype(int)
    steps = np.arange(1, DRAWS + 1) * 10 + 5000
    stats = {
        "log_weight": (("chain", "draw"), np.zeros((CHAINS, DRAWS))),
        "round_trips": (("chain", "draw"), np.tile(counted, (CHAINS, 1))),
        "steps": (("chain", "draw"), np.tile(steps, (CHAINS, 1))),
        "swap_rates": (("chain", "draw", "pair"), np.tile(rates, (CHAINS, DRAWS, 1))),
    }
    return {
        "posterior": xr.Dataset({"x": (("chain", "draw"), x)}),
        "sample_stats": xr.Dataset(stats, attrs=settings),
    }


def of(check, groups):
    (found,) = check(Evidence(groups))
    return found


@pytest.mark.parametrize(
    ("trips", "modes", "outcome"), [(0, 2, "bad"), (0, 1, "good"), (1, 2, "good")]
)
def test_no_round_trip_is_a_fault_where_there_are_modes(trips, modes, outcome):
    found = of(ladder_checks.ladder, groups(trips, modes))
    assert (found.outcome, found.figure, found.limit) == (outcome, CHAINS * trips, 1)
    # Two chains of 999 draws of ten steps; the trips before the first draw do not count.
    assert f"{1000 * trips / 9990:.3g} in 1,000 rounds" in found.finding
    assert "would make 167 with this barrier of 1.00" in found.finding


def test_rounds_and_windows_are_those_of_the_kernel():
    found = of(ladder_checks.ladder, groups(30, swap_every=10, swap_window=2))
    assert f"{1000 * 60 / 1998:.3g} in 1,000 rounds" in found.finding
    assert "would make 150 " in found.finding


def test_temperatures_are_told_where_rejections_are_uneven():
    told = lambda rates, temperatures: (
        of(ladder_checks.ladder, groups(0, rates=rates, temperatures=temperatures)).advice
    )
    assert "(1, 3.47, 8) would share" in told((0.8, 0.4), "(1.0, 2.0, 8.0)")
    # Not where they are even, say nothing, or are not numbers.
    assert "would share" not in told((0.5, 0.4), "(1.0, 2.0, 8.0)")
    assert "would share" not in told((0.8, 0.001), "(1.0, 2.0, 8.0)")
    assert "would share" not in told((0.8, 0.4), "(<function>, 2.0, 8.0)")


@pytest.mark.parametrize(
    ("settings", "modes", "outcome"),
    [
        ({"swap_window": 4}, 2, "bad"),
        ({"swap_window": 4}, 1, "good"),
        ({"swap_window": 1}, 2, None),
    ],
)
def test_a_wide_window_is_a_fault_where_there_are_modes(settings, modes, outcome):
    found = ladder_checks.window(Evidence(groups(9, modes, **settings)))
    assert [one.outcome for one in found] == ([] if outcome is None else [outcome])


def test_other_runs_have_no_ladder():
    without = groups(0)
    without["sample_stats"] = without["sample_stats"].drop_vars("round_trips")
    for check in (ladder_checks.ladder, ladder_checks.window):
        assert check(Evidence(without)) == []
