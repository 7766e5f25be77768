"""The search for modes beside a warm-up on the host, and where chains begin by what it finds."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from numpyro.util import is_prng_key

from numpyro_contour.core.arrays.hosts import everywhere
from numpyro_contour.kernels.parts.parts import Parts
from numpyro_contour.models.compiled_on_data import CompiledOnData
from numpyro_contour.models.disk.on_disk import stored_of, with_stored
from numpyro_contour.models.local_rows import number_of_devices
from numpyro_contour.modes.known_list import KnownList
from numpyro_contour.modes.listed_modes import found_modes, spread_of, with_new_modes
from numpyro_contour.modes.search import explore, go_down, look_again
from numpyro_contour.modes.shape import MOST_DENSE, Shape
from numpyro_contour.schedules import Constant
from numpyro_contour.warmup.mode_finder import ModeFinder, generator_of
from numpyro_contour.warmup.stages.plan import DESCENT
from numpyro_contour.warmup.stages.tuning import at_bottom

# The gradients of a search, as a share of all that the warm-up takes: before it, and with those at
# the ends of its stages. The fewest that it may take before it: of normals of sd .3, six away in
# five coordinates, it finds 19 of 20 with these, and 10 of 20 with 20,000.
_FIRST, _ALL, _FEWEST = 0.1, 0.15, 50_000
# With minibatches a search passes over all rows. A row of such a pass costs this share of one that
# is drawn (.15 to .45 were measured), and two rounds of descents have to be affordable.
_IN_TURN, _FEWEST_OF_ALL_ROWS = 0.25, 2_000
# The noise of a mode that is to have an anchor of its own.
_UNSERVED = 1e9
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
        beginning: the energies, whose program is being compiled, and how many may be evaluated.
        state: the first state of one chain or of all; it has slots for modes where chains jump.
    """

    def __init__(self, beginning: Beginning, state: Any):
        self._key = state.rng_key
        self._rng = generator_of(self._key)
        self._list = KnownList(beginning.finder.landscape())
        self._most = beginning.all_gradients
        self._numbers: list[int] = []
        self._jumps = bool(state.warmup.modes)
        self._anchors = bool(state.warmup.anchors)
        self._asked: set[int] = set()
        self._base = 0.0
        nowhere = np.empty((0, self._list.landscape.size))
        starts = self._starts = nowhere if is_traced(state) else _positions(state)
        if self._jumps or not len(starts):
            explore(self._list, self._rng, starts, beginning.first_gradients)
        else:
            go_down(self._list, starts)
        if self._list.shapes:
            self._numbers = with_new_modes([], self._list)
            if self._anchors:  # energies are differences then
                self._base = min(shape.energy for shape in self._list.shapes)

    @property
    def is_conclusive(self) -> bool:
        """Whether chains can begin in the modes: most descents have ended in one of them."""
        return sum(self._list.counts) > _CONCLUSIVE * self._list.descents

    @property
    def seconds_a_gradient(self) -> float:
        """How long an evaluation of energy and gradient took, of many at once."""
        landscape = self._list.landscape
        return landscape.seconds / max(landscape.gradients, 1)

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
        # By NumPy where it can be: each operation of JAX's would be compiled by itself.
        module = jnp if isinstance(which, jax.core.Tracer) else np
        mean, energy, gradient, spread = (
            jnp.asarray(module.asarray(x.astype(like.dtype))[which])
            for x, like in zip(given, alike)
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
        if not self._jumps:
            return state
        if self._list.landscape.gradients <= self._most:
            look_again(self._list, self._rng, _positions(state))
            numbers = with_new_modes(self._numbers, self._list)
            if numbers != self._numbers:
                self._numbers = numbers
                state = self._with_modes(state)
        return self._asking(state) if self._anchors and self.several else state

    def ended(self, state: Any) -> Any:
        """The state after the warm-up, with modes whose energies are differences as the chains'."""
        if not (self._jumps and self._anchors):
            return state
        modes, reference = state.warmup.modes, state.warmup.anchors.reference
        of_first = sum(float(np.ravel(part)[0]) for part in everywhere(tuple(reference)))
        rise = self._base - of_first
        modes = modes._replace(energy=modes.energy + rise, log_mass=modes.log_mass - rise)
        return state._replace(warmup=state.warmup._replace(modes=modes))

    def _asking(self, state: Any) -> Any:
        """The state with modes that ask for anchors, each of them once."""
        slots = [k for k, number in enumerate(self._numbers) if number not in self._asked]
        if not slots:
            return state
        self._asked.update(self._numbers)
        modes = state.warmup.modes
        noise = modes.noise.at[np.array(slots)].set(_UNSERVED)
        return state._replace(warmup=state.warmup._replace(modes=modes._replace(noise=noise)))

    def _with_modes(self, state: Any) -> Any:
        if not self._jumps:
            return state
        modes = found_modes(self._list, self._numbers, self._base)
        return state._replace(warmup=state.warmup._replace(modes=modes))


class Beginning(NamedTuple):
    """What a search on the host takes."""

    finder: ModeFinder
    #: evaluations of energy and gradient before the warm-up, and with those in it
    first_gradients: float
    all_gradients: float


def beginning(
    parts: Parts, program: CompiledOnData, state: Any, num_warmup: int, data: tuple, on_host: bool
) -> Beginning | None:
    """What searches for modes on the host, for chains to begin in; None where they are to descend.

    Modes are searched for where energies are exact and all settings are the defaults. With
    minibatches they are where passes over all rows are cheap beside the warm-up, by exact energies.

    Args:
        parts: the parts of the kernel.
        program: that of `search_program`.
        state: the first state of one chain or of all.
        num_warmup: draws of warm-up.
        data: the arguments of the model.
        on_host: whether the host makes the warm-up, as far as the kernel knows.
    """
    plan, scaling = parts.plan, parts.scaling
    finds = scaling.is_found and scaling.finds_preconditioner
    if plan is None or plan.stages[0] is not DESCENT or is_traced(data) or not finds:
        return None
    if parts.temperature != Constant(1.0) or not _on_one_device((state, data)):
        return None
    like = state.z if is_prng_key(state.rng_key) else jax.tree.map(lambda x: x[0], state.z)
    chains = 1 if is_prng_key(state.rng_key) else len(state.rng_key)
    gradients = 1.0 * max(num_warmup, plan.least) * parts.num_steps * chains
    fewest, energies = float(_FEWEST), parts.energies(parts.source.potential(*data), like)
    if energies.estimator == "control_variate" and parts.source.energy is None:
        rows = energies.full_data
        gradients *= rows.taken / (rows.size * _IN_TURN)
        by_disk = bool(stored_of(with_stored(data)))
        few = state.sampler.chain.position.shape[-1] <= MOST_DENSE
        affordable = few and not by_disk and _ALL * gradients >= _FEWEST_OF_ALL_ROWS
        if not (affordable and on_host) or is_traced(state):
            return None
        fewest = 0.0
    elif not energies.exact:
        return None
    finder = ModeFinder(program, like, *data)
    return Beginning(finder, max(fewest, _FIRST * gradients), _ALL * gradients)


def begun_in_modes(begins: Beginning | None, state: Any) -> tuple[Any, HostSearch | None]:
    """The state of chains that begin in modes, and the search; the state as it is without one.

    Args:
        begins: what searches, None where chains are to descend by themselves.
        state: the first state of one chain or of all.
    """
    if begins is None:
        return state, None
    search = HostSearch(begins, state)
    return (search.begun(state), search) if search.is_conclusive else (state, None)


def is_traced(tree: Any) -> bool:
    """Whether some of a tree's leaves are traced."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(tree))


def _on_one_device(tree: Any) -> bool:
    leaves = [x for x in jax.tree.leaves(tree) if isinstance(x, jax.Array)]
    return all(number_of_devices(x) == 1 for x in leaves)


def _positions(state: Any) -> np.ndarray:
    """Where chains are, (chains, d)."""
    position = np.asarray(state.sampler.chain.position, np.float64)
    return position.reshape(-1, position.shape[-1])
