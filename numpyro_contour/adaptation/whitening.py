"""A dense preconditioner from the moves of a stage: turned coordinates in which M is 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from numpyro_contour.adaptation.dual_averaging import initial_dual_averaging
from numpyro_contour.adaptation.frames import without_products
from numpyro_contour.adaptation.moments import no_moments
from numpyro_contour.adaptation.plan import Plan
from numpyro_contour.adaptation.tune import REACH, SLOPE_SHARE, TUNE
from numpyro_contour.adaptation.tuning import Tuning, largest_step_size, positive_or_one
from numpyro_contour.adaptation.warmup import progress
from numpyro_contour.schedules import Schedule

# What is added to second moments of n steps, over n: directions that n steps say nothing of keep
# the scale that they have.
_SHRINKAGE = 0.005
# The least share of a gradient's variance that is not taken for noise.
_LEAST_SIGNAL = 1e-3
# Fewer steps than so many for each coordinate say less than the diagonal.
_STEPS_A_COORDINATE = 5


class Whitening(NamedTuple):
    """A change of coordinates from z to w, z = T w, with M = T T'."""

    #: T, (d, d)
    factor: jax.Array
    #: the variances of the gradient's noise in w, where they do not covary, (d,)
    noise: jax.Array
    #: the largest eigenvalue of the inverse of M: how much too long a step of M = 1 would be
    stiffness: jax.Array
    #: the condition number of M: how many times longer than now the slowest direction would take
    condition: jax.Array


def whitening(
    places: jax.Array, gradients: jax.Array, noise: jax.Array, temperature: jax.Array
) -> Whitening:
    r"""The preconditioner that second moments of positions and gradients suggest.

    .. math:: M^{-1} = P + V / \tau, \qquad
              P = C^{-1/2} \bigl(C^{1/2} (G - V)\, C^{1/2}\bigr)^{1/2} C^{-1/2}

    P is the precision of a Gaussian from the moments of any set of positions, also of a chain that
    has not mixed: there G - V = P C P. Where chains have mixed, M is the inverse of the mean
    square of the gradient over tau. T is turned so that T' V T is diagonal.

    With C = A A' and G - V = B B', and the singular values of B' A = U S W', it is
    :math:`P^{-1} = A W S^{-1} W' A'`: nothing is inverted and nothing squared, which single
    precision would not bear.

    Args:
        places: C, the covariance of positions, (d, d).
        gradients: G, the covariance of gradients, (d, d).
        noise: V, the covariance of a gradient's noise at one position, (d, d).
        temperature: tau.

    Source: Seyboldt, Carlson and Carpenter (2024), *Preconditioning Hamiltonian Monte Carlo by
    minimizing Fisher divergence*, for P without noise.
    """
    values, vectors = _decomposed(gradients)
    root, inverse = vectors * jnp.sqrt(values), vectors / jnp.sqrt(values)
    noisy, turn = jnp.linalg.eigh(_symmetric(inverse.T @ noise @ inverse))
    # The share of each direction's variance that is signal.
    signal = (root @ turn) * jnp.sqrt(jnp.clip(1 - noisy, _LEAST_SIGNAL, 1.0))
    values, vectors = _decomposed(places)
    spread = vectors * jnp.sqrt(values)
    _, singular, turn = jnp.linalg.svd(signal.T @ spread)
    singular = jnp.maximum(singular, _eps(singular) * singular[0])
    exact = (spread @ turn.T) / jnp.sqrt(singular)
    # In the coordinates of `exact` P is 1.
    shares, turn = jnp.linalg.eigh(_symmetric(exact.T @ noise @ exact))
    shares = jnp.maximum(shares, 0.0) / positive_or_one(temperature)
    factor = (exact @ turn) / jnp.sqrt(1 + shares)
    squares = jnp.linalg.svd(factor, compute_uv=False) ** 2
    variances = positive_or_one(temperature) * shares / (1 + shares)
    return Whitening(factor, variances, 1 / squares[-1], squares[0] / squares[-1])


def _eps(x: jax.Array) -> float:
    return float(jnp.finfo(x.dtype).eps)


def _symmetric(matrix: jax.Array) -> jax.Array:
    return 0.5 * (matrix + matrix.T)


def _decomposed(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Eigenvalues of a symmetric matrix, not below what rounding leaves, and eigenvectors."""
    values, vectors = jnp.linalg.eigh(_symmetric(matrix))
    return jnp.maximum(values, _eps(values) * values[-1]), vectors


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
    frame, moments = tuning.frame, tuning.moments
    assert frame
    count, size = jnp.maximum(moments.steps, 1), position.shape[0]
    # By the diagonal that was found first: second moments are then of one size.
    scale = jnp.sqrt(tuning.preconditioner)
    added = _SHRINKAGE / count * jnp.eye(size)
    mean = moments.gradient * scale
    found = whitening(
        frame.places / count / jnp.outer(scale, scale) + added,
        frame.gradients / count * jnp.outer(scale, scale)
        + SLOPE_SHARE * jnp.outer(mean, mean)
        + added,
        frame.noise / jnp.maximum(count - 1, 1) * jnp.outer(scale, scale),
        temperature,
    )
    factor = (frame.factor * scale) @ found.factor
    usable = jnp.isfinite(factor).all() & jnp.isfinite(found.noise).all()
    renews &= usable & (count >= _STEPS_A_COORDINATE * size)
    renews &= frame.turned | (found.condition >= frame.turns_from)
    moved = tuning._replace(
        preconditioner=jnp.ones_like(scale),
        gradient_noise=found.noise,
        frame=frame._replace(
            factor=factor,
            origin=position,
            place=jnp.zeros_like(position),
            turned=jnp.ones((), bool),
        ),
    )
    log_step = tuning.step_size.log_value + jnp.log(found.stiffness)
    log_step = jnp.minimum(log_step, jnp.log(largest_step_size(moved, temperature)))
    moved = moved._replace(step_size=initial_dual_averaging(log_step, REACH))
    chosen = jax.tree.map(lambda a, b: jnp.where(renews, a, b), moved, tuning)
    return chosen._replace(moments=no_moments(size), frame=without_products(chosen.frame))


def with_frames_turned(
    plan: Plan, lift: Callable, temperature: Schedule, before: Any, after: Any
) -> Any:
    """The states of all chains after a measured draw, with the coordinates of the next stage.

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
