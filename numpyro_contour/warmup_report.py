"""What the warm-up of a run has found, and whether it can be trusted."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import xarray as xr
from numpyro.infer import MCMC

from numpyro_contour.adaptation.relaxation import RelaxationTimes
from numpyro_contour.adaptation.tuning import TARGET_ACCEPTANCE
from numpyro_contour.adaptation.warmup import SD_RANGE
from numpyro_contour.flat import by_chain, coordinate_names
from numpyro_contour.full_energies import energy_offsets

# Below this mean of the acceptance statistic (0.9 is aimed at) no step size was found.
_LOWEST_ACCEPTANCE = 0.6
# Fewest relaxation times from which anything can be estimated.
_FEWEST_RELAXATIONS = 10
# A mean energy that falls by this many standard deviations from one stage to the next has not
# settled.
_FALL = 2.0


def warmup_dataset(mcmc: MCMC) -> xr.Dataset | None:
    """The warm-up as the group `warmup` of an InferenceData; None where everything was given."""
    stages = mcmc.sampler.stage_names()
    if not stages:
        return None
    warmup = mcmc.last_state.warmup
    history = {name: _float64(x, 1) for name, x in warmup.history._asdict().items()}
    for name in ("energy", "lower", "upper"):
        history[name] += energy_offsets(mcmc.last_state)[:, None]
    history["lower_edge"], history["upper_edge"] = history.pop("lower"), history.pop("upper")
    if np.isnan(history["lower_edge"]).all():
        del history["lower_edge"], history["upper_edge"]
    tuning = warmup.tuning
    values: dict[str, Any] = {name: (("chain", "stage"), x) for name, x in history.items()}
    values["energy_noise"] = (("chain",), np.sqrt(_float64(tuning.energy_noise, 0)))
    if hasattr(mcmc.last_state, "partition"):
        width = _float64(mcmc.last_state.partition.width, 0)
        values["energy_noise_in_bins"] = (("chain",), values["energy_noise"][1] / width)
    if warmup.anchor:
        values["control_variate"] = (("chain",), _float64(warmup.anchor.weight, 0).astype(int))
    found = relaxation_times(mcmc)
    if found is not None:
        values["relaxation_times"] = (("chain", "coordinate"), found.times)
        values["gradient_noise_share"] = (("chain", "coordinate"), found.noise_share)
    for name, x in (
        ("preconditioner", tuning.preconditioner),
        ("gradient_noise", np.sqrt(tuning.gradient_noise)),
    ):
        values[name] = (("chain", "coordinate"), _float64(x, 1))
    chains = np.arange(values["preconditioner"][1].shape[0])
    numbered = [f"{i + 1} {stage}" for i, stage in enumerate(stages)]
    coordinates = coordinate_names(mcmc.last_state.z, batch=int(mcmc.num_chains > 1))
    coords = {"chain": chains, "stage": numbered, "coordinate": coordinates}
    draws = int(np.max(warmup.length))
    return xr.Dataset(values, coords, {"num_warmup": draws, "target_acceptance": TARGET_ACCEPTANCE})


def warmup_faults(mcmc: MCMC) -> list[str]:
    """Why the warm-up of a run cannot be trusted, one sentence each; none if it can."""
    stages = mcmc.sampler.stage_names()
    if not stages:
        return []
    state = mcmc.last_state
    history = {name: _float64(x, 1) for name, x in state.warmup.history._asdict().items()}
    done = by_chain(state.warmup.iteration, 0) >= by_chain(state.warmup.length, 0)
    if not done.all():
        return ["The warm-up has not ended: nothing that was tuned is final."]
    faults = []
    energy, sd = history["energy"], history["energy_sd"]
    if not np.isfinite(energy[:, -1]).all():
        chain = int(np.argmin(np.isfinite(energy[:, -1])))
        faults.append(
            f"The potential energy of chain {chain} was not finite during warm-up: check the model "
            "for NaN, and `init_strategy` for a start outside its support."
        )
    still = sd[:, -1] <= 1e-7 * np.maximum(np.abs(energy[:, -1]), 1e-30)
    if still.any():
        faults.append(
            f"Chain {int(np.argmax(still))} did not move in warm-up: whatever was accepted is too "
            "small to change the potential energy. Check the model around the start for values "
            "that are not finite."
        )
    before = len(stages) - 2
    fall = (energy[:, before] - energy[:, -1]) / np.maximum(sd[:, -1], 1e-30)
    if np.nanmax(fall, initial=0.0) > _FALL:
        chain = int(np.nanargmax(fall))
        faults.append(
            f"The potential energy of chain {chain} was still falling when the warm-up ended, by "
            f"{fall[chain]:.1f} of its standard deviations: raise `num_warmup`."
        )
    measured = [i for i, stage in enumerate(stages) if stage in ("tune", "settle")]
    if "tune" in stages:
        acceptance = history["acceptance"][:, measured[-1]]
        if np.nanmin(acceptance, initial=1.0) < _LOWEST_ACCEPTANCE:
            chain = int(np.nanargmin(acceptance))
            faults.append(
                f"No step size was found for chain {chain}: moves at the final one have a mean "
                f"acceptance of {acceptance[chain]:.2f} where 0.9 was aimed at. Raise "
                "`num_warmup`, or give `step_size`."
            )
    found = relaxation_times(mcmc)
    if found is not None:
        times = np.where(found.noise > 0.5, found.times, np.inf)
        chain, coordinate = (int(i) for i in np.unravel_index(np.argmin(times), times.shape))
        if times[chain, coordinate] < _FEWEST_RELAXATIONS:
            name = coordinate_names(state.z, batch=int(mcmc.num_chains > 1))[coordinate]
            faults.append(
                f"The noise of the gradient forces steps too small to move in this run: `{name}` "
                f"of chain {chain} had time to forget its place {times[chain, coordinate]:.2g} "
                "times. Use larger minibatches, or raise `num_samples` or `num_steps`."
            )
    if "pilot" in stages:
        ratio = sd[:, -1] / np.maximum(sd[:, stages.index("pilot")], 1e-30)
        outside = ~still & ((ratio < SD_RANGE[0]) | (ratio > SD_RANGE[1]))
        if outside.any():
            chain = int(np.argmax(outside))
            faults.append(
                f"The energy partition of chain {chain} is pinned at its limits: the spread of the "
                f"energy is {ratio[chain]:.2g} of what the pilot saw. Raise `num_warmup`, or give "
                "`partition`."
            )
    return faults


def noise_text(mcmc: MCMC) -> str | None:
    """How noisy energies and gradients of a run were; None where they were exact or given."""
    group = warmup_dataset(mcmc)
    if group is None or not (group["energy_noise"] > 0).any():
        return None
    text = f"Noise: energy {float(group['energy_noise'].median()):.3g} nats"
    if "energy_noise_in_bins" in group:
        text += f" ({float(group['energy_noise_in_bins'].median()):.2g} bins)"
    if "gradient_noise_share" in group:
        share = float(group["gradient_noise_share"].max("coordinate").median())
        text += f", gradient at most {share:.1%} of a step's noise"
    if "control_variate" in group:
        used, chains = int(group["control_variate"].sum()), group.sizes["chain"]
        text += f"; control variate in use in {used} of {chains} chains"
    return text


def relaxation_times(mcmc: MCMC) -> RelaxationTimes | None:
    """Relaxation times and the shares of noise in the steps, (chain, coordinate) each.

    None where the step size was given.
    """
    times = mcmc.sampler.relaxation_times
    found = (times if mcmc.num_chains == 1 else jax.vmap(times))(mcmc.last_state)
    return None if found is None else RelaxationTimes(*[_float64(x, 1) for x in found])


def _float64(leaf: Any, ndim: int) -> np.ndarray:
    return by_chain(leaf, ndim).astype(np.float64)
