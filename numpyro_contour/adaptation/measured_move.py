"""One move of descent or of Langevin dynamics that is measured, for the stages of tuning."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax, random

from numpyro_contour.adaptation.descent import adam
from numpyro_contour.adaptation.dual_averaging import update_dual_averaging
from numpyro_contour.adaptation.frames import with_products
from numpyro_contour.adaptation.moments import Moments, welford
from numpyro_contour.adaptation.plan import Plan
from numpyro_contour.adaptation.tuning import TINY, Tuning, largest_step_size, positive_or_one
from numpyro_contour.adaptation.warmup import Warmup, progress
from numpyro_contour.core.arrays.factors import displacement, slope
from numpyro_contour.core.arrays.random_bits import normal
from numpyro_contour.core.diffusions import DRIFT_LIMIT
from numpyro_contour.core.samplers.chain import Chain, PotentialAndGrad, evaluate
from numpyro_contour.core.samplers.guard import all_finite
from numpyro_contour.schedules import Schedule

#: Mean of the acceptance statistic that the step size is tuned to.
TARGET_ACCEPTANCE = 0.9
# A move this improbable (in nats) under the exact dynamics is a blow-up: it is not made.
_BLOW_UP = -20.0


def measured_move(
    keys: jax.Array,
    chain: Chain,
    tuning: Tuning,
    potential_and_grad: PotentialAndGrad,
    temperature: jax.Array,
    descending: jax.Array,
    progress: jax.Array,
    searching: jax.Array,
    exact: bool,
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
        descending: whether to descend.
        progress: share of the stage that is done.
        searching: whether the step size is still being tuned.
        exact: whether energies and gradients are exact: nothing is evaluated twice then.
    """
    x, energy, gradient = chain.position, chain.potential_energy, chain.gradient
    noise = chain.energy_noise
    if not exact:
        energy, gradient, noise = evaluate(potential_and_grad, keys[1], x)
    # The move is made in the coordinates that are tuned: h is the gradient there.
    frame, factor = tuning.frame, tuning.factor
    z = frame.at(x) if frame else x
    h, difference = slope(factor, gradient), slope(factor, gradient - chain.gradient)
    gradient_noise = 0.5 * difference**2
    energy_noise = 0.5 * (energy - chain.potential_energy) ** 2

    step_size = jnp.exp(tuning.step_size.log_value)
    rates = step_size * tuning.preconditioner
    scales = jnp.sqrt(2 * temperature * rates)
    xi = normal(keys[0], x.shape, x.dtype)

    def drift(g: jax.Array) -> jax.Array:
        limit = jnp.where(scales > 0, DRIFT_LIMIT * scales, jnp.inf)
        return jnp.clip(rates * g, -limit, limit)

    change, descended = adam(tuning, gradient, progress)
    if frame:
        went = scales * xi - drift(h)
        y = x + jnp.where(descending, change, displacement(factor, went))
    else:
        y = jnp.where(descending, x + change, x - drift(gradient) + scales * xi)
        went = y - x
    new_energy, new_gradient, new_noise = evaluate(potential_and_grad, keys[1], y)

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
    moves = finite & (descending | (log_ratio > _BLOW_UP) | (temperature <= 0))

    sums = tuning.moments
    first, count = sums.steps == 0, sums.steps + 1
    energy_mean, energy_squares = welford(count, sums.energy, sums.energy_squares, energy)
    moments = Moments(
        count,
        *welford(count, sums.position, sums.position_squares, z),
        *welford(count, sums.gradient, sums.gradient_squares, h),
        gradient_noise=sums.gradient_noise + jnp.where(first, 0.0, gradient_noise),
        energy_noise=sums.energy_noise + jnp.where(first, 0.0, energy_noise),
        acceptance=sums.acceptance + acceptance,
        energy=energy_mean,
        energy_squares=energy_squares,
    )
    averaged = update_dual_averaging(
        tuning.step_size,
        acceptance,
        TARGET_ACCEPTANCE,
        jnp.log(largest_step_size(tuning, temperature)),
    )
    tuned = descended._replace(
        step_size=jax.tree.map(lambda a, b: jnp.where(searching, a, b), averaged, tuning.step_size),
        # A refused descent starts again from rest.
        momentum=jnp.where(moves, descended.momentum, 0.0),
        moments=moments,
    )
    if frame:
        frame = with_products(frame, z, sums, moments, h, None if exact else difference)
        frame = frame._replace(place=jnp.where(moves, z + went, z))
        tuned = tuned._replace(frame=frame)
    chain = chain._replace(
        steps=chain.steps + 1,
        position=jnp.where(moves, y, x),
        potential_energy=jnp.where(moves, new_energy, energy),
        gradient=jnp.where(moves, new_gradient, gradient),
        energy_noise=jnp.where(moves, new_noise, noise),
    )
    return chain, tuned


def measured_draw(
    key: jax.Array,
    plan: Plan,
    warmup: Warmup,
    chain: Chain,
    potential_and_grad: PotentialAndGrad,
    temperature: Schedule,
    num_steps: int,
    exact: bool,
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
    """
    here = progress(plan, warmup)
    descends = plan.flag("descends", here.number)
    searches = plan.flag("searches", here.number)

    def move(carry: tuple, inputs: tuple) -> tuple[tuple, None]:
        keys, number = inputs
        done = (here.since * num_steps + number) / (here.total * num_steps)
        chain, tuning = carry
        tau = temperature(chain.steps)
        moved = measured_move(
            *(keys, chain, tuning, potential_and_grad, tau, descends, done, searches, exact)
        )
        return moved, None

    inputs = (random.split(key, (num_steps, 2)), jnp.arange(num_steps))
    (chain, tuning), _ = lax.scan(move, (chain, warmup.tuning), inputs)
    return chain, tuning
