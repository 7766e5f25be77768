"""The stage "descent": to a typical point, by L-BFGS from one or several starts.

Where energies are exact, chains that have arrived walk on by Langevin moves, whose moments say more
than those of a descent. On minibatches the L-BFGS sees the same rows at every step, which are few:
it ends if other rows show that it only fits these, and Adam on fresh ones goes on
from there. The stage hands on the point where the chain is, and a first preconditioner and step
size.

With more coordinates than rows in a minibatch a network that interpolates these rows infers zero
noise, and its energy on all rows is higher by ten thousands of nats. Now and then two places of the
way are therefore compared on rows that the descent has not seen.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

from numpyro_contour.core.arrays.entries import tree_where
from numpyro_contour.modes.lbfgs import (
    PAIRS,
    Lbfgs,
    Point,
    Trial,
    inverse_curvatures,
    learn_from,
    no_pairs,
    try_step,
)
from numpyro_contour.modes.way_down import (
    Place,
    has_less_mass,
    implausible_height,
    is_deep_in_neck,
    is_implausible,
    log_mass,
)
from numpyro_contour.warmup.stages.dual_averaging import DualAveraging, initial_dual_averaging

# The share of the stage in which L-BFGS may begin from further starts, and that in which it has to
# end them; where energies are exact, and on minibatches, where it goes by fixed rows.
_STARTS_UNTIL = {True: 0.4, False: 0.06}
_ENDS_AT = {True: 0.5, False: 0.1}
#: starts at most
STARTS = 4
# A descent has arrived when so many gradients have not lowered the energy by a twentieth of a nat
# for each coordinate, a tenth of what a typical point is above the lowest.
_PATIENCE = 40
_FALL_A_COORDINATE = 0.05
# A descent goes down a neck, not to a mode, where in so many gradients the energy has fallen by
# less than two nats for each coordinate, and the mass around it, by energy and curvatures, has
# become less by a factor of exp(10 + d), or has not become more on a way down from an implausible
# height: the joint density of a hierarchy's scale and its effects has no bound, and what is gained
# in depth is lost in width. Curvatures by a few pairs scatter by far more on a long way, but the
# energy then falls fast.
_LOOKS = 20
_SLOW_FALL = 2.0
# Checks on fresh rows in succession that end a descent on fixed ones.
_DOUBTS = 5
# Step size of the first Langevin move after the descent, by curvatures that are guessed.
_CAREFUL = 0.02


class Descent(NamedTuple):
    """The state of a chain's descent."""

    lbfgs: Lbfgs
    adam: Adam
    #: the energy from which the next fall counts, and gradients since it was reached
    level: jax.Array
    waited: jax.Array
    #: gradients since the start, and the energy when they were last a multiple of `_LOOKS`
    gradients: jax.Array
    marked: jax.Array
    #: whether the energy had fallen by little then
    slow: jax.Array
    #: starts so far, and whether the next trial is another one
    starts: jax.Array
    starts_anew: jax.Array
    #: whether the model's scales stay where they began
    holds: jax.Array
    #: the place of the way that had the most mass around it, and the log of that
    widest: Place
    log_mass: jax.Array
    #: the place of all ways that had the most
    widest_of_all: Place
    #: the best of the places where descents have ended, and whether that was on a way down a neck
    best: Place
    best_in_neck: jax.Array
    #: where the other descents have ended, NaN where that is no bottom of a plausible energy,
    #: (STARTS - 1, d)
    other_ends: jax.Array
    #: the lowest end of a descent that held the scales
    held_end: Place
    #: the lowest place of the way by fresh rows, with its energy on the fixed ones, and how many
    #: checks in succession have spoken against going on
    confirmed: Place
    doubts: jax.Array
    #: whether all descents have ended
    arrived: jax.Array
    #: the step size of the Langevin moves after it
    step_size: DualAveraging


def first_walk(shape: tuple[int, ...] = ()) -> DualAveraging:
    """The step size of the Langevin moves after a descent, before the first of them.

    Args:
        shape: that of the axes of chains. Defaults to one chain.
    """
    first: Any = np.full(shape, np.log(_CAREFUL), jnp.result_type(float))
    return initial_dual_averaging(first, 1.0)


def initial_descent(size: int) -> Descent:
    """Before the first step."""
    dtype = jnp.result_type(float)
    zero, zeros = jnp.zeros((), dtype), jnp.zeros((size,), dtype)
    nowhere = Place(zeros, zero + jnp.inf, zeros, zeros + 1)
    return Descent(
        lbfgs=no_pairs(size),
        adam=at_rest(size),
        level=zero + jnp.inf,
        waited=jnp.zeros((), jnp.int32),
        gradients=jnp.zeros((), jnp.int32),
        marked=zero + jnp.inf,
        slow=jnp.zeros((), bool),
        starts=jnp.ones((), jnp.int32),
        starts_anew=jnp.zeros((), bool),
        holds=jnp.zeros((), bool),
        widest=nowhere,
        log_mass=zero - jnp.inf,
        widest_of_all=nowhere,
        best=nowhere,
        best_in_neck=jnp.zeros((), bool),
        other_ends=jnp.full((STARTS - 1, size), jnp.nan, dtype),
        held_end=nowhere,
        confirmed=nowhere,
        doubts=jnp.zeros((), jnp.int32),
        arrived=jnp.zeros((), bool),
        step_size=first_walk(),
    )


def _where_free(descent: Descent, gradient: jax.Array, scale_mask: np.ndarray | None) -> jax.Array:
    """A gradient without the coordinates that are held."""
    return gradient if scale_mask is None else jnp.where(scale_mask & descent.holds, 0.0, gradient)


def goes_by_pairs(descent: Descent, progress: jax.Array, exact: bool) -> jax.Array:
    """Whether a descent is by L-BFGS now; afterwards it walks, or goes on by Adam."""
    # On fixed rows it has ended by itself, unless these have no finite energy there; others may.
    return ~descent.arrived if exact else ~descent.arrived & (progress < 1.5 * _ENDS_AT[False])


def fixed_rows(key: jax.Array) -> jax.Array:
    """A key like this one that is always the same: its minibatch is that of the L-BFGS."""
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return jnp.zeros_like(key)
    return random.wrap_key_data(jnp.zeros_like(random.key_data(key)), impl=random.key_impl(key))


def next_trial(
    key: jax.Array,
    descent: Descent,
    position: jax.Array,
    gradient: jax.Array,
    by_pairs: jax.Array,
    progress: jax.Array,
    scale_mask: np.ndarray | None = None,
) -> tuple[Trial, jax.Array, Adam]:
    """What a step of descent tries: its direction, the position, and Adam after it.

    A further start is uniform between -2 and 2, as NumPyro's own. Scales that are held are between
    0 and 2 there, away from necks.

    Args:
        key: random key.
        descent: the descent.
        position: x, (d,).
        gradient: the gradient there, (d,).
        by_pairs: whether L-BFGS decides, else Adam.
        progress: share of the stage that is done.
        scale_mask: as for `after_trial`.
    """
    trial = try_step(descent.lbfgs, _where_free(descent, gradient, scale_mask))
    change, moved = adam_step(descent.adam, gradient, progress)
    adam = tree_where(by_pairs, descent.adam, moved)
    y = position + jnp.where(by_pairs, trial.change, change)
    start = random.uniform(key, position.shape, position.dtype, -2.0, 2.0)
    if scale_mask is not None:
        start = jnp.where(scale_mask & descent.holds, jnp.abs(start), start)
    return trial, jnp.where(by_pairs & descent.starts_anew, start, y), adam


def after_trial(
    descent: Descent,
    trial: Trial,
    here: Place,
    there: Place,
    finite: jax.Array,
    progress: jax.Array,
    exact: bool,
    scale_mask: np.ndarray | None = None,
) -> tuple[Descent, Place]:
    """The descent by L-BFGS after a trial, and where the chain is then.

    Every second descent begins with the scales held, and goes on with all coordinates from where
    that leads. Locations that are far away, in units of their own, are found before a scale that
    takes the misfit for noise has made them worth nothing.

    Args:
        descent: the descent.
        trial: what was tried.
        here: where the chain was.
        there: where the trial has led.
        finite: whether everything there is finite.
        progress: share of the stage that is done.
        exact: whether energies are exact.
        scale_mask: which coordinates are logarithms of scales, (d,). None (default) for none.
    """
    size = here.position.shape[-1]
    anew = descent.starts_anew
    begins = ~anew & (descent.gradients == 0)
    confirmed = tree_where(begins, here, descent.confirmed)
    doubts = jnp.where(anew, 0, descent.doubts)
    point = lambda place: Point(
        place.position, place.energy, _where_free(descent, place.gradient, scale_mask)
    )
    taken, lbfgs = learn_from(descent.lbfgs, trial, point(here), point(there), finite)
    taken = jnp.where(anew, finite, taken)
    lbfgs = tree_where(anew, no_pairs(size), lbfgs)
    now = tree_where(taken, there, here)
    now = now._replace(inverse_curvature=inverse_curvatures(lbfgs))

    rounding = 32 * jnp.finfo(now.energy.dtype).eps * jnp.abs(now.energy)
    level = jnp.where(anew, jnp.inf, descent.level)
    falls = now.energy < level - jnp.maximum(_FALL_A_COORDINATE * size, rounding)
    waited = jnp.where(falls | (anew & taken), 0, descent.waited + 1)
    level = jnp.where(falls, now.energy, level)

    room = _room(descent, lbfgs, now)
    in_neck = room.in_neck
    now = tree_where(in_neck, room.widest, now)

    late = progress >= _ENDS_AT[exact]
    # A first descent that is still on its way may go on where energies are exact.
    late &= (descent.starts > 1) | (not exact)
    ends = ~(anew & ~finite) & ((waited >= _PATIENCE) | late | in_neck | (doubts >= _DOUBTS))
    # A descent that held the scales is the beginning of one that does not.
    frees = descent.holds & ends & ~late
    lowest = frees & (now.energy < descent.held_end.energy)
    held_end = tree_where(lowest, now, descent.held_end)
    ends &= ~frees
    lbfgs = tree_where(frees, no_pairs(size), lbfgs)
    level, marked = (jnp.where(frees, jnp.inf, x) for x in (level, room.marked))
    most = jnp.where(frees, -jnp.inf, room.log_mass)
    doubts, gradients = (jnp.where(frees, 0, x) for x in (doubts, room.gradients))
    fits_rows = ends & (doubts > 1)
    now = tree_where(fits_rows, confirmed, now)
    best, best_in_neck, other_ends = _best_of(descent, now, in_neck, ends, fits_rows)
    more = (descent.starts < STARTS) & (progress < _STARTS_UNTIL[exact]) & ~fits_rows
    arrives = ((ends & ~more) | (anew & ~finite & late)) & jnp.isfinite(best.energy)
    arrived = descent.arrived | arrives
    # Only a long walk leads out of a neck: it begins where scales were held instead.
    narrow = best_in_neck
    if exact:  # few rows that are fitted have more mass, and say nothing
        narrow |= is_deep_in_neck(best, room.widest_of_all)
    narrow &= arrives & jnp.isfinite(held_end.energy)
    best = tree_where(narrow, held_end, best)
    now = tree_where(arrived, best, now)
    return descent._replace(
        lbfgs=lbfgs,
        level=level,
        waited=jnp.where(ends | frees, 0, waited),
        gradients=gradients,
        marked=marked,
        slow=room.slow,
        starts=descent.starts + (ends & more),
        starts_anew=(ends & more) | (anew & ~finite),
        holds=jnp.where(ends, descent.starts % 2 == 1, descent.holds & ~frees)
        & (scale_mask is not None),
        widest=room.widest,
        log_mass=most,
        widest_of_all=room.widest_of_all,
        best=best,
        best_in_neck=best_in_neck,
        other_ends=other_ends,
        held_end=held_end,
        confirmed=confirmed,
        doubts=doubts,
        arrived=arrived,
    ), now


class _Room(NamedTuple):
    """The mass around the way of a descent, as fields of `Descent`."""

    gradients: jax.Array
    marked: jax.Array
    slow: jax.Array
    widest: Place
    log_mass: jax.Array
    widest_of_all: Place
    #: whether the descent goes down a neck
    in_neck: jax.Array


def _room(descent: Descent, lbfgs: Lbfgs, now: Place) -> _Room:
    """What the place that a descent has come to says of the mass around its way."""
    size, anew = now.position.shape[-1], descent.starts_anew
    # Down a neck the energy falls for ever, and the mass around it goes to nothing.
    told = ~anew & (jnp.sum(lbfgs.products > 0) >= PAIRS // 2)
    mass = jnp.where(told, jnp.nan_to_num(log_mass(now), nan=-jnp.inf), -jnp.inf)
    most = jnp.where(anew, -jnp.inf, descent.log_mass)
    gradients = jnp.where(anew, 0, descent.gradients + 1)
    looks = gradients % _LOOKS == 0
    by_little = descent.marked - now.energy < _SLOW_FALL * size
    slow = jnp.where(looks, by_little, descent.slow & by_little & ~anew)
    sunk = descent.widest.energy - now.energy > implausible_height(size)
    in_neck = slow & told & (mass < most) & (sunk | has_less_mass(mass, most, size))
    wider = mass > log_mass(descent.widest_of_all)
    return _Room(
        gradients,
        jnp.where(looks, now.energy, descent.marked),
        slow,
        tree_where(mass > most, now, descent.widest),
        jnp.maximum(mass, most),
        tree_where(wider, now, descent.widest_of_all),
        in_neck,
    )


def _best_of(
    descent: Descent, now: Place, in_neck: jax.Array, ends: jax.Array, fits_rows: jax.Array
) -> tuple[Place, jax.Array, jax.Array]:
    """The best end, whether it is in a neck, and the others, after a descent if it `ends`.

    The first one stays unless another shows that nothing of the posterior is there, or has come to
    a bottom where the first went down a neck.
    """
    old = descent.best
    first = ~jnp.isfinite(old.energy)
    of_old, of_now = ((x.energy, x.inverse_curvature) for x in (old, now))
    bottom = descent.best_in_neck & ~in_neck & ~is_implausible(*of_now, *of_old)
    bottom &= ~is_deep_in_neck(now, old)
    better = first | bottom | is_implausible(*of_old, *of_now)
    # Rows that a descent can go through do not tell which of two places is better.
    better &= jnp.isfinite(now.energy) & (first | ~fits_rows)
    best = tree_where(ends & better, now, old)
    other = jnp.where(better, old.position, now.position)
    is_bottom = ~jnp.where(better, descent.best_in_neck, in_neck) & ~fits_rows
    is_bottom &= ~is_implausible(*of_old, *of_now) & ~is_implausible(*of_now, *of_old)
    number = jnp.where(ends & ~first & is_bottom, descent.starts - 2, STARTS)
    other_ends = descent.other_ends.at[number].set(other, mode="drop")
    return best, jnp.where(ends & better, in_neck, descent.best_in_neck), other_ends


_LEARNING_RATE = 0.05
# Decay of Adam's second moment; its usual 0.999 remembers a steep start for thousands of steps.
_MEMORY = 0.99
# By how much the unit falls in a step at most.
_FADING = 0.9


class Adam(NamedTuple):
    """The two moments of the gradient."""

    #: (d,), in units of `unit` and of its square
    momentum: jax.Array
    scale: jax.Array
    unit: jax.Array
    #: steps so far
    steps: jax.Array


def at_rest(size: int) -> Adam:
    """Before the first step."""
    dtype = jnp.result_type(float)
    zero, zeros = jnp.zeros((), dtype), jnp.zeros((size,), dtype)
    return Adam(zeros, zeros, zero, zero)


def adam_step(adam: Adam, gradient: jax.Array, progress: jax.Array) -> tuple[jax.Array, Adam]:
    """The change of position by Adam with a learning rate that falls as a cosine.

    The change does not depend on the unit in which gradients are measured. Their largest of late
    keeps squares within the range of a float where energies are 1e30.

    Args:
        adam: the moments.
        gradient: the gradient, (d,).
        progress: share of the descent that is done, from which the learning rate follows.

    Source: Kingma and Ba (2015), Algorithm 1.
    """
    count = adam.steps + 1
    unit = jnp.maximum(jnp.max(jnp.abs(gradient)), _FADING * adam.unit)
    unit = jnp.maximum(unit, jnp.finfo(unit.dtype).tiny)
    old, new = adam.unit / unit, gradient / unit
    momentum = 0.9 * adam.momentum * old + 0.1 * new
    scale = _MEMORY * adam.scale * old**2 + (1 - _MEMORY) * new**2
    rate = _LEARNING_RATE * 0.5 * (1 + jnp.cos(jnp.pi * progress))
    slope = jnp.sqrt(scale / (1 - _MEMORY**count))
    change = -rate * momentum / (1 - 0.9**count) / (slope + 1e-12 / unit)
    return change, Adam(momentum, scale, unit, count)


# Gradients from one check to the next.
_EVERY = 10
# How many times what it has fallen on the fixed rows a descent may have risen on others. Where 50
# rows determine 9 coordinates this is two; where rows are fewer than coordinates it has no bound.
_RISE = 4.0


def is_due(descent: Descent) -> jax.Array:
    """Whether the next step of a descent on fixed rows is a check instead."""
    return ~descent.starts_anew & (descent.gradients % _EVERY == _EVERY - 1)


def after_check(descent: Descent, here: Place, energy: jax.Array, confirmed: jax.Array) -> Descent:
    r"""The descent after a check, which leaves the chain where it is.

    Where n fixed rows of N determine all d coordinates, their minimum is lower for them than the
    place that all rows prefer, and higher for others, by the same :math:`N d / 2n` in the mean. The
    descent is in doubt where others say that it has risen by several times what it has fallen, and
    by more than draws of a posterior differ. Rows differ too, so that one check decides nothing.

    Args:
        descent: the descent.
        here: where the chain is, with its energy on the fixed rows, in nats.
        energy: the energy here on fresh rows.
        confirmed: the energy on the same rows at `descent.confirmed`.
    """
    fall, rise = descent.confirmed.energy - here.energy, energy - confirmed
    allowed = jnp.maximum(_RISE * fall, implausible_height(here.position.shape[-1]))
    finite = jnp.isfinite(energy)
    doubted = ~finite | (rise > allowed)
    lower = finite & ~(rise > 0)
    return descent._replace(
        confirmed=tree_where(lower, here, descent.confirmed),
        doubts=jnp.where(doubted, descent.doubts + 1, 0),
        gradients=descent.gradients + 1,
    )
