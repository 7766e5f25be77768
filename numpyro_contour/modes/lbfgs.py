"""L-BFGS with one gradient a step: a trial point is taken or refused, and teaches either way.

A line search makes chains that run together wait for the one that searches longest. Here a step is
one evaluation. What a line search would decide, the stretch of the next step remembers.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

#: pairs that are remembered
PAIRS = 10
# Armijo's share of the fall that the slope promises.
_SHARE_OF_FALL = 1e-4
# Where the slope along a step has lost less than a tenth, the step was too short.
_STEEP = 0.9
_LONGER, _SHORTER = 4.0, 0.3
# What only steps that rounding hides grow to.
_LONGEST = 300.0
# Rises of so many roundings of the energy cannot be told from falls.
_ROUNDINGS = 16
# Pairs of less curvature, as a share of the slope, are noise.
_LEAST_CURVATURE = 1e-6
# After so many refusals the pairs, not the stretch, are wrong.
_PATIENCE = 12


class Lbfgs(NamedTuple):
    """What the steps so far tell of the curvature; the newest pair is the first."""

    #: changes of position, (PAIRS, d)
    moves: jax.Array
    #: changes of gradient, each divided by its size, (PAIRS, d)
    bends: jax.Array
    #: the size of each change of gradient, its largest coordinate, (PAIRS,)
    sizes: jax.Array
    #: products of moves and bends, 0 where there is no pair, (PAIRS,)
    products: jax.Array
    #: factor of the next step
    stretch: jax.Array
    #: refusals since the last step that was taken
    refusals: jax.Array


class Point(NamedTuple):
    """A place, and its energy and gradient."""

    #: (d,)
    position: jax.Array
    energy: jax.Array
    #: (d,)
    gradient: jax.Array


class Trial(NamedTuple):
    """A step that is tried."""

    #: the direction, (d,)
    direction: jax.Array
    #: the change of position, (d,)
    change: jax.Array


def no_pairs(size: int) -> Lbfgs:
    """Before the first step: it goes down the gradient, by 1 in its largest coordinate."""
    dtype = jnp.result_type(float)
    blank, none = jnp.zeros((PAIRS, size), dtype), jnp.zeros((PAIRS,), dtype)
    return Lbfgs(blank, blank, none + 1, none, jnp.ones((), dtype), jnp.zeros((), jnp.int32))


def largest(vector: jax.Array) -> jax.Array:
    """The size of the largest coordinate, in place of a norm, whose squares overflow."""
    size = jnp.max(jnp.abs(vector))
    return jnp.where(size > 0, size, 1.0)


def try_step(memory: Lbfgs, gradient: jax.Array) -> Trial:
    r"""The step that is tried next, :math:`-t H g`.

    H is never formed: two loops over the pairs apply it to :math:`g / \max_i |g_i|`, in which
    nothing overflows, whatever the energy.

    Args:
        memory: the pairs.
        gradient: g, (d,).

    Source: Nocedal and Wright (2006), Algorithm 7.4.
    """
    size = largest(gradient)
    unit = gradient / size
    kept = memory.products > 0
    divisors = jnp.where(kept, memory.products, 1.0)

    def forwards(q: jax.Array, pair: tuple) -> tuple[jax.Array, jax.Array]:
        move, bend, divisor, is_kept = pair
        share = jnp.where(is_kept, move @ q / divisor, 0.0)
        return q - share * bend, share

    def backwards(z: jax.Array, pair: tuple) -> tuple[jax.Array, None]:
        move, bend, divisor, is_kept, inverse_size, share = pair
        change = share * inverse_size - bend @ z / divisor
        return z + jnp.where(is_kept, change, 0.0) * move, None

    q, shares = lax.scan(forwards, unit, (memory.moves, memory.bends, divisors, kept))
    first = divisors[0] / jnp.maximum(jnp.sum(memory.bends[0] ** 2), 1e-30) / memory.sizes[0]
    inputs = (memory.moves, memory.bends, divisors, kept, 1 / memory.sizes, shares)
    z, _ = lax.scan(backwards, first * q, inputs, reverse=True)
    newton = -z * size
    usable = kept[0] & jnp.isfinite(newton).all() & (unit @ newton < 0)
    direction = jnp.where(usable, newton, -unit)
    return Trial(direction, memory.stretch * direction)


def learn_from(
    memory: Lbfgs, trial: Trial, here: Point, there: Point, finite: jax.Array
) -> tuple[jax.Array, Lbfgs]:
    r"""Whether a trial is taken, and what it has taught.

    It is taken where the energy falls by enough (Armijo), or where its rise is lost in rounding and
    the slope along the step has become less.

    Args:
        memory: the pairs.
        trial: the step.
        here: where it began.
        there: where it has led.
        finite: whether everything there is finite.

    Returns:
        Whether the step is taken, and the memory after it.
    """
    energy, gradient, new_energy, new_gradient = *here[1:], *there[1:]
    size = jnp.maximum(largest(gradient), largest(jnp.where(finite, new_gradient, 0.0)))
    # In units of `size`, and of it only the ratio to energies is ever needed.
    slope = trial.direction @ (gradient / size)
    new_slope = jnp.where(finite, trial.direction @ (new_gradient / size), 0.0)
    promised = jnp.maximum(memory.stretch * slope * size, jnp.finfo(slope.dtype).min)
    rounding = _ROUNDINGS * jnp.finfo(energy.dtype).eps * jnp.abs(energy)
    falls = new_energy <= energy + _SHARE_OF_FALL * promised
    flatter = jnp.abs(new_slope) <= _STEEP * jnp.abs(slope)
    taken = finite & (falls | ((new_energy - energy < rounding) & flatter))

    move = there.position - here.position
    stood = ~jnp.any(move != 0)
    too_short = (new_slope < _STEEP * slope) | stood
    refusals = jnp.where(taken, 0, memory.refusals + 1)

    bend = jnp.where(finite, new_gradient / size - gradient / size, 0.0)
    relative = largest(bend)
    bend, product = bend / relative, move @ bend / relative
    curved = finite & (product * relative > _LEAST_CURVATURE * jnp.abs(slope))
    curved &= jnp.isfinite(product)

    # A pair scales the next direction again: what steps below rounding have grown to is too far.
    grown = curved & (memory.stretch > _LONGEST)
    longer = _LONGER * jnp.where(grown, 1.0, memory.stretch)
    shorter = jnp.where(taken, 1.0, _SHORTER * memory.stretch)
    stretch = jnp.where(stood | (taken & too_short), longer, shorter)

    def first(new: jax.Array, old: jax.Array) -> jax.Array:
        return jnp.where(curved, jnp.concatenate([new[None], old[:-1]]), old)

    # Without pairs the steps go on becoming shorter: there is nothing to forget.
    forgets = (refusals >= _PATIENCE) & jnp.any(memory.products > 0)
    return taken, Lbfgs(
        moves=first(move, memory.moves),
        bends=first(bend, memory.bends),
        sizes=first(relative * size, memory.sizes),
        products=jnp.where(forgets, 0.0, first(product, memory.products)),
        stretch=jnp.where(forgets, 1.0, stretch),
        refusals=jnp.where(forgets, 0, refusals),
    )


def inverse_curvatures(memory: Lbfgs) -> jax.Array:
    r"""The diagonal of an inverse Hessian by the pairs, (d,), exact where that is diagonal.

    .. math:: \Bigl(\sum_k \frac{s_{ki}^2}{s_k' r_k} \Big/
              \sum_k \frac{r_{ki}^2}{s_k' r_k}\Bigr)^{1/2}

    A coordinate of which no pair tells anything gets the geometric mean of the others.
    """
    kept = (memory.products > 0)[:, None]
    products = jnp.where(kept, memory.products[:, None], 1.0)
    sizes = memory.sizes[:, None]
    # The largest size is divided out: old pairs may be from very steep places.
    top = jnp.max(jnp.where(kept, sizes, 0.0)) + 1e-30
    squares = jnp.sum(jnp.where(kept, memory.moves**2 / products * (top / sizes), 0.0), 0)
    bends = jnp.sum(jnp.where(kept, memory.bends**2 / products * (sizes / top), 0.0), 0)
    logs = 0.5 * (jnp.log(squares) - jnp.log(bends)) - jnp.log(top)
    told = (squares > 0) & (bends > 0) & jnp.isfinite(logs)
    mean = jnp.sum(jnp.where(told, logs, 0.0)) / jnp.maximum(jnp.sum(told), 1)
    return jnp.exp(jnp.clip(jnp.where(told, logs, mean), -37.0, 37.0))
