"""The modes that the chains of a run know, and which of them each draw belongs to."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import numpy as np

from numpyro_contour.runs.at_draws import AtDraws, EnergyAndGradient
from numpyro_contour.runs.draw_weights import final_temperature
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.runs.jumping_run import JumpingRun

# Modes of two chains that are nearer, in standard deviations of either one, are one mode.
_APART = 2.0


class KnownModes(NamedTuple):
    """The modes of all chains, those of larger mass by their normals first."""

    #: where and how wide they are, in K slots
    modes: Any
    #: the potential energies at the bottoms in nats, (K,)
    energy: np.ndarray
    #: log of the integral of exp(-U / tau) by the normal of each, (K,)
    log_integral: np.ndarray
    #: the number of each chain's own slots among these, -1 for an empty one, (chains, slots)
    numbers: np.ndarray

    @property
    def sds(self) -> np.ndarray:
        """Standard deviations of the coordinates by the normals, (K, d)."""
        factor = np.asarray(self.modes.factor, np.float64)
        return np.sqrt((factor**2).sum(-1)) if factor.ndim == 3 else np.abs(factor)


def known_modes(run: FinishedRun) -> KnownModes | None:
    """The modes that any chain knows; None where there are fewer than two, or no jumps.

    Chains that ran together have theirs in common; of others, modes that are near are one.
    """
    if isinstance(run, JumpingRun):
        return _of_search(run)
    found = run.found_modes
    if not found:
        return None
    of_chains = jax.tree.map(np.asarray, found.modes)
    offsets = np.asarray(run.energy_offsets, np.float64)
    energy = found.energy + offsets[:, None]
    tau = final_temperature(run) or 1.0
    log_integral = np.where(of_chains.known, found.log_mass, -np.inf) - offsets[:, None] / tau
    places = np.argwhere(of_chains.known)
    places = places[np.argsort(-log_integral[tuple(places.T)], kind="stable")]
    numbers = np.full(of_chains.known.shape, -1)
    first: list[tuple[int, int]] = []
    for chain, slot in places:
        apart = [_apart(of_chains, place, (chain, slot)) for place in first]
        nearest = int(np.argmin(apart)) if apart else 0
        if not apart or apart[nearest] >= _APART:
            nearest = len(first)
            first.append((chain, slot))
        numbers[chain, slot] = nearest
    if len(first) < 2:
        return None
    chosen = tuple(np.array(first).T)
    modes = jax.tree.map(lambda x: x[chosen], of_chains)
    size = modes.mean.shape[-1]
    return KnownModes(
        modes,
        np.asarray(energy[chosen], np.float64),
        np.asarray(log_integral[chosen], np.float64) + 0.5 * size * math.log(2 * math.pi),
        numbers,
    )


def _of_search(run: JumpingRun) -> KnownModes | None:
    """The modes of a run that searched for them before, in the order of its search."""
    shapes, found = run.shapes, run.mode_list
    if shapes is None:
        return None
    number = shapes.number
    nothing = np.full(number, np.nan)
    roots = np.asarray(shapes.roots, np.float64)
    return KnownModes(
        shapes._replace(factor=roots),
        nothing if found is None else found.energy[:number],
        nothing if found is None else found.log_integral[:number],
        np.broadcast_to(np.arange(number), (run.num_chains, number)),
    )


def modes_of_draws(run: FinishedRun, known: KnownModes) -> np.ndarray:
    """The number of the mode that each draw is in, (chains, draws)."""
    if isinstance(run, JumpingRun):
        return run.per_draw("mode").astype(np.int32)

    def number(_: EnergyAndGradient, flat: jax.Array) -> jax.Array:
        return run.place_among(known.modes, flat)[0]

    shape = run.num_chains, run.num_draws
    places = np.indices(shape).reshape(2, -1)
    return AtDraws(run, number).at((places[0], places[1])).reshape(shape).astype(np.int32)


def _apart(modes: Any, one: tuple[int, int], other: tuple[int, int]) -> float:
    """The distance of two modes in standard deviations of the one that has them nearer."""
    away = np.asarray(modes.mean[one] - modes.mean[other], np.float64)
    return min(_size(modes.inverse[place], away) for place in (one, other))


def _size(inverse: np.ndarray, away: np.ndarray) -> float:
    z = inverse @ away if inverse.ndim == 2 else inverse * away
    return float(np.sqrt((z**2).sum()))
