"""What the warm-up of a run found, as a group of an InferenceData and in words."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import xarray as xr

from numpyro_contour.core.arrays.factors import LowRank, diagonal, inverse_transposed
from numpyro_contour.core.arrays.vectors import coordinate_names
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.statistics.flatness import noise_at_energies, noise_at_energies_text
from numpyro_contour.warmup.stages.flatten import SD_RANGE
from numpyro_contour.warmup.stages.state import COLUMNS
from numpyro_contour.warmup.stages.tuning import Tuning

#: what a control variate expands, by its order
EXPANSIONS = {1: "first order", 2: "second order", 3: "by the data"}
# A chain whose energy varies by less than this share of itself is at rest: float32 rounds so much.
_AT_REST = 1e-7


def warmup_dataset(run: FinishedRun) -> xr.Dataset | None:
    """The warm-up as the group `warmup` of an InferenceData; None where everything was given."""
    if not run.stage_names:
        return None
    warmup = run.state.warmup
    history = {name: _float64(getattr(warmup.history, name)) for name in COLUMNS}
    moved = history["energy_sd"][:, -1] > _AT_REST * np.abs(history["energy"][:, -1])
    ended = np.asarray(warmup.iteration) >= np.asarray(warmup.length)
    for name in ("energy", "lower", "upper"):
        # Not in place: in double precision the array is the read-only one of the state.
        history[name] = history[name] + run.energy_offsets[:, None]
    history["lower_edge"], history["upper_edge"] = history.pop("lower"), history.pop("upper")
    if np.isnan(history["lower_edge"]).all():
        del history["lower_edge"], history["upper_edge"]
    tuning = warmup.tuning
    values: dict[str, Any] = {name: (("chain", "stage"), x) for name, x in history.items()}
    values |= {"ended": (("chain",), ended.astype(int)), "moved": (("chain",), moved.astype(int))}
    values["taken_from"] = (("chain",), np.asarray(warmup.taken_from))
    length = warmup.draw_length
    if length:
        values["num_steps"] = (("chain",), np.asarray(length.number))
    values["energy_noise"] = (("chain",), np.sqrt(_float64(tuning.energy_noise)))
    if run.is_contour:
        width = _float64(run.state.partition.width)
        values["energy_noise_in_bins"] = (("chain",), values["energy_noise"][1] / width)
    if run.anchors:
        weight = _float64(run.anchors.slots.weight)
        values["control_variate"] = (("chain",), weight.any(1).astype(int))
        values["anchors"] = (("chain",), (weight > 0).sum(1))
        for name, counted in (
            ("order", run.anchors.order),
            ("passes", run.anchors.passes),
            ("passes_refused", run.anchors.refused),
        ):
            values[name] = (("chain",), np.asarray(counted))
    found = run.relaxation_times()
    if found is not None:
        values["relaxation_times"] = (("chain", "coordinate"), found.times)
        values["gradient_noise_share"] = (("chain", "coordinate"), found.noise_share)
        values["preconditioner_noise"] = (("chain", "coordinate"), found.noise)
    values |= _preconditioner(tuning)
    numbered = [f"{i + 1} {stage}" for i, stage in enumerate(run.stage_names)]
    coords = {
        "chain": np.arange(run.num_chains),
        "stage": numbered,
        "coordinate": coordinate_names(run.like),
    }
    if "preconditioner_matrix" in values:
        coords["other_coordinate"] = coords["coordinate"]
    draws = int(np.max(warmup.length))
    attributes = {
        "most_steps_a_draw": run.kernel.parts.num_steps,
        "num_warmup": draws,
        "num_warmup_given": int(np.max(warmup.given)),
        "began_on_other_data": int(run.began_on_other_data),
        "target_acceptance": run.target_acceptance,
        "energy_sd_range": list(SD_RANGE),
    }
    return xr.Dataset(values, coords, attributes)


def _preconditioner(tuning: Tuning) -> dict[str, Any]:
    """M and the noise of the gradient by coordinate of the position."""
    scales, variances = _float64(tuning.preconditioner), _float64(tuning.gradient_noise)
    values: dict[str, Any] = {}
    if isinstance(tuning.factor, LowRank):
        lifted = jax.vmap(diagonal)
        values |= _directions(tuning.factor, scales)
        variances = _float64(lifted(inverse_transposed(tuning.factor), tuning.gradient_noise))
        scales = _float64(lifted(tuning.factor, tuning.preconditioner))
    elif tuning.frame:
        factor = _float64(tuning.factor)
        back = np.linalg.inv(factor).swapaxes(-1, -2)  # gradients of the position
        matrix = (factor * scales[:, None]) @ factor.swapaxes(-1, -2)
        dims = ("chain", "coordinate", "other_coordinate")
        values["preconditioner_matrix"] = (dims, matrix)
        scales = np.diagonal(matrix, axis1=-2, axis2=-1)
        variances = (back**2 @ variances[..., None])[..., 0]
    values["preconditioner"] = (("chain", "coordinate"), scales)
    values["gradient_noise"] = (("chain", "coordinate"), np.sqrt(variances))
    return values


def _directions(factor: LowRank, scales: np.ndarray) -> dict[str, Any]:
    """M as the diagonal matrix of the first and the products of the columns of the second."""
    within = _float64(factor.scales) ** 2 * scales
    columns = _float64(factor.scales)[..., None] * _float64(factor.directions)
    return {
        "preconditioner_across": (("chain", "coordinate"), within),
        "preconditioner_directions": (("chain", "coordinate", "direction"), columns),
        "preconditioner_stretches": (("chain", "direction"), _float64(factor.stretches) ** 2),
    }


def noise_text(run: FinishedRun) -> str | None:
    """A sentence on the noise of energies and gradients; None where it was not measured."""
    group = warmup_dataset(run)
    if group is None or not (group["energy_noise"] > 0).any():
        return None
    energy = _median_and_worst(group["energy_noise"], ".3g")
    text = f"Noise at the end of the warm-up: energy {energy} nats"
    if "energy_noise_in_bins" in group:
        text += f" ({_median_and_worst(group['energy_noise_in_bins'], '.2g')} bins)"
    if "gradient_noise_share" in group:
        share = float(group["gradient_noise_share"].max("coordinate").median())
        text += f", gradient at most {share:.1%} of a step's noise"
    if "control_variate" in group:
        text += f"; {_control_variate_text(group)}"
    known = run.computed.get("full_energies")
    if known is not None:
        levels = noise_at_energies(known.noise, known.energy)
        text += f"\n{noise_at_energies_text(levels)}"
    return text


def _control_variate_text(group: xr.Dataset) -> str:
    used, chains = int(group["control_variate"].sum()), group.sizes["chain"]
    text = f"control variate in use in {used} of {chains} chains"
    if not used:
        return text
    order = EXPANSIONS[int(group["order"].max())]
    number, passes = int(group["anchors"].max()), int(group["passes"].sum())
    plural = "" if number == 1 else "s"
    return text + f", {order} at {number} anchor{plural}, placed by {passes} passes over all rows"


def _median_and_worst(by_chain: xr.DataArray, form: str) -> str:
    """The median over the chains, and the worst chain if it has more than twice that."""
    median, worst = float(by_chain.median()), float(by_chain.max())
    return f"{median:{form}}" + (f", worst chain {worst:{form}}" if worst > 2 * median else "")


def _float64(leaf: Any) -> np.ndarray:
    return np.asarray(leaf, np.float64)
