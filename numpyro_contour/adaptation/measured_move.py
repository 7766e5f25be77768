"""One move of descent or of Langevin dynamics that is measured, for the stages of tuning."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from numpyro_contour.adaptation.descent import (
    Descent,
    after_trial,
    fixed_rows,
    goes_by_pairs,
    next_trial,
)
from numpyro_contour.adaptation.dual_averaging import DualAveraging, update_dual_averaging
from numpyro_contour.adaptation.frames import Products, with_products, with_sweep
from numpyro_contour.adaptation.fresh_rows import after_check, is_due
from numpyro_contour.adaptation.moments import Moments, no_moments, welford
from numpyro_contour.adaptation.places import Place
from numpyro_contour.adaptation.plan import Plan
from numpyro_contour.adaptation.rows import Rows, with_row
from numpyro_contour.adaptation.scaled_adam import Adam, at_rest
from numpyro_contour.adaptation.tuning import (
    TINY,
    Tuning,
    curvature,
    largest_step_size,
    positive_or_one,
)
from numpyro_contour.adaptation.warmup import Warmup, progress
from numpyro_contour.core.arrays.branches import either
from numpyro_contour.core.arrays.factors import displacement, slope
from numpyro_contour.core.arrays.random_bits import normal
from numpyro_contour.core.diffusions import DRIFT_LIMIT
from numpyro_contour.core.diffusions.leapfrog import SPREAD
from numpyro_contour.core.samplers.ahead import Ahead, scan_of, two_keys
from numpyro_contour.core.samplers.chain import Chain, Evaluation, PotentialAndGrad, evaluate
from numpyro_contour.core.samplers.guard import all_finite
from numpyro_contour.modes.lbfgs import Trial, inverse_curvatures
from numpyro_contour.schedules import Schedule

#: Mean of the acceptance statistic that the step size is tuned to.
TARGET_ACCEPTANCE = 0.9
# Squares of larger gradients would leave the range of a float.
_LARGEST_GRADIENT = 1e16
# A move this improbable (in nats) under the exact dynamics is a blow-up: it is not made.
_BLOW_UP = -20.0


def measured_move(
    keys: jax.Array,
    chain: Chain,
    tuning: Tuning,
    potential_and_grad: PotentialAndGrad,
    temperature: jax.Array,
    descends: jax.Array | bool,
    progress: jax.Array,
    searching: jax.Array,
    exact: bool,
    last: jax.Array | bool = False,
    adjusted: float | None = None,
    fixed: Any = None,
    scale_mask: np.ndarray | None = None,
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
        potential_and_grad: `(key, position) -> (potential energy, gradient)`.
        temperature: tau.
        descends: whether to descend; one decision for all chains, so that it costs the other stages
            nothing. A bool decides while the program is traced.
        progress: share of the stage that is done.
        searching: whether the step size is still being tuned.
        exact: whether energies and gradients are exact: nothing is evaluated twice then.
        last: whether this is the last move of its stage. After a descent the energies of chains are
            compared: it is made on rows that are the same for all. Defaults to False.
        adjusted: where moves are accepted with probability alpha, and step sizes drawn anew as
            `leapfrog` draws them, the mean that alpha is tuned to. None (default) where not.
        fixed: the minibatch of `fixed_rows`, where `keys` hold minibatches that were drawn ahead.
            None (default) where they do not.
        scale_mask: as for `after_trial`. None (default) for none.
    """
    x, descent = chain.position, tuning.descent
    descending = by_pairs = jnp.asarray(descends)
    metric, searched = tuning.preconditioner, tuning.step_size
    if descends is not False:
        by_pairs &= goes_by_pairs(descent, progress, exact)
        # A chain that has come down walks: by its descent's curvatures, to a step of its own.
        metric = jnp.where(descending, descent.best.inverse_curvature, metric)
        searched = jax.tree.map(
            lambda a, b: jnp.where(descending, a, b), descent.step_size, searched
        )
    key = keys[1]
    checks = jnp.zeros((), bool)
    if not exact:
        checks = by_pairs & is_due(descent) if descends is not False else checks
        always = fixed_rows if fixed is None else lambda k: fixed
        on_fixed = (by_pairs & ~checks) | (descending & last)
        key = lax.cond(on_fixed, always, lambda k: k, key)
    # The move is made in the coordinates that are tuned: h is the gradient there.
    frame, factor = tuning.frame, tuning.factor

    walks = ~descending | (~by_pairs & exact)
    log_step = searched.log_value
    if adjusted is not None:
        log_step -= SPREAD * random.uniform(random.fold_in(keys[0], 2), dtype=x.dtype)
    rates = jnp.exp(log_step) * metric
    scales = jnp.sqrt(2 * temperature * rates)
    xi = normal(keys[0], x.shape, x.dtype)

    def drift(g: jax.Array) -> jax.Array:
        limit = jnp.where(scales > 0, DRIFT_LIMIT * scales, jnp.inf)
        return jnp.clip(rates * g, -limit, limit)

    def proposed(gradient: jax.Array) -> tuple[jax.Array, tuple[jax.Array, Trial, Adam]]:
        """Where the move goes from x, its displacement, and what the descent tries."""

        def downwards() -> tuple[Trial, jax.Array, Adam]:
            return next_trial(keys[0], descent, x, gradient, by_pairs, progress, scale_mask)

        def nowhere() -> tuple[Trial, jax.Array, Adam]:
            return Trial(xi, xi), x, at_rest(x.shape[0])

        trial, lower, adam = either(descends, downwards, nowhere)
        if not exact and descends is not False:
            lower = jnp.where(checks, descent.confirmed.position, lower)
        if frame:
            went = scales * xi - drift(slope(factor, gradient))
            return jnp.where(walks, x + displacement(factor, went), lower), (went, trial, adam)
        y = jnp.where(walks, x - drift(gradient) + scales * xi, lower)
        return y, (y - x, trial, adam)

    if exact:
        here = Evaluation(chain.potential_energy, chain.gradient, chain.energy_noise)
        y, (went, trial, adam) = proposed(here.gradient)
        there = evaluate(potential_and_grad, key, y)
    else:
        y, (went, trial, adam), here, there = _at_both_ends(
            partial(evaluate, potential_and_grad, key), x, proposed
        )
    (energy, gradient, noise), (new_energy, new_gradient, new_noise) = here, there
    z = frame.at(x) if frame else x
    h, difference = slope(factor, gradient), slope(factor, gradient - chain.gradient)
    gradient_noise = 0.5 * difference**2
    energy_noise = 0.5 * (energy - chain.potential_energy) ** 2

    back = (drift(slope(factor, new_gradient)) - went) / jnp.maximum(scales, TINY)
    proposals = 0.5 * jnp.sum(xi**2 - back**2)
    rise = new_energy - energy
    log_ratio = jnp.where(
        temperature > 0,
        -rise / positive_or_one(temperature) + proposals,
        jnp.log(1.0 * (rise <= 0)),
    )
    finite = all_finite(y, new_energy, new_gradient)
    acceptance = jnp.where(
        finite, jnp.exp(jnp.minimum(jnp.nan_to_num(log_ratio, nan=-jnp.inf), 0.0)), 0.0
    )
    if adjusted is not None:
        made = random.uniform(random.fold_in(keys[0], 1), dtype=acceptance.dtype) < acceptance
    else:
        made = (log_ratio > _BLOW_UP) | (temperature <= 0)
    moves = finite & (~walks | made)

    # What a descent by L-BFGS passes tells nothing of where it ends.
    sums = jax.tree.map(
        lambda a, b: jnp.where(by_pairs, a, b), no_moments(x.shape[0]), tuning.moments
    )
    first, count = sums.steps == 0, sums.steps + 1
    energy_mean, energy_squares = welford(count, sums.energy, sums.energy_squares, energy)
    bounded = jnp.clip(h, -_LARGEST_GRADIENT, _LARGEST_GRADIENT)
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
        searched,
        acceptance,
        TARGET_ACCEPTANCE if adjusted is None else adjusted,
        jnp.log(largest_step_size(tuning._replace(preconditioner=metric), temperature)),
    )

    def renewed(renews: jax.Array, old: DualAveraging) -> DualAveraging:
        return jax.tree.map(lambda a, b: jnp.where(renews, a, b), averaged, old)

    def choose(new: jax.Array, old: jax.Array) -> jax.Array:
        return jnp.where(moves, new, old)

    at_x = Place(x, energy, gradient, metric)
    at_y = Place(y, new_energy, new_gradient, metric)
    now = jax.tree.map(choose, at_y, at_x)

    def descended() -> tuple[Descent, Place]:
        # A refused descent by Adam starts again from rest.
        rested = adam._replace(momentum=choose(adam.momentum, jnp.zeros_like(x)))
        walked = descent._replace(
            adam=rested, step_size=renewed(walks & descending, descent.step_size)
        )
        lower = after_trial(descent, trial, at_x, at_y, finite, progress, exact, scale_mask)
        if not exact:
            stays = Place(
                x, chain.potential_energy, chain.gradient, inverse_curvatures(descent.lbfgs)
            )
            checked = after_check(descent, stays, energy, new_energy), stays
            lower = jax.tree.map(lambda a, b: jnp.where(checks, a, b), checked, lower)
        return jax.tree.map(lambda a, b: jnp.where(by_pairs, a, b), lower, (walked, now))

    descent, now = either(descends, descended, lambda: (descent, now))
    tuned = tuning._replace(
        step_size=renewed(searching, tuning.step_size), moments=moments, descent=descent
    )
    if frame:
        seen: Products | Rows
        swept = frame.swept
        if isinstance(frame.seen, Rows):
            slopes = jnp.clip(gradient, -_LARGEST_GRADIENT, _LARGEST_GRADIENT)
            other = None if exact else gradient - chain.gradient
            # The first gradient may be that of another estimator.
            seen = with_row(frame.seen, progress, x, slopes, other, ~by_pairs & ~first)
            assert isinstance(swept, jax.Array)
            curved = curvature(tuning, temperature)
            swept = with_sweep(swept, factor, curved, z, sums, bounded)
        else:
            kept = Products(*(jnp.where(by_pairs, 0.0, sum_) for sum_ in frame.seen))
            seen = with_products(kept, z, sums, moments, bounded, None if exact else difference)
        frame = frame._replace(seen=seen, swept=swept, place=jnp.where(moves, z + went, z))
        tuned = tuned._replace(frame=frame)
    chain = chain._replace(
        steps=chain.steps + 1,
        position=now.position,
        potential_energy=now.energy,
        gradient=now.gradient,
        energy_noise=choose(new_noise, noise),
    )
    return chain, tuned


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


def measured_draw(
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
    """The measured moves of a draw of descent, tuning or settling.

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
        tau = temperature(chain.steps)
        last = here.ends & (number == num_steps - 1)
        moved = measured_move(
            *(keys, chain, tuning, potential_and_grad, tau, descends, done, searches, exact),
            last=last,
            adjusted=adjusted,
            fixed=fixed,
            scale_mask=scale_mask,
        )
        return moved, None

    keys = two_keys(key, num_steps)
    fixed = None
    if ahead is not None:
        drawn = ahead.draw(fixed_rows(keys[:1, 1]), None)
        fixed = jax.tree.map(lambda x: x[0], drawn)
    scan, keys = scan_of(ahead, keys, lambda next_key: two_keys(next_key, num_steps), num_steps)
    inputs = (keys, jnp.arange(num_steps))
    (chain, tuning), _ = scan(move, (chain, warmup.tuning), inputs)
    return chain, tuning
