"""What the warm-up of a run has found."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import xarray as xr
from numpyro.infer import MCMC

from numpyro_contour.adaptation.measured_move import TARGET_ACCEPTANCE
from numpyro_contour.adaptation.relaxation_times import RelaxationTimes
from numpyro_contour.adaptation.window import SD_RANGE
from numpyro_contour.core.arrays.vectors import by_chain, coordinate_names
from numpyro_contour.runs.energies_over_all_rows import energy_offsets

# An energy that spreads less than this share of itself is at rest: it is rounded to that.
_AT_REST = 1e-7


def warmup_dataset(mcmc: MCMC) -> xr.Dataset | None:
    """The warm-up as the group `warmup` of an InferenceData; None where everything was given."""
    stages = mcmc.sampler.stage_names()
    if not stages:
        return None
    warmup = mcmc.last_state.warmup
    history = {name: _float64(x, 1) for name, x in warmup.history._asdict().items()}
    moved = history["energy_sd"][:, -1] > _AT_REST * np.abs(history["energy"][:, -1])
    ended = by_chain(warmup.iteration, 0) >= by_chain(warmup.length, 0)
    for name in ("energy", "lower", "upper"):
        history[name] += energy_offsets(mcmc.last_state)[:, None]
    history["lower_edge"], history["upper_edge"] = history.pop("lower"), history.pop("upper")
    if np.isnan(history["lower_edge"]).all():
        del history["lower_edge"], history["upper_edge"]
    tuning = warmup.tuning
    values: dict[str, Any] = {name: (("chain", "stage"), x) for name, x in history.items()}
    values |= {"ended": (("chain",), ended.astype(int)), "moved": (("chain",), moved.astype(int))}
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
    attributes = {
        "num_warmup": draws,
        "target_acceptance": TARGET_ACCEPTANCE,
        "energy_sd_range": list(SD_RANGE),
    }
    return xr.Dataset(values, coords, attributes)


def noise_text(mcmc: MCMC) -> str | None:
    """How noisy energies and gradients of a run were; None where they were exact or given."""
    group = warmup_dataset(mcmc)
    if group is None or not (group["energy_noise"] > 0).any():
        return None
    text = f"Noise: energy {_median_and_worst(group['energy_noise'], '.3g')} nats"
    if "energy_noise_in_bins" in group:
        text += f" ({_median_and_worst(group['energy_noise_in_bins'], '.2g')} bins)"
    if "gradient_noise_share" in group:
        share = float(group["gradient_noise_share"].max("coordinate").median())
        text += f", gradient at most {share:.1%} of a step's noise"
    if "control_variate" in group:
        used, chains = int(group["control_variate"].sum()), group.sizes["chain"]
        text += f"; control variate in use in {used} of {chains} chains"
    return text


def _median_and_worst(by_chain: xr.DataArray, form: str) -> str:
    """The median over the chains, and the worst chain's where it is more than twice that."""
    median, worst = float(by_chain.median()), float(by_chain.max())
    return f"{median:{form}}" + (f", worst chain {worst:{form}}" if worst > 2 * median else "")


def relaxation_times(mcmc: MCMC) -> RelaxationTimes | None:
    """Relaxation times and the shares of noise in the steps, (chain, coordinate) each.

    None where the step size was given.
    """
    times = mcmc.sampler.relaxation_times
    found = (times if mcmc.num_chains == 1 else jax.vmap(times))(mcmc.last_state)
    return None if found is None else RelaxationTimes(*[_float64(x, 1) for x in found])


def _float64(leaf: Any, ndim: int) -> np.ndarray:
    return by_chain(leaf, ndim).astype(np.float64)
