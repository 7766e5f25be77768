"""The search for modes beside a warm-up on the host, and where chains begin by what it finds."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from numpyro.util import is_prng_key

from numpyro_contour.kernels.parts.parts import Parts
from numpyro_contour.models.local_rows import number_of_devices
from numpyro_contour.modes.known_list import KnownList
from numpyro_contour.modes.listed_modes import found_modes, spread_of, with_new_modes
from numpyro_contour.modes.search import explore, go_down, look_again
from numpyro_contour.modes.shape import Shape
from numpyro_contour.schedules import Constant
from numpyro_contour.warmup.mode_finder import ModeFinder, generator_of
from numpyro_contour.warmup.stages.plan import DESCENT
from numpyro_contour.warmup.stages.tuning import at_bottom

# The gradients of a search, as a share of all that the warm-up takes: before it, and with those at
# the ends of its stages. The fewest before it.
_FIRST, _ALL, _FEWEST = 0.1, 0.15, 20_000
# The share of descents that have to end in a mode. In a neck that has no bottom few of them do.
_CONCLUSIVE = 0.5
# Chains begin in modes that are lighter than the heaviest one by this number of nats at most.
_LIGHTER = 5.0
# Makes another key out of a chain's own.
_OF_START = 0x73746172


class HostSearch:
    """The modes that all chains of a warm-up on the host know.

    Where chains do not jump, it only goes down from where each of them starts.

    Args:
        finder: the energies, whose program is being compiled.
        state: the first state of one chain or of all; it has slots for modes where chains jump.
        gradients: evaluations of energy and gradient that the warm-up takes.
    """

    def __init__(self, finder: ModeFinder, state: Any, gradients: float):
        self._key = state.rng_key
        self._rng = generator_of(self._key)
        self._list = KnownList(finder.landscape())
        self._most = _ALL * gradients
        self._numbers: list[int] = []
        self._jumps = bool(state.warmup.modes)
        nowhere = np.empty((0, self._list.landscape.size))
        starts = self._starts = nowhere if is_traced(state) else _positions(state)
        if self._jumps or not len(starts):
            explore(self._list, self._rng, starts, max(_FEWEST, _FIRST * gradients))
        else:
            go_down(self._list, starts)
        if self._list.shapes:
            self._numbers = with_new_modes([], self._list)

    @property
    def is_conclusive(self) -> bool:
        """Whether chains can begin in the modes: most descents have ended in one of them."""
        return sum(self._list.counts) > _CONCLUSIVE * self._list.descents

    @property
    def several(self) -> bool:
        """Whether there is more than one mode to jump to."""
        return self._jumps and len(self._numbers) > 1

    def begun(self, state: Any) -> Any:
        """The states of chains at the bottoms of modes, from where they walk.

        Args:
            state: the state of one chain or of all.
        """
        log_mass = self._list.log_mass[self._numbers]
        lighter = _LIGHTER if self._jumps else np.inf  # else a chain would leave its own mode
        heavy = np.flatnonzero(log_mass > log_mass.max() - lighter)
        heavy = heavy[np.argsort(-log_mass[heavy], kind="stable")]
        shapes = [self._list.shapes[self._numbers[k]] for k in heavy]
        means = np.stack([shape.mean for shape in shapes])
        energies, gradients = self._list.landscape.at(means)
        which = self._beginnings(shapes)
        chain, tuning = state.sampler.chain, state.warmup.tuning
        given = means, energies, gradients, np.stack([spread_of(shape) for shape in shapes])
        alike = chain.position, chain.potential_energy, chain.gradient, tuning.preconditioner
        mean, energy, gradient, spread = (
            jnp.asarray(x.astype(like.dtype))[which] for x, like in zip(given, alike)
        )
        chain = chain._replace(position=mean, potential_energy=energy, gradient=gradient)
        warmup = state.warmup._replace(tuning=at_bottom(tuning, spread))
        sampler = state.sampler._replace(chain=chain)
        return self._with_modes(state._replace(sampler=sampler, warmup=warmup))

    def _beginnings(self, shapes: list[Shape]) -> Any:
        """In which of the modes each chain begins: all of them in turn, any, or its own."""
        number = len(shapes)
        if len(self._starts) and not self._jumps:
            ends = self._list.landscape.descend(self._starts).position
            nearest = np.argmin([shape.squares(ends) for shape in shapes], 0)
            return int(nearest[0]) if is_prng_key(self._key) else nearest
        if not is_prng_key(self._key):
            return np.arange(len(self._key)) % number
        if isinstance(self._key, jax.core.Tracer):  # chains in parallel search as one
            return random.randint(random.fold_in(self._key, _OF_START), (), 0, number)
        return int(self._rng.integers(number))

    def looked_again(self, state: Any) -> Any:
        """The state with the modes that descents from where chains are have found.

        Args:
            state: the state of one chain or of all.
        """
        if not self._jumps or self._list.landscape.gradients > self._most:
            return state
        look_again(self._list, self._rng, _positions(state))
        numbers = with_new_modes(self._numbers, self._list)
        if numbers == self._numbers:
            return state
        self._numbers = numbers
        return self._with_modes(state)

    def _with_modes(self, state: Any) -> Any:
        if not self._jumps:
            return state
        modes = found_modes(self._list, self._numbers)
        return state._replace(warmup=state.warmup._replace(modes=modes))


def begun_in_modes(
    parts: Parts, finder: ModeFinder | None, state: Any, num_warmup: int
) -> tuple[Any, HostSearch | None]:
    """The state of chains that begin in modes, and the search; the state as it is without one.

    Args:
        parts: the parts of the kernel.
        finder: what searches, None where chains are to descend by themselves.
        state: the first state of one chain or of all.
        num_warmup: draws of warm-up.
    """
    if finder is None:
        return state, None
    assert parts.plan is not None
    chains = 1 if is_prng_key(state.rng_key) else len(state.rng_key)
    gradients = max(num_warmup, parts.plan.least) * parts.num_steps * chains
    search = HostSearch(finder, state, gradients)
    return (search.begun(state), search) if search.is_conclusive else (state, None)


def is_traced(tree: Any) -> bool:
    """Whether some of a tree's leaves are traced."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(tree))


def searches_on_host(parts: Parts, state: Any, data: Any) -> bool:
    """Whether modes are searched for on the host, and chains begin in them.

    So it is where energies are exact and all settings are the defaults.

    Args:
        parts: the parts of the kernel.
        state: the first state.
        data: the arguments of the model.
    """
    plan, scaling = parts.plan, parts.scaling
    if plan is None or plan.stages[0] is not DESCENT:
        return False
    finds = scaling.is_found and scaling.finds_preconditioner
    if is_traced(data):
        return False
    exact = parts.estimator(parts.source.potential(*data)) == "full"
    leaves = [x for x in jax.tree.leaves((state, data)) if isinstance(x, jax.Array)]
    one_device = all(number_of_devices(x) == 1 for x in leaves)
    return finds and exact and one_device and parts.temperature == Constant(1.0)


def _positions(state: Any) -> np.ndarray:
    """Where chains are, (chains, d)."""
    position = np.asarray(state.sampler.chain.position, np.float64)
    return position.reshape(-1, position.shape[-1])
