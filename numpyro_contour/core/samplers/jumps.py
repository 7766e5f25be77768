"""Jumps between modes that are known, as steps of any sampler."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax, random

from numpyro_contour.core.arrays.entries import tree_where
from numpyro_contour.core.arrays.random_bits import uniform
from numpyro_contour.core.diffusions import Diffusion, Step
from numpyro_contour.core.samplers.chain import PotentialAndGrad, Sampler, evaluate, next_step_size
from numpyro_contour.core.samplers.guard import all_finite
from numpyro_contour.core.samplers.known_modes import (
    LEAST_MODES,
    Modes,
    image,
    moved_coordinate,
    moved_within,
    of_unlike_widths,
    place_of,
    sides,
    taken,
)
from numpyro_contour.schedules import Schedule

#: Minibatches of each end of a try where energies are noisy. The noise of one alone is not normal
#: enough: with 2.4 and 1.9 nats in two modes the mass of the first was .56 where .62 is right.
MINIBATCHES = 4
# The share of tries that move one coordinate only, where there are combinations of modes.
_ONE_COORDINATE = 1 / 3
# The share that stays in a mode, where modes are of unlike widths.
_WITHIN = 1 / 4


class JumpCounts(NamedTuple):
    """How often each way between K modes was tried and taken, from rows to columns.

    Tries that move one coordinate only, or stay in a mode, are not among them.
    """

    #: (K, K)
    tried: jax.Array
    #: (K, K)
    made: jax.Array


#: `(keys, state, potential_and_grad) -> (state, JumpCounts of this one try)`
Jump = Callable[[jax.Array, Any, PotentialAndGrad], tuple[Any, JumpCounts]]


def no_counts(slots: int) -> JumpCounts:
    """Before the first try, for K slots."""
    none = jnp.zeros((slots, slots), jnp.int32)
    return JumpCounts(none, none)


def jumps(
    sampler: Sampler,
    diffusion: Diffusion,
    step_size: Schedule,
    temperature: Schedule,
    modes: Modes,
    telling: PotentialAndGrad | None = None,
) -> Jump:
    r"""Tries to jump to another mode, for a chain of a sampler.

    The image y of x in another mode is accepted with probability min(1, S), where

    .. math:: \log S = \frac{U(x) - U(y)}\tau
              + \zeta \log \frac{\Psi(U(x))}{\Psi(U(y))}
              + \log \frac{|F_j|\, q_{ji}}{|F_i|\, q_{ij}}
              - \frac{\lambda_x^2 \sigma_x^2 + \lambda_y^2 \sigma_y^2}{2 \tau^2}

    with :math:`q_{ij}` the probability to try the way from i to j, and y is in the cell of j. So
    the density that the sampler has as its law stays as it is. The last term pays for the noise of
    both energies; it is 0 where they are exact. A try takes one evaluation, of noisy energies four
    minibatches at either end: the chain's own energy stems from a step that it has had a part in,
    the noise is not the same everywhere, and that of several minibatches is nearly normal. A try
    comes between two steps and is none itself, so that theta learns nothing from it. What the
    diffusion remembers is carried over by its `relocate`.

    Where four modes or more are known, a third of the tries moves one coordinate only, from where
    one mode has it to where another has it: see `moved_coordinate`. Where modes are
    of unlike widths, a quarter stays in its mode and moves as far as it is wide: see
    `moved_within`.

    Args:
        sampler: the sampler, between whose steps the tries are.
        diffusion: its diffusion.
        step_size: its schedule of :math:`\epsilon > 0`.
        temperature: its schedule of :math:`\tau \ge 0`; at 0 no jump is made.
        modes: the modes that are known.
        telling: a `potential_and_grad` that also tells :math:`\sigma^2`, the variance of its
            energy's noise, for tries where energies are noisy. None (default) where they are exact:
            tries then take the one that steps take.

    Returns:
        A function `(keys, state, potential_and_grad) -> (state, counts)`, which takes two keys as a
        step does.

    Source: Tjelmeland and Hegstad (2001); Ceperley and Dewing (1999), *The penalty method for
    random walks with uncertain energies*, for the last term.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.core.diffusions import langevin
        >>> from numpyro_contour.core.samplers.jumps import jumps
        >>> from numpyro_contour.core.samplers.known_modes import no_modes
        >>> from numpyro_contour.core.samplers.plain import plain
        >>> from numpyro_contour.schedules import Constant
        >>> energy = jax.value_and_grad(lambda x: 0.5 * (jnp.abs(x[0]) - 3.0) ** 2)
        >>> potential_and_grad = lambda key, x: energy(x)
        >>> modes = no_modes(2, 1, dense=False)
        >>> modes = modes._replace(known=jnp.array([True, True]), mean=jnp.array([[-3.0], [3.0]]))
        >>> parts = langevin(), Constant(0.1), Constant(1.0)
        >>> sampler = plain(*parts)
        >>> state = sampler.init(jax.random.key(0), jnp.array([2.5]), potential_and_grad)
        >>> jump = jumps(sampler, *parts, modes)
        >>> keys = jax.random.split(jax.random.key(1))
        >>> state, counts = jump(keys, state, potential_and_grad)
        >>> float(state.chain.position[0]), counts.made.tolist()
        (-3.5, [[0, 0], [1, 0]])
    """
    # Of the modes alone: not computed at each try.
    of_all = sides(modes)
    unlike = of_unlike_widths(modes, of_all.sds)

    def flattening_at(state: Any, energy: jax.Array) -> tuple[Any, Any]:
        if sampler.flattening_at is None:
            return 0.0, jnp.ones_like(energy)
        return sampler.flattening_at(state, energy)

    def jump(
        keys: jax.Array, state: Any, potential_and_grad: PotentialAndGrad
    ) -> tuple[Any, JumpCounts]:
        chain = state.chain
        tau = temperature(chain.steps)
        slots, size = modes.mean.shape
        uniforms = uniform(keys[0], (slots + size + 2,), chain.position.dtype)
        place = place_of(modes, chain.position)
        way = image(uniforms[2 : slots + 2], modes, place)
        whole = jnp.ones((), bool)
        # These two depend on the modes alone, the same for all chains: what is not done costs
        # nothing.
        if size > 1 and slots >= LEAST_MODES:
            several = jnp.sum(modes.known) >= LEAST_MODES
            whole = ~(several & (uniforms[1] < _ONE_COORDINATE))
            one = partial(moved_coordinate, uniforms[2:], modes, of_all, place)
            way = lax.cond(several, lambda way: tree_where(whole, way, one()), lambda x: x, way)
        stays = unlike & (uniforms[1] > 1 - _WITHIN)
        inside = partial(moved_within, uniforms[1 + slots :], modes, place)
        way = lax.cond(unlike, lambda way: tree_where(stays, inside(), way), lambda x: x, way)
        whole &= ~stays
        to = taken(modes, place, way)
        old = chain.potential_energy
        _, multiplier = flattening_at(state, old)
        if telling is None:
            found = evaluate(potential_and_grad, keys[1], to.position)
            noise = jnp.zeros_like(old)
        else:
            places = jnp.stack([chain.position, to.position])
            seen = jax.vmap(jax.vmap(partial(evaluate, telling), (0, None)))
            both = jax.tree.map(
                lambda x: x.mean(1), seen(random.split(keys[1], (2, MINIBATCHES)), places)
            )
            both = both._replace(noise=both.noise / MINIBATCHES)
            own, found = (jax.tree.map(lambda x, i=i: x[i], both) for i in (0, 1))
            old, noise = own.energy, own.noise * flattening_at(state, own.energy)[1] ** 2
        here, _ = flattening_at(state, old)
        there, multiplier_there = flattening_at(state, found.energy)
        noise += found.noise * multiplier_there**2
        safe = jnp.where(tau > 0, tau, 1.0)
        log_ratio = (old - found.energy) / safe + here - there + to.log_factor
        log_ratio -= 0.5 * noise / safe**2
        usable = to.returns & (tau > 0) & all_finite(to.position, found.energy, found.gradient)
        made = usable & (jnp.log(uniforms[0]) < log_ratio)

        # What flattens the drift flattens what the diffusion remembers of it.
        slopes = multiplier * chain.gradient, multiplier_there * found.gradient
        step = Step(next_step_size(chain, step_size), safe)
        memory = chain.memory
        if jax.tree.leaves(memory):
            memory = diffusion.relocate(memory, to.position, *slopes, step)

        def choose(new: Any, old: Any) -> Any:
            return tree_where(made, new, old)

        chain = chain._replace(
            position=choose(to.position, chain.position),
            potential_energy=choose(found.energy, chain.potential_energy),
            gradient=choose(found.gradient, chain.gradient),
            memory=choose(memory, chain.memory),
            energy_noise=choose(found.noise, chain.energy_noise),
            accepted=chain.accepted | made,
        )
        tried = 1 * (to.origin[:, None] & to.target & whole)
        counts = JumpCounts(tried, jnp.where(made, tried, 0))
        moved = sampler.relocate if sampler.jump_to is None else sampler.jump_to
        return moved(state, chain), counts

    return jump
