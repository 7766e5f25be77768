"""The overdamped Langevin diffusion."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from numpyro_contour import checks
from numpyro_contour.core.diffusions.diffusion import (
    DRIFT_LIMIT,
    NOISES,
    Diffusion,
    Proposal,
    Step,
    clip_drift,
    drawn,
    injected_noise_scale,
    normal_like,
    preconditioner_sqrt,
    relocate_velocity,
)


def langevin(
    noise: str = "averaged",
    preconditioner: Any = None,
    gradient_noise: Any = None,
    curvature: Any = None,
    drift_limit: float = DRIFT_LIMIT,
) -> Diffusion:
    r"""The overdamped Langevin diffusion.

    .. math:: x_{k+1} = x_k - \epsilon\, \lambda_k M \nabla \tilde U(x_k)
              + \sqrt{2 \tau \epsilon M}\, \xi_k

    with :math:`\lambda_k` the gradient multiplier (1 for plain Langevin). The noise is
    :math:`\xi_k = (R_k + R_{k+1}) / 2` when "averaged" and :math:`\xi_k = R_{k+1}` when
    "independent", with R standard normal. Both take a single gradient for each step, but averaging
    lowers the bias from first to second order in the step size, so that steps may be 8 to 20 times
    larger.

    Args:
        noise: "averaged" (default) or "independent".
        preconditioner: the diagonal of M > 0, in the structure of a position. None (default) for 1.
        gradient_noise: V, the variance of the gradient estimate in each coordinate. The variance of
            the injected noise is reduced by what the noise of the drift adds, a share of
            :math:`\epsilon M (\lambda^2 V + W g^2) / (2 \tau)` with W the variance of the
            multiplier, but by no more than 95 %. None (default) for no such correction.
        curvature: if M depends on the position, the derivative of each of its diagonal elements in
            its own coordinate, so that :math:`\tau\epsilon\, \nabla\cdot M` is added to the
            drift. None (default) if M is fixed.
        drift_limit: the largest drift of a coordinate, in standard deviations of the injected
            noise, > 0. Defaults to 3; `math.inf` gives the plain scheme of the papers.

    Returns:
        A `Diffusion`; its memory is R_k.

    Raises:
        ValueError: `noise` is unknown, or `drift_limit` is not above 0.

    Source: Leimkuhler and Matthews (2013), the limit of BAOAB at high friction, for "averaged";
    Welling and Teh (2011), equation (4), for "independent".

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.core.diffusions import Step, langevin
        >>> diffusion = langevin()
        >>> x = jnp.ones(2)
        >>> memory = diffusion.init(jax.random.key(0), x)
        >>> proposal = diffusion.propose(jax.random.key(1), x, memory, x, Step(0.1, 1.0))
        >>> proposal.position.shape
        (2,)
    """
    averaged = checks.one_of("noise", noise, NOISES) == "averaged"
    if not drift_limit > 0:
        raise checks.fail("drift_limit", drift_limit, "a number above 0, or infinity")

    def init(key: jax.Array, position: Any) -> Any:
        return normal_like(key, position) if averaged else ()

    def propose(key: jax.Array, position: Any, memory: Any, gradient: Any, step: Step) -> Proposal:
        step_size, temperature, multiplier, multiplier_variance = step
        if preconditioner is None:
            drift = jax.tree.map(lambda g: (step_size * multiplier) * g, gradient)
            common = jnp.sqrt(2 * temperature * step_size)
            scale = jax.tree.map(lambda d: common, drift)
            drift, clipped = clip_drift(drift, scale, drift_limit)
        else:
            rate = jax.tree.map(lambda m: step_size * m, preconditioner)
            scale = jax.tree.map(lambda r: jnp.sqrt(2 * temperature * r), rate)
            drift = jax.tree.map(lambda r, g: (r * multiplier) * g, rate, gradient)
            drift, clipped = clip_drift(drift, scale, drift_limit)
            if gradient_noise is not None:
                noise = jax.tree.map(
                    lambda r, v, g: r * (multiplier**2 * v + multiplier_variance * g**2),
                    *(rate, gradient_noise, gradient),
                )
                scale = jax.tree.map(
                    lambda s, n: s * injected_noise_scale(n, temperature), scale, noise
                )
        if curvature is not None:
            drift = jax.tree.map(lambda d, c: d - temperature * step_size * c, drift, curvature)
        fresh = drawn(normal_like, key, position)
        xi = jax.tree.map(lambda r, s: 0.5 * (r + s), memory, fresh) if averaged else fresh
        moved = jax.tree.map(lambda x, d, s, n: x - d + s * n, position, drift, scale, xi)
        memory = fresh if averaged else ()
        return Proposal(moved, memory, memory, clipped)

    def relocate(memory: Any, position: Any, before: Any, after: Any, step: Step) -> Any:
        # R times the square root of tau is a velocity.
        root = preconditioner_sqrt(preconditioner, position)
        at_one = jnp.ones_like(step.temperature)
        time = jnp.sqrt(2 * step.step_size / step.temperature)
        return relocate_velocity(memory, before, after, root, time, at_one, drift_limit)

    if averaged:
        return Diffusion(init, propose, relocate, draw=normal_like)
    return Diffusion(init, propose, draw=normal_like)
