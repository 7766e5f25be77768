"""Whether the chains are long enough, went up and down, and agree."""

from __future__ import annotations

import math

import numpy as np

from numpyro_contour.arviz_versions import effective_sample_size
from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.diagnosis.report import Verdict, unknown, verdict
from numpyro_contour.diagnostics import weighted_rhat
from numpyro_contour.flattening_diagnostics import round_trips, share_above

# Independent draws a chain, their weights not counted: half of what Vehtari et al. (2021) ask for
# R-hat and standard errors to be reliable.
_FEWEST_OF_CHAIN = 50
_FEWEST_TRIPS = 1
# A tenth of the draws stand for positions that reached so high.
_HIGH = 0.9
_LARGEST_RHAT = 1.1
# Exact R-hat and effective sizes are computed of so many coordinates, the worst by a quick look.
_LOOKED_AT = 30
_MOST_COORDINATES = 2000


def length(evidence: Evidence) -> list[Verdict]:
    """How many independent draws the chains hold, whatever their weights and wherever they are."""
    name = "length"
    chains, draws = evidence.log_weights.shape
    fewest = _FEWEST_OF_CHAIN * chains
    if draws < 8:
        words = f"{draws} draws a chain are too few to tell anything."
        return [verdict(name, chains * draws, fewest, True, words, "Raise `num_samples`.")]
    names, values = _coordinates(evidence)
    names, values = ["the potential energy", *names], np.dstack([evidence.energy, values])
    worst = np.argsort(_quick_sizes(values))[:_LOOKED_AT]
    found = [
        sum(effective_sample_size(chain[None], "bulk") for chain in values[..., i]) for i in worst
    ]
    sizes = np.where(np.isfinite(found), found, np.inf)
    least = int(np.argmin(sizes))
    words = (
        f"The chains hold {sizes[least]:.0f} independent draws of {names[worst[least]]} (limit "
        f"{fewest}, {_FEWEST_OF_CHAIN} a chain)."
    )
    advice = "Run longer: raise `num_samples`, or `num_steps`."
    return [verdict(name, sizes[least], fewest, sizes[least] < fewest, words, advice)]


def trips(evidence: Evidence) -> list[Verdict]:
    """Whether each chain went from typical energies to high ones and back."""
    name = "round trips"
    lowest, highest = (evidence.per_draw(f"{end}_energy") for end in ("lowest", "highest"))
    if lowest is None or highest is None or not evidence.weighed:
        return [] if not evidence.is_contour else [unknown(name, "Energies were not recorded.")]
    low = evidence.typical_energy
    # What is high is each chain's own: above all barriers it is a matter of chance.
    tops = np.quantile(highest, _HIGH, axis=1)
    counts = np.array(
        [
            round_trips(lowest[[i]], highest[[i]], low, top)[0] if top > low else 0
            for i, top in enumerate(tops)
        ]
    )
    chain = int(counts.argmin())
    high = tops[chain]
    above = share_above(evidence.energy, low)[chain]
    stayed = ""
    if counts[chain] < _FEWEST_TRIPS:
        stayed = f" {above:.0%} of its draws are above typical energies."
    words = (
        f"Chain {chain} went {counts[chain]} times from typical energies ({low:.4g} nats) up to "
        f"{high:.4g} and back (limit {_FEWEST_TRIPS}).{stayed} Nothing is known of barriers above "
        f"{tops.min():.4g}."
    )
    advice = (
        "Barriers were not crossed: run longer, start from several places, or raise `zeta` "
        "towards 1."
    )
    is_bad = counts[chain] < _FEWEST_TRIPS
    return [verdict(name, counts[chain], _FEWEST_TRIPS, is_bad, words, advice)]


def agreement(evidence: Evidence) -> list[Verdict]:
    """Whether the chains have sampled the same posterior."""
    name = "chains"
    chains, draws = evidence.log_weights.shape
    if chains == 1:
        return [unknown(name, "One chain cannot be compared: run several, from several places.")]
    if draws < 8 or not evidence.weighed:
        return [unknown(name, "There are too few weighted draws to compare the chains.")]
    names, values = _coordinates(evidence)
    if not names:
        return []
    worst = np.argsort(-_quick_rhat(values, np.exp(evidence.log_weights)))[:_LOOKED_AT]
    rhat = np.atleast_1d(weighted_rhat(values[..., worst], evidence.log_weights))
    if np.isnan(rhat).all():
        return [unknown(name, "Half of a chain has no weight: chains cannot be compared.")]
    at = int(np.nanargmax(rhat))
    words = f"R-hat of {names[worst[at]]} is {rhat[at]:.2f} (limit {_LARGEST_RHAT:g})."
    advice = (
        f"The chains disagree: {_odd_one(values[..., worst[at]], evidence)} they are in "
        "different modes, or too short. Run longer, and do not pool them."
    )
    return [verdict(name, rhat[at], _LARGEST_RHAT, rhat[at] > _LARGEST_RHAT, words, advice)]


def _odd_one(values: np.ndarray, evidence: Evidence) -> str:
    """Which chain is farthest from the median of the chains, in words."""
    means = (np.exp(evidence.log_weights) * values).mean(1)
    away = np.abs(means - np.median(means))
    chain = int(away.argmax())
    others = np.median(np.delete(means, chain))
    return f"the mean is {means[chain]:.3g} in chain {chain}, {others:.3g} in the middle one;"


def _coordinates(evidence: Evidence) -> tuple[list[str], np.ndarray]:
    """Scalar variables that vary, (chains, draws, variables), and their names.

    Of very many every so many are taken, from all variables alike.
    """
    drawn = {
        str(name): variable.transpose("chain", "draw", ...)
        for name, variable in evidence.groups["posterior"].data_vars.items()
        if variable.dtype.kind in "biuf" and {"chain", "draw"} <= set(variable.dims)
    }
    total = sum(math.prod(variable.shape[2:]) for variable in drawn.values())
    stride = -(-total // _MOST_COORDINATES)
    names, columns = [], []
    for name, variable in drawn.items():
        flat = variable.values.reshape(*variable.shape[:2], -1)
        array = flat[..., ::stride].astype(np.float64)
        varies = np.isfinite(array).all((0, 1)) & (np.ptp(array, axis=(0, 1)) > 0)
        places = [np.unravel_index(i, variable.shape[2:]) for i in range(0, flat.shape[2], stride)]
        names += [_label(name, place) for place, ok in zip(places, varies) if ok]
        columns.append(array[..., varies])
    shape = (*evidence.log_weights.shape, 0)
    return names, np.concatenate(columns, -1) if columns else np.zeros(shape)


def _label(name: str, place: tuple) -> str:
    return f"`{name}[{', '.join(str(i) for i in place)}]`" if place else f"`{name}`"


def _quick_sizes(values: np.ndarray) -> np.ndarray:
    """Effective sizes by the means of batches, of many variables at once; the order matters."""
    draws = values.shape[1]
    batch = max(2, int(draws**0.5))
    count = draws // batch
    batches = values[:, : count * batch].reshape(len(values), count, batch, -1).mean(2)
    within = values.var(1)
    return (count * within / np.maximum(batches.var(1), 1e-300)).sum(0)


def _quick_rhat(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The spread of the chains' means over that within, of many variables at once."""
    means = (weights[..., None] * values).mean(1)
    squares = (weights[..., None] * (values - means[:, None]) ** 2).mean((0, 1))
    return means.var(0) / np.maximum(squares, 1e-300)
