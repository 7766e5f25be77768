"""One move of descent or of Langevin dynamics that is measured, for the stages of tuning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from numpyro_contour.core.arrays.entries import tree_where
from numpyro_contour.core.arrays.factors import displacement, slope
from numpyro_contour.core.arrays.random_bits import normal
from numpyro_contour.core.diffusions import DRIFT_LIMIT
from numpyro_contour.core.diffusions.leapfrog import SPREAD
from numpyro_contour.core.samplers.ahead import Ahead, scan_of, two_keys
from numpyro_contour.core.samplers.chain import Chain, Evaluation, PotentialAndGrad, evaluate
from numpyro_contour.core.samplers.guard import all_finite
from numpyro_contour.modes.lbfgs import Trial, inverse_curvatures
from numpyro_contour.modes.way_down import Place
from numpyro_contour.schedules import Schedule
from numpyro_contour.warmup.stages.descent import (
    Adam,
    Descent,
    after_check,
    after_trial,
    at_rest,
    fixed_rows,
    goes_by_pairs,
    is_due,
    next_trial,
)
from numpyro_contour.warmup.stages.dual_averaging import DualAveraging, update_dual_averaging
from numpyro_contour.warmup.stages.frames import (
    Frame,
    Products,
    Rows,
    with_products,
    with_row,
    with_sweep,
)
from numpyro_contour.warmup.stages.moments import Moments, no_moments, welford
from numpyro_contour.warmup.stages.plan import Plan
from numpyro_contour.warmup.stages.state import Warmup, progress
from numpyro_contour.warmup.stages.tuning import (
    TINY,
    Tuning,
    curvature,
    largest_step_size,
    positive_or_one,
)

#: Mean of the acceptance statistic that the step size is tuned to.
TARGET_ACCEPTANCE = 0.9
# Squares of larger gradients would leave the range of a float.
_LARGEST_GRADIENT = 1e16
# A move this improbable (in nats) under the exact dynamics is a blow-up: it is not made.
_BLOW_UP = -20.0


@dataclass(frozen=True)
class Moves:
    """What all moves of a draw have in common."""

    #: `(key, position) -> (potential energy, gradient)`
    potential_and_grad: PotentialAndGrad
    #: whether energies and gradients are exact: nothing is evaluated twice then
    exact: bool
    #: whether to descend; one decision for all chains, so that it costs the other stages nothing. A
    #: bool decides while the program is traced
    descends: jax.Array | bool = False
    #: where moves are accepted with probability alpha, and step sizes drawn as `leapfrog` draws
    #: them, the mean that alpha is tuned to; None where not
    adjusted: float | None = None
    #: the minibatch of `fixed_rows`, where keys hold minibatches that were drawn ahead
    fixed: Any = None
    #: as for `after_trial`
    scale_mask: np.ndarray | None = None


class Moment(NamedTuple):
    """When a move is made."""

    #: tau
    temperature: jax.Array
    #: share of the stage that is done
    progress: jax.Array
    #: whether the step size is still being tuned
    searching: jax.Array
    #: whether this is the last move of its stage. After a descent the energies of chains are
    #: compared: it is made on rows that are the same for all
    last: Any = False


class _Step(NamedTuple):
    """A Langevin step, in the coordinates that are tuned."""

    #: the search for its size
    search: DualAveraging
    #: M, the diagonal preconditioner, (d,)
    metric: jax.Array
    #: step size times M, and the standard deviations of the noise, (d,)
    rates: jax.Array
    scales: jax.Array
    #: the noise, standard normal, (d,)
    xi: jax.Array

    def drift(self, slope: jax.Array) -> jax.Array:
        """How far it goes down a gradient, (d,)."""
        limit = jnp.where(self.scales > 0, DRIFT_LIMIT * self.scales, jnp.inf)
        return jnp.clip(self.rates * slope, -limit, limit)

    def log_proposals(self, went: jax.Array, slope: jax.Array) -> jax.Array:
        """The log of how much more likely the way back is, by the gradient there."""
        back = (self.drift(slope) - went) / jnp.maximum(self.scales, TINY)
        return 0.5 * jnp.sum(self.xi**2 - back**2)


def tuning_step(
    keys: jax.Array, chain: Chain, tuning: Tuning, moves: Moves, moment: Moment
) -> tuple[Chain, Tuning]:
    r"""One step of descent, or one Langevin step whose acceptance is measured.

    Both ends of the move are evaluated on one minibatch B, so that the acceptance statistic

    .. math:: \alpha = \min\Bigl\{1, \exp\frac{U_B(x) - U_B(y)}{\tau}
              \frac{q_B(x \mid y)}{q_B(y \mid x)}\Bigr\}

    of the Metropolis-adjusted Langevin algorithm compares like with like, and the difference to
    the evaluation by which the chain arrived at x gives the noise of gradient and energy.

    Args:
        keys: two keys, for the move and for the minibatch.
        chain: the chain.
        tuning: what is being tuned.
        moves: what all moves have in common.
        moment: when it is made.
    """
    x, exact, descent = chain.position, moves.exact, tuning.descent
    descending = by_pairs = jnp.asarray(moves.descends)
    if moves.descends is not False:
        by_pairs &= goes_by_pairs(descent, moment.progress, exact)
    key, checks = _rows(keys[1], tuning, moves, moment, by_pairs)
    # A chain that has come down walks.
    walks = ~descending | (~by_pairs & exact)
    step = _step(keys[0], tuning, moves, moment)
    propose = partial(_proposed, keys[0], x, step, tuning, moves, moment, by_pairs, checks, walks)
    evaluated = partial(evaluate, moves.potential_and_grad, key)
    if exact:
        here = Evaluation(chain.potential_energy, chain.gradient, chain.energy_noise)
        y, (went, trial, adam) = propose(here.gradient)
        there = evaluated(y)
    else:
        y, (went, trial, adam), here, there = _at_both_ends(evaluated, x, propose)
    finite = all_finite(y, there.energy, there.gradient)
    acceptance, made = _accepted(keys[0], step, tuning, moves, moment, here, there, went, finite)
    moved = finite & (~walks | made)

    tuned, sums = _learnt(tuning, moves, moment, chain, step, here, acceptance, by_pairs)
    at_x = Place(x, here.energy, here.gradient, step.metric)
    at_y = Place(y, there.energy, there.gradient, step.metric)
    now = tree_where(moved, at_y, at_x)

    def descended() -> tuple[Descent, Place]:
        # A refused descent by Adam starts again from rest.
        rested = adam._replace(momentum=jnp.where(moved, adam.momentum, jnp.zeros_like(x)))
        walk = tree_where(walks & descending, tuned.step_size, descent.step_size)
        walked = descent._replace(adam=rested, step_size=walk)
        lower = after_trial(
            descent, trial, at_x, at_y, finite, moment.progress, exact, moves.scale_mask
        )
        if not exact:
            slopes = inverse_curvatures(descent.lbfgs)
            stays = Place(x, chain.potential_energy, chain.gradient, slopes)
            checked = after_check(descent, stays, here.energy, there.energy), stays
            lower = tree_where(checks, checked, lower)
        return tree_where(by_pairs, lower, (walked, now))

    descent, now = either(moves.descends, descended, lambda: (descent, now))
    searched = tree_where(moment.searching, tuned.step_size, tuning.step_size)
    tuned = tuned._replace(step_size=searched, descent=descent)
    if tuning.frame:
        place = jnp.where(moved, _place(tuning, x) + went, _place(tuning, x))
        frame = _seen(tuning, moves, moment, chain, here, tuned.moments, sums, by_pairs)
        tuned = tuned._replace(frame=frame._replace(place=place))
    chain = chain._replace(
        steps=chain.steps + 1,
        position=now.position,
        potential_energy=now.energy,
        gradient=now.gradient,
        energy_noise=jnp.where(moved, there.noise, here.noise),
    )
    return chain, tuned


def _place(tuning: Tuning, x: jax.Array) -> jax.Array:
    """A position in the coordinates that are tuned."""
    return tuning.frame.at(x) if tuning.frame else x


def _rows(
    key: jax.Array, tuning: Tuning, moves: Moves, moment: Moment, by_pairs: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The key of a move's minibatch, and whether the move is a check on fresh rows."""
    checks = jnp.zeros((), bool)
    if moves.exact or moves.descends is False:
        return key, checks
    checks = by_pairs & is_due(tuning.descent)
    always = fixed_rows if moves.fixed is None else lambda k: moves.fixed
    on_fixed = (by_pairs & ~checks) | (jnp.asarray(moves.descends) & moment.last)
    return lax.cond(on_fixed, always, lambda k: k, key), checks


def _step(key: jax.Array, tuning: Tuning, moves: Moves, moment: Moment) -> _Step:
    """The Langevin step of a move: in a descent by its curvatures, to a step size of its own."""
    search, metric, size = tuning.step_size, tuning.preconditioner, tuning.preconditioner.shape
    if moves.descends is not False:
        descending, descent = jnp.asarray(moves.descends), tuning.descent
        metric = jnp.where(descending, descent.best.inverse_curvature, metric)
        search = tree_where(descending, descent.step_size, search)
    log_step = search.log_value
    if moves.adjusted is not None:
        log_step -= SPREAD * random.uniform(random.fold_in(key, 2), dtype=metric.dtype)
    rates = jnp.exp(log_step) * metric
    scales = jnp.sqrt(2 * moment.temperature * rates)
    return _Step(search, metric, rates, scales, normal(key, size, metric.dtype))


def _proposed(
    key: jax.Array,
    x: jax.Array,
    step: _Step,
    tuning: Tuning,
    moves: Moves,
    moment: Moment,
    by_pairs: jax.Array,
    checks: jax.Array,
    walks: jax.Array,
    gradient: jax.Array,
) -> tuple[jax.Array, tuple[jax.Array, Trial, Adam]]:
    """Where the move goes from x, its displacement, and what the descent tries."""
    descent = tuning.descent

    def downwards() -> tuple[Trial, jax.Array, Adam]:
        done, mask = moment.progress, moves.scale_mask
        return next_trial(key, descent, x, gradient, by_pairs, done, mask)

    def nowhere() -> tuple[Trial, jax.Array, Adam]:
        return Trial(step.xi, step.xi), x, at_rest(x.shape[0])

    trial, lower, adam = either(moves.descends, downwards, nowhere)
    if not moves.exact and moves.descends is not False:
        lower = jnp.where(checks, descent.confirmed.position, lower)
    if tuning.frame:
        went = step.scales * step.xi - step.drift(slope(tuning.factor, gradient))
        y = jnp.where(walks, x + displacement(tuning.factor, went), lower)
        return y, (went, trial, adam)
    y = jnp.where(walks, x - step.drift(gradient) + step.scales * step.xi, lower)
    return y, (y - x, trial, adam)


def _accepted(
    key: jax.Array,
    step: _Step,
    tuning: Tuning,
    moves: Moves,
    moment: Moment,
    here: Evaluation,
    there: Evaluation,
    went: jax.Array,
    finite: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """The acceptance statistic of a Langevin move, and whether it is made."""
    temperature, rise = moment.temperature, there.energy - here.energy
    proposals = step.log_proposals(went, slope(tuning.factor, there.gradient))
    log_ratio = jnp.where(
        temperature > 0,
        -rise / positive_or_one(temperature) + proposals,
        jnp.log(1.0 * (rise <= 0)),
    )
    finite_ratio = jnp.nan_to_num(log_ratio, nan=-jnp.inf)
    acceptance = jnp.where(finite, jnp.exp(jnp.minimum(finite_ratio, 0.0)), 0.0)
    if moves.adjusted is None:
        return acceptance, (log_ratio > _BLOW_UP) | (temperature <= 0)
    uniform = random.uniform(random.fold_in(key, 1), dtype=acceptance.dtype)
    return acceptance, uniform < acceptance


def _learnt(
    tuning: Tuning,
    moves: Moves,
    moment: Moment,
    chain: Chain,
    step: _Step,
    here: Evaluation,
    acceptance: jax.Array,
    by_pairs: jax.Array,
) -> tuple[Tuning, Moments]:
    """What is tuned with the moments and the step size of a move, and the moments before it."""
    # What a descent by L-BFGS passes tells nothing of where it ends.
    sums = tree_where(by_pairs, no_moments(chain.position.shape[0]), tuning.moments)
    first, count = sums.steps == 0, sums.steps + 1
    h = slope(tuning.factor, here.gradient)
    gradient_noise = 0.5 * slope(tuning.factor, here.gradient - chain.gradient) ** 2
    energy_noise = 0.5 * (here.energy - chain.potential_energy) ** 2
    energy_mean, energy_squares = welford(count, sums.energy, sums.energy_squares, here.energy)
    bounded = jnp.clip(h, -_LARGEST_GRADIENT, _LARGEST_GRADIENT)
    z = _place(tuning, chain.position)
    moments = Moments(
        count,
        *welford(count, sums.position, sums.position_squares, z),
        *welford(count, sums.gradient, sums.gradient_squares, bounded),
        gradient_noise=sums.gradient_noise + jnp.where(first, 0.0, gradient_noise),
        energy_noise=sums.energy_noise + jnp.where(first, 0.0, energy_noise),
        acceptance=sums.acceptance + acceptance,
        energy=energy_mean,
        energy_squares=energy_squares,
    )
    averaged = update_dual_averaging(
        step.search,
        acceptance,
        TARGET_ACCEPTANCE if moves.adjusted is None else moves.adjusted,
        jnp.log(largest_step_size(tuning._replace(preconditioner=step.metric), moment.temperature)),
    )
    return tuning._replace(step_size=averaged, moments=moments), sums


def _seen(
    tuning: Tuning,
    moves: Moves,
    moment: Moment,
    chain: Chain,
    here: Evaluation,
    moments: Moments,
    sums: Moments,
    by_pairs: jax.Array,
) -> Frame:
    """The coordinates that are tuned, with what a move says of better ones."""
    frame, factor, x = tuning.frame, tuning.factor, chain.position
    assert frame
    z, difference = frame.at(x), here.gradient - chain.gradient
    bounded = jnp.clip(slope(factor, here.gradient), -_LARGEST_GRADIENT, _LARGEST_GRADIENT)
    if isinstance(frame.seen, Rows):
        slopes = jnp.clip(here.gradient, -_LARGEST_GRADIENT, _LARGEST_GRADIENT)
        other = None if moves.exact else difference
        # The first gradient may be that of another estimator.
        known = ~by_pairs & (sums.steps > 0)
        rows = with_row(frame.seen, moment.progress, x, slopes, other, known)
        assert isinstance(frame.swept, jax.Array)
        curved = curvature(tuning, moment.temperature)
        swept = with_sweep(frame.swept, factor, curved, z, sums, bounded)
        return frame._replace(seen=rows, swept=swept)
    kept = Products(*(jnp.where(by_pairs, 0.0, sum_) for sum_ in frame.seen))
    noise = None if moves.exact else slope(factor, difference)
    return frame._replace(seen=with_products(kept, z, sums, moments, bounded, noise))


def _at_both_ends(
    evaluated: Callable[[jax.Array], Evaluation],
    x: jax.Array,
    proposed: Callable[[jax.Array], tuple[jax.Array, Any]],
) -> tuple[jax.Array, Any, Evaluation, Evaluation]:
    """Where a move goes by the gradient at x, with what comes with it, and both ends evaluated.

    It is a loop of two turns, so that the potential energy is compiled once: that takes longest.

    Args:
        evaluated: from a position to its evaluation.
        x: where the move begins.
        proposed: from the gradient there to where it goes, and anything else.
    """

    def end(carry: tuple, is_first: jax.Array) -> tuple[tuple, Evaluation]:
        found = evaluated(carry[0])
        return lax.cond(is_first, lambda: proposed(found.gradient), lambda: carry), found

    blank = jax.tree.map(jnp.zeros_like, jax.eval_shape(proposed, x)[1])
    (y, others), found = lax.scan(end, (x, blank), jnp.array([True, False]))
    here, there = (jax.tree.map(lambda v, n=n: v[n], found) for n in (0, 1))
    return y, others, here, there


def tuning_draw(
    key: jax.Array,
    plan: Plan,
    warmup: Warmup,
    chain: Chain,
    potential_and_grad: PotentialAndGrad,
    temperature: Schedule,
    num_steps: int,
    exact: bool,
    descends: jax.Array | bool | None = None,
    adjusted: float | None = None,
    ahead: Ahead | None = None,
    scale_mask: np.ndarray | None = None,
) -> tuple[Chain, Tuning]:
    """The steps of a draw of descent, tuning or settling.

    Args:
        key: random key.
        plan: the plan of the warm-up.
        warmup: the warm-up before the draw.
        chain: the chain.
        potential_and_grad: `(key, position) -> (potential energy, gradient)`.
        temperature: schedule of tau.
        num_steps: moves of a draw.
        exact: whether energies and gradients are exact.
        descends: whether to descend, where that is known for all chains. None (default) to ask the
            plan of this chain.
        adjusted: where moves are accepted by Metropolis-Hastings, the mean acceptance that is aimed
            at. None (default) where they are not.
        ahead: as for `run_window`. Defaults to None.
        scale_mask: as for `after_trial`. None (default) for none.
    """
    here = progress(plan, warmup)
    if descends is None:
        descends = plan.flag("descends", here.number)
    searches = plan.flag("searches", here.number)
    if descends is False:  # chains that began in a mode walk in the stage of the descent
        searches |= plan.flag("descends", here.number)

    def move(carry: tuple, inputs: tuple) -> tuple[tuple, None]:
        keys, number = inputs
        done = (here.since * num_steps + number) / (here.total * num_steps)
        chain, tuning = carry
        last = here.ends & (number == num_steps - 1)
        moment = Moment(temperature(chain.steps), done, searches, last)
        return tuning_step(keys, chain, tuning, moves, moment), None

    keys = two_keys(key, num_steps)
    fixed = None
    if ahead is not None:
        drawn = ahead.draw(fixed_rows(keys[:1, 1]), None)
        fixed = jax.tree.map(lambda x: x[0], drawn)
    moves = Moves(potential_and_grad, exact, descends, adjusted, fixed, scale_mask)
    scan, keys = scan_of(ahead, keys, lambda next_key: two_keys(next_key, num_steps), num_steps)
    inputs = (keys, jnp.arange(num_steps))
    (chain, tuning), _ = scan(move, (chain, warmup.tuning), inputs)
    return chain, tuning


def either(condition: Any, then: Callable, otherwise: Callable, *operands: Any) -> Any:
    """As `jax.lax.cond`, but a Python bool decides at once: the other branch is not traced.

    Args:
        condition: a bool, or a scalar array.
        then: a function of the operands.
        otherwise: another one, which returns the same shapes.
        *operands: the operands.

    Example:
        >>> from numpyro_contour.warmup.stages.tuning_step import either
        >>> either(True, lambda x: x + 1, lambda x: x / "no number", 1)
        2
    """
    if isinstance(condition, bool):
        return then(*operands) if condition else otherwise(*operands)
    return lax.cond(condition, then, otherwise, *operands)
