"""The modes that a run knows: who was there, how chains came from one to another, and their masses.

A run whose mass is all in one mode has nothing to tell here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import xarray as xr

from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.diagnosis.report import Verdict, verdict
from numpyro_contour.statistics.mode_shares import mode_shares

# Modes of less mass are not told of, and where all others together have less there is one mode.
_TOLD = 0.01
# Modes of so much mass should exchange jumps, and every chain should have been in one of so much.
_SIZEABLE, _MISSED = 0.05, 0.1
# So far a mass may be from that by bridge sampling, and by so many standard errors of both.
_APART, _ERRORS = 0.1, 5.0
_MOST_NAMED = 4


class _Masses(NamedTuple):
    """The masses of the modes by the weighted draws."""

    group: xr.Dataset
    mass: np.ndarray
    mcse: np.ndarray
    of_chains: np.ndarray

    @property
    def several(self) -> bool:
        """Whether there is mass in more than one mode."""
        return 1 - self.mass.max() >= _TOLD


def modes(evidence: Evidence) -> list[Verdict]:
    """The masses of the modes, and whether a chain never was where others found much mass."""
    known = _masses(evidence)
    if known is None or not known.several:
        return []
    order = np.argsort(-known.mass, kind="stable")
    told = [int(k) for k in order if known.mass[k] >= _TOLD]
    listed = ", ".join(f"{_mass(known.mass[k], known.mcse[k])} ({k})" for k in told[:_MOST_NAMED])
    more = len(told) - _MOST_NAMED
    words = f"{len(told)} of {known.mass.size} modes that are known have masses above {_TOLD:.0%}: "
    words += listed + (f" and {more} lesser ones" if more > 0 else "")
    missed = np.where((known.of_chains == 0).any(0), known.mass, 0.0)
    worst = int(missed.argmax())
    chains = np.flatnonzero(known.of_chains[:, worst] == 0)
    if missed[worst] > 0:
        one = chains.size == 1
        words += (
            f". Chain{'' if one else 's'} {', '.join(map(str, chains))} "
            f"{'has' if one else 'have'} no weight in mode {worst}, of mass {missed[worst]:.2g}"
        )
    words += f" (limit {_MISSED:g} for a mode that a chain missed)."
    advice = (
        "Chains disagree about the modes: raise `num_samples` or `num_steps`; `jumps` says how "
        "they came from one to another."
    )
    return [verdict("modes", missed[worst], _MISSED, missed[worst] > _MISSED, words, advice)]


def jumps(evidence: Evidence) -> list[Verdict]:
    """The share of the tries to jump between sizeable modes that were made, for information."""
    known = _masses(evidence)
    if known is None or not known.several or "jumps_tried" not in known.group:
        return []
    sizeable = np.flatnonzero(known.mass >= _SIZEABLE)
    if sizeable.size < 2:
        return []
    pairs = np.ix_(sizeable, sizeable)
    tried, made = (
        known.group[name].transpose("chain", "from_mode", "to_mode").values.sum(0)[pairs]
        for name in ("jumps_tried", "jumps_made")
    )
    share = made.sum() / max(tried.sum(), 1)
    tries = f"{share:.0%} of {tried.sum():,} tries" if tried.any() else "No tries"
    words = (
        f"{tries} to jump between the {sizeable.size} modes of {_SIZEABLE:.0%} of the mass or more "
        "were made"
    )
    # Both ways of a pair together: in the long run as many are made one way as the other.
    of_pairs = np.divide(
        made + made.T, tried + tried.T, out=np.full(made.shape, np.nan), where=tried + tried.T > 0
    )
    if sizeable.size > 2 and np.isfinite(of_pairs).any():
        one, other = sizeable[list(np.unravel_index(np.nanargmin(of_pairs), of_pairs.shape))]
        words += f", {np.nanmin(of_pairs):.0%} of those between {one} and {other}, the fewest"
    words += "."
    alone = sizeable[(made.sum(0) + made.sum(1)) == 0]
    if alone.size:
        named = ", ".join(f"{k} (mass {known.mass[k]:.2g})" for k in alone)
        words += (
            f" Mode{'' if alone.size == 1 else 's'} {named} exchanged none: the masses rest on "
            "what chains climbed over."
        )
    return [verdict("jumps", share, 0.0, False, words, "")]


def by_bridges(evidence: Evidence) -> list[Verdict]:
    """The masses of the draws against those by bridge sampling within the modes."""
    known = _masses(evidence)
    if known is None or "mass_by_bridge" not in known.group:
        return []
    bridged, errors = (
        known.group[name].values.astype(np.float64)
        for name in ("mass_by_bridge", "mass_by_bridge_mcse")
    )
    told = np.isfinite(bridged)
    total, of_bridges = known.mass[told].sum(), bridged[told].sum()
    if told.sum() < 2 or not total > 0 or not of_bridges > 0:
        return []
    # Both of the mass in modes that bridges tell of.
    mass, bridged, errors = known.mass / total, bridged / of_bridges, errors / of_bridges
    apart = np.where(told, np.abs(mass - bridged), 0.0)
    both = np.hypot(np.nan_to_num(known.mcse / total), np.nan_to_num(errors))
    is_far = (apart > _APART) & (apart > _ERRORS * both)
    if not known.several and not is_far.any():
        return []
    worst = int(np.where(is_far, 1 + apart, apart).argmax())
    words = (
        f"The mass of mode {worst} is {_mass(mass[worst], known.mcse[worst] / total)} by the "
        f"weighted draws, and {_mass(bridged[worst], errors[worst])} by bridge sampling within "
        f"each mode, which does not count visits: the largest difference of {told.sum()} modes "
        f"(limit {_APART:g}, by more than {_ERRORS:g} standard errors)."
    )
    untold = known.mass[~told].sum()
    if untold >= _SIZEABLE:
        words += f" Nothing is told of {untold:.0%} of the mass, in modes that no normal fits."
    advice = (
        "The draws are not spread over the modes as the density is: chains changed modes too "
        "seldom, or do not stay where steps are too long for a mode. Raise `num_samples` and "
        "`num_steps`, and see `crossings` and `curvature`."
    )
    return [verdict("mode masses", apart[worst], _APART, bool(is_far.any()), words, advice)]


def _masses(evidence: Evidence) -> _Masses | None:
    """None where no modes are known, or runs with modes of their own were joined."""
    group, labels = evidence.group("modes"), evidence.per_draw("mode")
    if group is None or labels is None or not evidence.weighed or labels.shape[1] < 8:
        return None
    if "chain" in group["mean"].dims:
        means = group["mean"].transpose("chain", ...).values
        if not (means == means[:1]).all():
            return None
        group = group.assign({n: x.isel(chain=0) for n, x in group.items() if n in _OF_ALL})
    found = mode_shares(labels, evidence.log_weights, group.sizes["mode"])
    return _Masses(group, found.share, found.mcse, found.of_chains)


#: variables without chains, which joining runs gives some
_OF_ALL = ("mean", "mass_by_bridge", "mass_by_bridge_mcse")


def _mass(mass: float, error: float) -> str:
    """A mass with its error."""
    if not np.isfinite(error):
        return f"{mass:.2f} (error unknown)"
    if error < 5e-4:  # none, as where a normal is the mode itself
        return f"{mass:.3f}"
    digits = 2 if error >= 0.01 else 3
    return f"{mass:.{digits}f} +- {error:.{digits}f}"
