"""What is known of the draws of one segment, in the names under which it is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from numpyro.infer import MCMC

from numpyro_contour.core.arrays.vectors import leaf_names
from numpyro_contour.runs.draw_weights import draw_temperatures, raw_log_weights
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.runs.groups import draw_stats
from numpyro_contour.runs.known_modes import KnownModes, known_modes
from numpyro_contour.runs.stored.rounded import Rounding

#: names of what only says how draws are weighed
LOWEST_TEMPERATURE, FULL_ENERGY, FULL_NOISE = "lowest_temperature", "full_energy", "full_noise"
# What is told of a draw by the one before it, and the field that it is computed from.
_BY_THE_DRAW_BEFORE = {"diverging": "refused", "acceptance_rate": "moved"}
_KEPT_PROGRAMS = ("energies over all data",)


class SegmentStats:
    """The arrays of each segment of a run, with programs that are compiled once for all.

    Args:
        mcmc: the MCMC.
        args: arguments of the model.
        kwargs: its keyword arguments.
        dtype: the name of the type in which draws are kept; None for their own.
    """

    def __init__(self, mcmc: MCMC, args: tuple, kwargs: dict, dtype: str | None):
        self._mcmc, self._data = mcmc, (args, kwargs)
        self._rounded = Rounding(dtype)
        self._computed: dict[Any, Any] = {}
        self._places: Callable | None = None

    def run_of(self, state: Any, collected: Mapping[str, Any]) -> FinishedRun:
        """A run that consists of these draws alone."""
        fields = dict(collected)
        samples = fields.pop(self._mcmc.sampler.sample_field)
        programs = {name: x for name, x in self._computed.items() if name[0] in _KEPT_PROGRAMS}
        self._computed = programs
        run = FinishedRun.of_draws(self._mcmc, self._data, state, samples, fields, programs)
        return replace(run, progress_bar=False)  # the run has a bar of its own

    def arrays(
        self, state: Any, collected: Mapping[str, Any], vectors: np.ndarray
    ) -> dict[str, np.ndarray]:
        """The arrays of a segment by the names of the store.

        Args:
            state: the state behind the segment.
            collected: what was collected, (chains, draws, ...), by field.
            vectors: the unconstrained draws, (chains, draws, d).
        """
        run = self.run_of(state, collected)
        log_weights = raw_log_weights(run, "online", None)
        stats = draw_stats(run, log_weights, None)
        for name, field in _BY_THE_DRAW_BEFORE.items():
            if field in run.fields:
                stats.pop(name, None)
        temperatures = draw_temperatures(run)
        if temperatures is not None:
            stats[LOWEST_TEMPERATURE] = temperatures[0]
        full = run.computed.get("full_energies")
        if full is not None:
            stats |= {FULL_ENERGY: full.energy, FULL_NOISE: full.noise}
        known = known_modes(run)
        if known is not None:
            stats["mode"] = self._modes(run, known, vectors)
        # The weight among the draws is that of the fields.
        named = dict(zip(leaf_names(run.samples), jax.tree.leaves(run.samples)))
        fields = {n: x for n, x in collected.items() if n != self._mcmc.sampler.sample_field}
        groups = {"posterior": self._rounded(named), "fields": _flat(fields), "stats": stats}
        return {
            f"{group}/{name}": np.asarray(values)
            for group, arrays in groups.items()
            for name, values in arrays.items()
        }

    def _modes(self, run: FinishedRun, known: KnownModes, vectors: np.ndarray) -> np.ndarray:
        """The number of the mode that each draw belongs to, (chains, draws)."""
        if self._places is None:
            of_draw = lambda modes, x: run.place_among(modes, x)[0]
            of_chain = jax.vmap(of_draw, (None, 0))
            self._places = jax.jit(jax.vmap(of_chain, (None, 0)))
        return np.asarray(self._places(known.modes, vectors), np.int32)


def _flat(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that are pytrees as their leaves."""
    found = {}
    for name, value in fields.items():
        for leaf, array in zip(leaf_names({name: value}), jax.tree.leaves(value)):
            found[leaf] = array
    return found
