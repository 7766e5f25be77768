"""Which chains of a run are counted: those that the user names, or all that have any weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from numpyro_contour import checks
from numpyro_contour.checks import warn_user
from numpyro_contour.diagnosis.all_checks import report_of
from numpyro_contour.diagnosis.report import Report, verdict

#: numbers of chains, or one number
Chains = int | Sequence[int]


def without_weight(log_weights: np.ndarray) -> np.ndarray:
    """Which chains have no draw with any weight, (chains,)."""
    return ~np.isfinite(log_weights).any(1)


def chosen_places(
    log_weights: np.ndarray, chains: Chains | None, numbers: np.ndarray | None = None
) -> np.ndarray:
    """The places of the chains that are counted.

    Args:
        log_weights: log importance weights, (chains, draws).
        chains: the numbers of the chains. None for all that have any weight.
        numbers: the numbers of all chains. None (default) for 0, 1, ...

    Raises:
        ValueError: there is no such chain, or none of them has any weight.

    Warns:
        UserWarning: a chain without any weight is left out.
    """
    dead = without_weight(log_weights)
    numbers = np.arange(len(dead)) if numbers is None else numbers
    asked = np.ones(len(dead), bool)
    if chains is not None:
        named = np.atleast_1d(np.asarray(chains))
        if not named.size or not np.isin(named, numbers).all():
            raise checks.fail("chains", chains, f"None or some of the chains {numbers.tolist()}")
        asked = np.isin(numbers, named)
    why = "every move was refused, or made while a cycle explored"
    if not (asked & ~dead).any():
        if np.isnan(log_weights).any():
            raise checks.fail("log_weights", "NaN", "numbers, or minus infinity for a weight of 0")
        raise ValueError(f"{_named(numbers[asked])}: {why}.")
    if (asked & dead).any():
        warn_user(
            f"{_named(numbers[asked & dead])}: {why}. The others are counted; give their numbers "
            "as `chains` to say that this is meant."
        )
    return np.flatnonzero(asked & ~dead)


def chosen(groups: dict[str, xr.Dataset], chains: Chains | None) -> dict[str, xr.Dataset]:
    """The groups with the chains that are counted, as `chosen_places`."""
    numbers = groups["posterior"]["chain"].values
    kept = chosen_places(_log_weights(groups), chains, numbers)
    return groups if len(kept) == len(numbers) else _with_chains(groups, kept)


def report_on(groups: dict[str, xr.Dataset]) -> Report:
    """The report on a run; where chains have no weight, on the others, with them named first."""
    numbers = groups["posterior"]["chain"].values
    dead = without_weight(_log_weights(groups))
    if dead.all() or not dead.any():
        return report_of(groups)
    rest = report_of(_with_chains(groups, np.flatnonzero(~dead)))
    advice = (
        "Every move was refused, or made while a cycle explored: check the model around the "
        "start, and `init_strategy`. All that follows is about the others."
    )
    named = verdict("dead chains", dead.sum(), 0, True, f"{_named(numbers[dead])}.", advice)
    return Report(report_of(groups, ()).title, (named, *rest.verdicts))


def _named(numbers: np.ndarray) -> str:
    names = ", ".join(map(str, numbers))
    return f"No draw of chain{'' if len(numbers) == 1 else 's'} {names} has any weight"


def _log_weights(groups: dict[str, xr.Dataset]) -> np.ndarray:
    return groups["sample_stats"]["log_weight"].transpose("chain", "draw").values


def _with_chains(groups: dict[str, xr.Dataset], places: np.ndarray) -> dict[str, Any]:
    """The groups with these chains; draws from the prior are of no chain."""
    return {
        name: group.isel(chain=places)
        if "chain" in group.dims and not name.startswith("prior")
        else group
        for name, group in groups.items()
    }
