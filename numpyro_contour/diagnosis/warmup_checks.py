"""Whether the warm-up has found what it was to find."""

from __future__ import annotations

import numpy as np
import xarray as xr

from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.diagnosis.report import Verdict, verdict

# Below this share of the acceptance that was aimed at (0.9 or less) no step size was found.
_LOWEST_ACCEPTANCE = 2 / 3
# Fewest relaxation times from which anything can be estimated.
_FEWEST_RELAXATIONS = 10
# The range of the attribute `energy_sd_range`, for files that were written without it.
_SD_RANGE = (0.3, 3.0)
# A mean energy that falls by this many standard deviations from one stage to the next has not
# settled.
_FALL = 2.0
# Such a fall may be the first jump into a deeper mode, or the way down from a climb. Draws whose
# mean energy is at most this many standard deviations lower say that it ended there.
_SETTLED = 1.0
# A chain whose mean energy is so many standard deviations, and so many nats, above another's has
# not come to the same posterior, unless there is more room where it is.
_HEIGHT_SDS, _HEIGHT = 5.0, 10.0
# Stages in which chains walk on the density as it is, where their energies can be compared.
_UNFLATTENED = ("tune", "settle", "pilot")


def warmup(evidence: Evidence) -> list[Verdict]:
    """Every fault of the warm-up, or one verdict that there is none."""
    group = evidence.group("warmup")
    if group is None:
        return []
    if group.attrs.get("began_on_other_data"):
        words = (
            "The run went on from the state of a run on other data: step size, scales and whatever "
            "the warm-up found are of those, and the first draws begin in their posterior."
        )
        advice = "Warm up on these data: `mcmc.post_warmup_state = None` before `mcmc.run`."
        return [verdict("warm-up", 0, 1, True, words, advice)]
    group = group.transpose("chain", ...)
    if not group["ended"].values.all():
        words = "The warm-up has not ended: nothing that was tuned is final."
        return [verdict("warm-up", 0, 1, True, words, "Raise `num_warmup`.")]
    if not np.isfinite(group["energy"].values[:, -1]).all():
        chain = int(np.argmin(np.isfinite(group["energy"].values[:, -1])))
        words = f"The potential energy of chain {chain} was not finite during warm-up."
        advice = "Check the model for NaN, and `init_strategy` for a start outside its support."
        return [verdict("warm-up", 0, 1, True, words, advice)]
    stages = [str(name).split(" ")[1] for name in group["stage"].values]
    found = [
        *_rest(group),
        *_heights(group, stages),
        *_fall(group, stages, evidence),
        *_step_size(group, stages),
        *_relaxation(group, evidence.temperature),
        *_partition(group, stages),
    ]
    faults = [v for v in found if v.advice]
    draws = int(group.attrs["num_warmup"])
    missing = draws - int(group.attrs.get("num_warmup_given", draws))
    more = f", {missing} more than `num_warmup`," if missing else ""
    words = f"{draws} draws{more} found what they were to find.{_taken(group)}"
    return faults or [verdict("warm-up", 1, 1, False, words, "")]


def _rest(group: xr.Dataset) -> list[Verdict]:
    moved = group["moved"].values
    if moved.all():
        return []
    words = (
        f"Chain {int(np.argmin(moved))} did not move in warm-up: whatever was accepted is too "
        "small to change the potential energy."
    )
    advice = (
        "Check the model around the start for values that are not finite, and that the posterior "
        "is proper."
    )
    return [verdict("warm-up", 0, 1, True, words, advice)]


def _heights(group: xr.Dataset, stages: list[str]) -> list[Verdict]:
    """Chains that have come to very different energies, where none is wider than the other."""
    walks = [i for i, stage in enumerate(stages) if stage in _UNFLATTENED]
    if not walks or group.sizes["chain"] < 2:
        return []
    energy, sd = (group[name].values[:, walks[-1]] for name in ("energy", "energy_sd"))
    if np.isnan(energy).all():
        return []
    low = int(np.nanargmin(energy))
    # Of two modes of one mass the narrower one is deeper.
    room = np.log(np.maximum(group["preconditioner"].values, 1e-30)).sum(1)
    height = energy - energy[low]
    height = np.minimum(height, height - 0.5 * (room - room[low]))
    limit = max(_HEIGHT, _HEIGHT_SDS * sd[low])
    chain = int(np.nanargmax(height))
    words = (
        f"The potential energy of chain {chain} was {height[chain]:.3g} nats above that of chain "
        f"{low} after the descent, the room around them counted (limit {limit:.3g})."
    )
    advice = (
        "It has not arrived, or is in a mode of no weight: raise `num_warmup` or `num_steps`, give "
        "`init_params`, or leave it out (`chains`)."
    )
    return [verdict("warm-up", height[chain], limit, height[chain] > limit, words, advice)]


def _taken(group: xr.Dataset) -> str:
    """Which chains were given the place of another, in words."""
    if "taken_from" not in group:
        return ""
    taken = group["taken_from"].values
    return "".join(
        f" Chain {chain} began at the place of chain {taken[chain]}: its own descent led nowhere."
        for chain in np.flatnonzero(taken >= 0)
    )


def _fall(group: xr.Dataset, stages: list[str], evidence: Evidence) -> list[Verdict]:
    energy, sd = group["energy"].values, np.maximum(group["energy_sd"].values, 1e-30)
    of_draws = _mean_energy(evidence)

    def fell(a: int, b: int) -> np.ndarray:
        """From one stage to another, unless it ended there."""
        after = (energy[:, b] - of_draws) / sd[:, b]
        return np.where(after <= _SETTLED, 0.0, (energy[:, a] - energy[:, b]) / sd[:, b])

    falls = [fell(-2, -1)]
    if "settle" in stages:
        # A flattened density has energies of its own: what fell before does not show there.
        a, b = [i for i, stage in enumerate(stages) if stage in _UNFLATTENED][-2:]
        falls.append(fell(a, b))
    fall = np.fmax.reduce(falls)
    if np.isnan(fall).all():
        return []
    chain = int(np.nanargmax(fall))
    words = (
        f"The potential energy of chain {chain} was still falling late in the warm-up, by "
        f"{fall[chain]:.3g} of its standard deviations (limit {_FALL:g})."
    )
    advice = "Raise `num_warmup`, and check that the posterior is proper: else it falls for ever."
    is_bad = fall[chain] > _FALL
    return [verdict("warm-up", fall[chain], _FALL, is_bad, words, advice)]


def _mean_energy(evidence: Evidence) -> np.ndarray:
    """The weighted mean energy of each chain's draws, (chains,); NaN where none has weight."""
    weights = np.exp(evidence.log_weights)
    with np.errstate(invalid="ignore"):
        weights = weights / weights.sum(1, keepdims=True)
    # A draw without weight may have an energy that is not finite.
    return np.where(weights > 0, weights * evidence.energy, 0.0 * weights).sum(1)


def _step_size(group: xr.Dataset, stages: list[str]) -> list[Verdict]:
    if "tune" not in stages:
        return []
    last = max(i for i, stage in enumerate(stages) if stage in ("tune", "settle"))
    acceptance = group["acceptance"].values[:, last]
    if np.isnan(acceptance).all():
        return []
    chain = int(np.nanargmin(acceptance))
    lowest = round(_LOWEST_ACCEPTANCE * float(group.attrs["target_acceptance"]), 2)
    words = (
        f"No step size was found for chain {chain}: moves at the final one have a mean acceptance "
        f"of {acceptance[chain]:.2f} where {group.attrs['target_acceptance']} was aimed at "
        f"(limit {lowest:.2g})."
    )
    is_bad = acceptance[chain] < lowest
    advice = "Raise `num_warmup`, or give `step_size`."
    return [verdict("warm-up", acceptance[chain], lowest, is_bad, words, advice)]


def _relaxation(group: xr.Dataset, temperature: float) -> list[Verdict]:
    """Steps that the noise of the gradient keeps too small to get anywhere."""
    if "relaxation_times" not in group or temperature <= 0:
        return []
    noise = group["preconditioner"].values * group["gradient_noise"].values ** 2 / temperature
    # Else the product is what this is.
    if "preconditioner_matrix" in group or "preconditioner_directions" in group:
        noise = group["preconditioner_noise"].values
    times = np.where(noise > 0.5, group["relaxation_times"].values, np.inf)
    chain, coordinate = (int(i) for i in np.unravel_index(np.argmin(times), times.shape))
    few = times[chain, coordinate]
    words = (
        "The noise of the gradient forces steps too small to move in this run: "
        f"`{group['coordinate'].values[coordinate]}` of chain {chain} had time to forget its place "
        f"{few:.2g} times (limit {_FEWEST_RELAXATIONS})."
    )
    advice = "Use larger minibatches, or raise `num_samples` or `num_steps`."
    is_bad = few < _FEWEST_RELAXATIONS
    return [verdict("gradient noise", few, _FEWEST_RELAXATIONS, is_bad, words, advice)]


def _partition(group: xr.Dataset, stages: list[str]) -> list[Verdict]:
    if "pilot" not in stages:
        return []
    sd = group["energy_sd"].values
    ratio = sd[:, -1] / np.maximum(sd[:, stages.index("pilot")], 1e-30)
    # The width follows the spread within this range; beyond it, by a factor of two costs little.
    lowest, highest = group.attrs.get("energy_sd_range", _SD_RANGE)
    lowest, highest = lowest / 2, highest * 2
    outside = (group["moved"].values > 0) & ((ratio < lowest) | (ratio > highest))
    chain = int(np.argmax(outside))
    words = (
        f"The bins of chain {chain} are of the wrong width: its energy has {ratio[chain]:.2g} "
        "times the spread that it had in the stage of warm-up from which they were made (limits "
        f"{lowest:g} and {highest:g})."
    )
    limit = lowest if ratio[chain] < lowest else highest
    advice = "Raise `num_warmup`, or give `partition`; if energies are noisy, mend that first."
    return [verdict("warm-up", ratio[chain], limit, bool(outside.any()), words, advice)]
