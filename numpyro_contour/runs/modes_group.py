"""What a run knows of its modes, as a group of an InferenceData."""

from __future__ import annotations

import json

import numpy as np
import xarray as xr

from numpyro_contour.checks import warn_user
from numpyro_contour.core.arrays.vectors import coordinate_names
from numpyro_contour.modes.mode_list import ModeList
from numpyro_contour.modes.moves import MOVES
from numpyro_contour.runs.bridges_to_modes import masses_by_bridges
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.runs.jumping_run import JumpingRun
from numpyro_contour.runs.known_modes import KnownModes, known_modes, modes_of_draws
from numpyro_contour.statistics.mode_shares import mode_shares


def modes_dataset(run: FinishedRun, log_weights: np.ndarray) -> xr.Dataset | None:
    """The modes of a run as the group `modes`, with the mode of each draw, `mode_of_draw`.

    Args:
        run: a finished run.
        log_weights: the log weights of its draws, (chains, draws).

    Returns:
        As `to_inference_data` describes it. None where fewer than two modes are known; and, with a
        warning, where the draws could not be evaluated.
    """
    known = known_modes(run)
    if known is None:
        return None
    try:
        labels = modes_of_draws(run, known)
    except Exception as error:  # the user did not ask for this pass over the draws
        warn_user(
            "The draws were not told apart by their modes, which failed: "
            f"{type(error).__name__}: {error}."
        )
        return None
    number = len(known.energy)
    found = mode_shares(labels, log_weights, number)
    values = {
        "mean": (("mode", "coordinate"), np.asarray(known.modes.mean, np.float64)),
        "sd": (("mode", "coordinate"), known.sds),
        "mass": (("mode",), found.share),
        "mass_mcse": (("mode",), found.mcse),
        "mass_by_chain": (("chain", "mode"), found.of_chains),
        "mode_of_draw": (("chain", "draw"), labels),
    }
    if run.has_exact_energies:  # by minibatches each was that of its time
        by_normal = np.exp(known.log_integral - known.log_integral.max())
        values["energy"] = (("mode",), known.energy)
        values["mass_by_normal"] = (("mode",), by_normal / by_normal.sum())
        values["log_integral_by_normal"] = (("mode",), known.log_integral)
    ways = ("chain", "from_mode", "to_mode")
    for name, counted in zip(("jumps_tried", "jumps_made"), run.jumps):
        values[name] = (ways, _between(known, np.asarray(counted)))
    if isinstance(run, JumpingRun) and run.counts is not None:
        values["walks"] = (ways, np.asarray(run.counts.walked))
        for name in ("tried", "made"):
            values[f"moves_{name}"] = (
                ("chain", "move"),
                np.asarray(getattr(run.counts, f"{name}_by_move")),
            )
    bridged = masses_by_bridges(run, known, log_weights)
    if bridged is not None:
        # Of the mass that the draws have in these modes.
        of_all = found.share[np.isfinite(bridged[0])].sum()
        for name, value in zip(("mass_by_bridge", "mass_by_bridge_mcse"), bridged):
            values[name] = (("mode",), value * of_all)
    modes = np.arange(number)
    coords = {
        "chain": np.arange(run.num_chains),
        "draw": np.arange(run.num_draws),
        "mode": modes,
        "from_mode": modes,
        "to_mode": modes,
        "coordinate": coordinate_names(run.like),
    }
    if "moves_tried" in values:
        coords["move"] = list(MOVES)
    return xr.Dataset(values, coords)


def search_dataset(run: FinishedRun) -> xr.Dataset | None:
    """The search for modes before a run as the group `mode_search`; None where there was none."""
    if not isinstance(run, JumpingRun) or run.mode_list is None:
        return None
    found = run.mode_list
    values = {
        "mass_by_normal": (("known_mode",), found.mass),
        "energy": (("known_mode",), found.energy),
        "descents": (("known_mode",), found.counts),
        "all_descents": ((), found.descents),
        "new_modes": ((), found.alone),
        "unseen_mass": ((), found.unseen),
        "left_out_mass": ((), _left_out(run, found)),
        "gradients": ((), found.gradients),
    }
    nowhere = {"nowhere": json.dumps(found.nowhere), "seconds": json.dumps(found.seconds)}
    return xr.Dataset(values, {"known_mode": np.arange(len(found))}, nowhere)


def _left_out(run: JumpingRun, found: ModeList) -> float:
    """The mass of modes that were found and are too many to jump between, by their normals."""
    if run.shapes is None or run.last.jumping.plan.flips.inside.shape[-2]:
        return 0.0  # chains do not jump, or get there by blocks of coordinates
    return float(found.mass[run.shapes.number :].sum())


def _between(known: KnownModes, counts: np.ndarray) -> np.ndarray:
    """Counts between each chain's own slots, as counts between modes, (chains, K, K)."""
    number = len(known.energy)
    # An empty slot has no counts: where they are put is all one.
    is_number = known.numbers[..., None] == np.arange(number)
    return np.einsum("cij,cia,cjb->cab", counts, is_number, is_number).astype(np.int64)
