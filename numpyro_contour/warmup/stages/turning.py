"""The coordinates of the next stage, from the moves of a stage that has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from numpyro_contour.core.arrays.entries import tree_where
from numpyro_contour.core.arrays.factors import LowRank
from numpyro_contour.schedules import Schedule
from numpyro_contour.warmup.stages.dual_averaging import initial_dual_averaging
from numpyro_contour.warmup.stages.frames import Rows, unseen
from numpyro_contour.warmup.stages.moments import no_moments
from numpyro_contour.warmup.stages.plan import TUNE, Plan
from numpyro_contour.warmup.stages.state import progress
from numpyro_contour.warmup.stages.tune import REACH, SLOPE_SHARE
from numpyro_contour.warmup.stages.tuning import FIRST_STEP_SIZE, Tuning, largest_step_size
from numpyro_contour.warmup.stages.whitening import RANK, SHRINKAGE, low_rank, swept_of, whitening

# Fewer steps than so many for each coordinate say less than the diagonal; for a preconditioner of
# low rank, fewer rows than so many for each direction.
_STEPS_A_COORDINATE = 5
_ROWS_A_DIRECTION = 8


class _Found(NamedTuple):
    """New coordinates, and whether they are to be taken."""

    factor: Any
    #: the variances of the gradient's noise in them, (d,)
    noise: jax.Array
    #: the logarithm of the step size from which the search goes on
    log_step: jax.Array
    #: the condition number that the diagonal leaves
    condition: jax.Array
    #: whether there were enough steps
    known: jax.Array


def _dense(tuning: Tuning, temperature: jax.Array) -> _Found:
    frame, moments = tuning.frame, tuning.moments
    assert frame
    assert not isinstance(frame.factor, LowRank)
    count, size = jnp.maximum(moments.steps, 1), tuning.preconditioner.shape[0]
    # By the diagonal that was found first: second moments are then of one size.
    scale = jnp.sqrt(tuning.preconditioner)
    added = SHRINKAGE / count * jnp.eye(size)
    mean = moments.gradient * scale
    found = whitening(
        frame.seen.places / count / jnp.outer(scale, scale) + added,
        frame.seen.gradients / count * jnp.outer(scale, scale)
        + SLOPE_SHARE * jnp.outer(mean, mean)
        + added,
        frame.seen.noise / jnp.maximum(count - 1, 1) * jnp.outer(scale, scale),
        temperature,
    )
    factor = (frame.factor * scale) @ found.factor
    log_step = tuning.step_size.log_value + jnp.log(found.stiffness)
    known = count >= _STEPS_A_COORDINATE * size
    return _Found(factor, found.noise, log_step, found.condition, known)


def _of_low_rank(tuning: Tuning, temperature: jax.Array) -> _Found:
    frame = tuning.frame
    assert frame
    assert isinstance(frame.seen, Rows)
    assert isinstance(frame.factor, LowRank)
    diagonal = jnp.where(frame.turned, frame.factor.scales**2, tuning.preconditioner)
    assert isinstance(frame.swept, jax.Array)
    swept = swept_of(frame.factor, frame.swept)
    found = low_rank(frame.seen, diagonal, temperature, swept)
    # Found for the position itself, so that the last step size says nothing of the next.
    log_step = jnp.log(jnp.asarray(FIRST_STEP_SIZE, found.noise.dtype))
    known = found.rows >= _ROWS_A_DIRECTION * RANK
    return _Found(found.factor, found.noise, log_step, found.condition, known)


def turned(
    tuning: Tuning, position: jax.Array, temperature: jax.Array, renews: jax.Array
) -> Tuning:
    """What is tuned after a stage, in coordinates in which the preconditioner is 1.

    Args:
        tuning: what is tuned, with its diagonal renewed and the moments of the stage.
        position: where the chain is, (d,).
        temperature: tau.
        renews: whether the preconditioner is renewed after this stage.
    """
    frame = tuning.frame
    assert frame
    find = _of_low_rank if isinstance(frame.seen, Rows) else _dense
    found = find(tuning, temperature)
    finite = [jnp.isfinite(x).all() for x in jax.tree.leaves((found.factor, found.noise))]
    renews &= jnp.stack(finite).all() & found.known
    renews &= frame.turned | (found.condition >= frame.turns_from)
    moved = tuning._replace(
        preconditioner=jnp.ones_like(tuning.preconditioner),
        gradient_noise=found.noise,
        frame=frame._replace(
            factor=found.factor,
            origin=position,
            place=jnp.zeros_like(position),
            turned=jnp.ones((), bool),
        ),
    )
    log_step = jnp.minimum(found.log_step, jnp.log(largest_step_size(moved, temperature)))
    moved = moved._replace(step_size=initial_dual_averaging(log_step, REACH))
    chosen = tree_where(renews, moved, tuning)
    return chosen._replace(moments=no_moments(position.shape[0]), frame=unseen(chosen.frame))


def with_frames_turned(
    plan: Plan, lift: Callable, temperature: Schedule, before: Any, after: Any
) -> Any:
    """The states of all chains after a tuning draw, with the coordinates of the next stage.

    Chains share their plan: the decompositions are only made where a stage ends.

    Args:
        plan: the plan of the warm-up.
        lift: makes a function of one chain one of all chains.
        temperature: schedule of tau.
        before: the state of all chains before the draw.
        after: the state after it, with a field `warmup`.
    """
    if not after.warmup.tuning.frame:
        return after
    here = lift(lambda warmup: progress(plan, warmup))(before.warmup)
    renews = plan.flag("searches", here.number) & (here.number != plan.last(TUNE))

    def turn(state: Any, renews: jax.Array) -> Any:
        chain = state.sampler.chain
        tuning = turned(state.warmup.tuning, chain.position, temperature(chain.steps), renews)
        return state._replace(warmup=state.warmup._replace(tuning=tuning))

    return lax.cond(jnp.any(here.ends), lift(turn), lambda state, _: state, after, renews)
