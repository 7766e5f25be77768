"""Why chains are slow, as far as their draws show it, and what to do about it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import stats

from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.diagnosis.report import BAD, Verdict
from numpyro_contour.statistics.crossings import has_peaks
from numpyro_contour.statistics.quick_looks import quick_sizes
from numpyro_contour.statistics.scalars import numeric_variables

#: the checks that slow chains fail
_SLOW = ("length", "chains", "effective draws")
# The slowest coordinates are looked at, this many of them.
_MOST_COORDINATES = 100
# Chains that are so much slower than they could be are slow for that reason.
_SLOWDOWN = 30.0
# From this correlation on two coordinates alone are the reason.
_PAIR = 0.95
# Coordinates that take part in a direction by at least this share of the first one are named.
_TAKES_PART, _MOST_NAMED = 0.3, 4
# Standard deviations so far apart that no single step serves both.
_SCALES, _SCALES_WITHOUT_PRECONDITIONER = 1e4, 30.0
# A funnel: ranks of scale and spread go together, and the spread is this many times as large in
# the widest tenth of the draws as in the narrowest.
_GOES_WITH, _WIDENS = 0.5, 5.0
# The end of the names of coordinates of sites that are sampled partly non-centred.
_ENDING = "_decentered"


def explained(verdicts: list[Verdict], evidence: Evidence) -> list[Verdict]:
    """The verdicts, the first that slow chains fail with the cause in its advice."""
    for i, found in enumerate(verdicts):
        if found.check in _SLOW and found.outcome == BAD:
            cause = _cause(evidence)
            if cause:
                verdicts[i] = found._replace(advice=f"{found.advice} {cause}".strip())
            break
    return verdicts


def _cause(evidence: Evidence) -> str:
    chains, draws = evidence.log_weights.shape
    names, values = evidence.scalars
    if not evidence.weighed or draws < 20 or not names:
        return ""
    weights = np.exp(evidence.log_weights)
    names, values = _coordinates(evidence, names, values)
    slowest = np.argsort(quick_sizes(values))[: min(_MOST_COORDINATES, chains * draws // 10)]
    names, values = [names[i] for i in slowest], values[..., slowest]
    preconditioner = evidence.settings.get("preconditioner")
    found = [
        _funnel(evidence, weights),
        _correlation(names, values, weights, preconditioner),
        _scale(names, values, weights, preconditioner),
    ]
    return " ".join(filter(None, found))


def _coordinates(
    evidence: Evidence, names: list[str], values: np.ndarray
) -> tuple[list[str], np.ndarray]:
    """The scalars that are sampled, and not computed from others, where the run tells which."""
    sampled = {f"`{name.replace(_ENDING, '')}`" for name in _sampled(evidence)}
    kept = [i for i, name in enumerate(names) if name in sampled]
    return ([names[i] for i in kept], values[..., kept]) if kept else (names, values)


def _sampled(evidence: Evidence) -> list[str]:
    """The names of the coordinates that are sampled, where the run tells them."""
    for group in ("equipartition", "warmup"):
        found = evidence.group(group)
        if found is not None and "coordinate" in found.coords:
            return [str(name) for name in found["coordinate"].values]
    return []


def _correlation(
    names: list[str], values: np.ndarray, weights: np.ndarray, preconditioner: object
) -> str:
    """Two coordinates that are nearly one, or several that add up to nearly nothing."""
    if len(names) < 2:
        return ""
    found = correlations(values, weights)
    factor, direction = slowdown(found)
    if factor < _SLOWDOWN:
        return ""
    # Where it was asked for, its windows were too short; eight directions may be too few.
    dense = "raise `num_warmup`" if preconditioner == "dense" else "try `preconditioner='dense'`"
    slow = f"slows chains down some {_about(factor)} times, whatever the scale of each coordinate"
    parts = np.abs(direction)
    order = np.argsort(-parts)
    involved = order[parts[order] >= _TAKES_PART * parts.max()][:_MOST_NAMED]
    pairs = np.abs(np.triu(found, 1))
    one, other = np.unravel_index(pairs.argmax(), pairs.shape)
    if pairs[one, other] >= _PAIR and {one, other} == set(involved.tolist()):
        pair = _near_one(float(found[one, other]))
        return (
            f"The cause: {names[one]} and {names[other]} have a correlation of {pair}, which "
            f"{slow}. Centre the columns that they multiply, write the model in their sum and "
            f"difference, or {dense}."
        )
    listed = ", ".join(names[i] for i in involved)
    return (
        f"The cause: a combination of {listed} is hardly known though each of them alone changes "
        f"the energy, as with collinear columns, and {slow}. Leave some of these columns out, "
        f"take their orthogonal (QR) form, or {dense}."
    )


def _scale(
    names: list[str], values: np.ndarray, weights: np.ndarray, preconditioner: object
) -> str:
    """Standard deviations that are far apart."""
    away = values - (weights[..., None] * values).mean(1, keepdims=True)
    sd = np.sqrt((weights[..., None] * away**2).mean((0, 1)))
    wide, narrow = int(sd.argmax()), int(sd.argmin())
    given = preconditioner == "identity"
    if sd[wide] <= (_SCALES_WITHOUT_PRECONDITIONER if given else _SCALES) * sd[narrow]:
        return ""
    mend = "Leave `preconditioner` to be tuned, or give" if given else "Give"
    return (
        f"The scales differ: the standard deviation of {names[wide]} is "
        f"{_about(sd[wide] / sd[narrow])} times that of {names[narrow]}. {mend} the columns a "
        "standard deviation of one."
    )


def _funnel(evidence: Evidence, weights: np.ndarray) -> str:
    """A variable whose spread goes with the value of another."""
    drawn = numeric_variables(evidence.groups["posterior"])
    single = {n: x.values.astype(float) for n, x in drawn.items() if x.ndim == 2}
    shifted = {name.partition("[")[0] for name in _sampled(evidence) if _ENDING in name}
    flat = weights.ravel()
    best = (_GOES_WITH, "", "", 0.0)
    for name, variable in drawn.items():
        if name + _ENDING in shifted:
            continue  # other coordinates are sampled, whose spread does not follow the scale
        # One number a draw, about its middle, or many about theirs.
        array = variable.values.reshape(*variable.shape[:2], -1).astype(float)
        several = array.shape[-1] >= 3
        if not several and has_peaks(array[..., 0], weights):
            continue  # how far it is from its middle tells the mode
        middle = array.mean(-1, keepdims=True) if several else np.median(array, (0, 1))
        spread = np.sqrt(((array - middle) ** 2).mean(-1))
        if not np.isfinite(spread).all() or not spread.min() > 0:
            continue
        low, high = np.quantile(spread, [0.1, 0.9])
        # A single number is near its middle by chance: that is no narrow place.
        widens = high / low if several else 0.1 * high / low
        for scale, x in single.items():
            if scale == name or widens < _WIDENS or not np.isfinite(x).all():
                continue
            together = rank_correlation(x.ravel(), spread.ravel(), flat)
            if together > best[0]:
                best = (together, name, scale, widens)
    together, name, scale, widens = best
    if not name:
        return ""
    return (
        f"The cause: the spread of `{name}` goes with `{scale}` (rank correlation {together:.2f}) "
        f"and is {_about(widens)} times as large in some draws as in others, a funnel. Write "
        f"`{name}` non-centred: `numpyro.infer.reparam.LocScaleReparam(0)`."
    )


def _about(factor: float) -> str:
    """A number with one digit that counts, in words for readers."""
    if factor >= 1e6:
        return f"{factor:.0e}".replace("e+0", "e").replace("e+", "e")
    size = 10 ** math.floor(math.log10(factor))
    return f"{round(factor / size) * size:,.0f}" if factor >= 10 else f"{factor:.1f}"


def _near_one(correlation: float) -> str:
    """A correlation with as many digits as tell it from one."""
    digits = int(np.clip(math.ceil(-math.log10(max(1 - abs(correlation), 1e-6))) + 1, 2, 6))
    return f"{correlation:.{digits}f}"


# An eigenvalue of a correlation matrix below this is rounding.
_LEAST = 1e-12


class Slowdown(NamedTuple):
    """The direction that chains with a scale for each coordinate need longest to cross."""

    #: K, 1 over the least eigenvalue of the precision matrix scaled to a diagonal of ones
    factor: float
    #: how much each coordinate takes part, (d,), of length 1
    direction: np.ndarray


def correlations(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The correlations of the coordinates within the chains, (d, d).

    Args:
        values: draws, (chains, draws, d).
        weights: their weights, (chains, draws), each chain's of mean 1.
    """
    products = np.zeros((values.shape[-1],) * 2)
    for x, of_chain in zip(values, weights):
        away = x - (of_chain[:, None] * x).mean(0)
        products += (of_chain[:, None] * away).T @ away
    scales = np.sqrt(np.maximum(np.diag(products), 1e-300))
    return products / scales / scales[:, None]


def slowdown(correlation: np.ndarray) -> Slowdown:
    r"""By how much correlation slows chains down whatever the scales of the coordinates.

    .. math:: K = 1 / \lambda_{\min}\bigl(D^{-1/2} R^{-1} D^{-1/2}\bigr), \qquad
              D = \operatorname{diag} R^{-1}

    Args:
        correlation: R, (d, d).

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.diagnosis.causes import slowdown
        >>> found = slowdown(np.array([[1.0, 0.0, 0.99], [0.0, 1.0, 0.0], [0.99, 0.0, 1.0]]))
        >>> round(found.factor), np.abs(found.direction).round(2).tolist()
        (100, [0.71, 0.0, 0.71])
    """
    values, vectors = np.linalg.eigh(correlation)
    precision = (vectors / np.maximum(values, _LEAST)) @ vectors.T
    scale = 1 / np.sqrt(np.diag(precision))
    least, directions = np.linalg.eigh(scale[:, None] * precision * scale)
    return Slowdown(float(1 / max(least[0], _LEAST)), directions[:, 0])


def rank_correlation(one: np.ndarray, other: np.ndarray, weights: np.ndarray) -> float:
    """The correlation of two scalars by their ranks, weights counted; 0 or NaN of a constant."""
    ranks = [stats.rankdata(x) for x in (one, other)]
    share = weights / weights.sum()
    a, b = (rank - share @ rank for rank in ranks)
    both = np.sqrt((share @ a**2) * (share @ b**2))
    return float(share @ (a * b) / both) if both > 0 else float("nan")
