"""The underdamped Langevin diffusion: stochastic gradient Hamiltonian Monte Carlo (SGHMC)."""

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
    drawn,
    injected_noise_scale,
    normal_like,
    preconditioner_sqrt,
    relocate_velocity,
    velocity_kick,
)

#: The momentum coefficient if neither `momentum` nor `friction` is given.
DEFAULT_MOMENTUM = 0.9


def check_momentum(momentum: Any, friction: Any) -> tuple[float | None, float | None]:
    """The arguments `momentum` and `friction`; exactly one of the results is None."""
    if friction is not None:
        if momentum is not None:
            raise checks.fail("momentum", momentum, "None where `friction` is given")
        return None, checks.positive("friction", friction)
    momentum = checks.number("momentum", DEFAULT_MOMENTUM if momentum is None else momentum)
    if not 0 <= momentum < 1:
        raise checks.fail("momentum", momentum, "a number in [0, 1)")
    return momentum, None


def momentum_coefficient(
    momentum: float | None, friction: float | None, step_size: jax.Array
) -> jax.Array | float:
    """The momentum coefficient of a step, from whichever of the two arguments is given."""
    if friction is not None:
        return jnp.exp(-friction * jnp.sqrt(step_size))
    assert momentum is not None
    return momentum


def underdamped(
    momentum: float | None = None,
    friction: float | None = None,
    noise: str = "averaged",
    preconditioner: Any = None,
    gradient_noise: Any = None,
    curvature: Any = None,
    drift_limit: float = DRIFT_LIMIT,
) -> Diffusion:
    r"""The underdamped Langevin diffusion, whose steps continue in the direction of the last one.

    With noise "independent", this is the step of SGHMC in the parametrisation of Saatci and Wilson,

    .. math:: u_{k+1} = c\, u_k - \epsilon\, \lambda_k M \nabla\tilde U(x_k)
              + \sqrt{2 (1 - c) \tau\epsilon M}\, R_{k+1}, \qquad x_{k+1} = x_k + u_{k+1}

    and with "averaged", it is the splitting BAOAB of the same dynamics, where a gradient causes the
    same displacement with :math:`h^2 = 2\epsilon / (1 + c)`,

    .. math:: v'_k = v_k - h \lambda_k M^{1/2} \nabla\tilde U(x_k), \qquad
              v_{k+1} = c\, v'_k + \sqrt{(1 - c^2) \tau}\, R_{k+1}, \qquad
              x_{k+1} = x_k + \tfrac h2 M^{1/2} (v'_k + v_{k+1})

    which samples a Gaussian without bias at any stable step size. Without momentum, c = 0,
    "independent" equals `langevin("independent")`, and "averaged" equals `langevin("averaged")`
    after its first step. At temperature 0 both are gradient descent with momentum (the heavy ball).
    A gradient acts for about :math:`1 / (1 - c)` steps, so that in the long run SGLD with a step
    size of :math:`\epsilon / (1 - c)` moves as far.

    Args:
        momentum: c in [0, 1). None (default) for 0.9, unless `friction` is given.
        friction: :math:`\gamma > 0`, given instead of c, which is then
            :math:`c = e^{-\gamma\sqrt\epsilon}`. The friction per unit of time thus stays the same
            as steps become smaller. None (default) to use `momentum`.
        noise: "averaged" (default) or "independent".
        preconditioner: the diagonal of M > 0, in the structure of a position. None (default) for 1.
        gradient_noise: V, the variance of the gradient estimate in each coordinate. The variance of
            the injected noise is reduced by what the noise of the gradient adds, a share of
            :math:`\epsilon M (\lambda^2 V + W g^2) / (2 (1 - c) \tau)` with W the variance of the
            multiplier, but by no more than 95 %. None (default) for no such correction.
        curvature: if M depends on the position, the derivative of each of its diagonal elements in
            its own coordinate. None (default) if M is fixed.
        drift_limit: the largest drift of a coordinate, in standard deviations of the noise of a
            Langevin step, > 0. Defaults to 3; `math.inf` gives the plain scheme of the papers.

    Returns:
        A `Diffusion`; its memory is the velocity :math:`v = M^{-1/2} u / h`, of variance
        :math:`\tau`. It starts at 0 and is reversed if a move is refused.

    Raises:
        ValueError: an argument is out of its range, or both momentum and friction are given.

    Source: Chen, Fox and Guestrin (2014), equation (15), in the parametrisation of Saatci and
    Wilson (2017), Algorithm 1, for "independent"; Leimkuhler and Matthews (2013), BAOAB, for
    "averaged".

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.core.diffusions import Step, underdamped
        >>> diffusion = underdamped(momentum=0.9)
        >>> x = jnp.ones(2)
        >>> memory = diffusion.init(jax.random.key(0), x)
        >>> proposal = diffusion.propose(jax.random.key(1), x, memory, x, Step(0.1, 1.0))
        >>> proposal.position.shape
        (2,)
    """
    averaged = checks.one_of("noise", noise, NOISES) == "averaged"
    if not drift_limit > 0:
        raise checks.fail("drift_limit", drift_limit, "a number above 0, or infinity")
    momentum, friction = check_momentum(momentum, friction)

    def init(key: jax.Array, position: Any) -> Any:
        return jax.tree.map(jnp.zeros_like, position)

    def times(step_size: jax.Array) -> tuple[Any, jax.Array, jax.Array]:
        """The momentum coefficient, the time h of a step, and how long a gradient acts."""
        c = momentum_coefficient(momentum, friction, step_size)
        h = jnp.sqrt(2 * step_size / (1 + c))
        return c, h, h if averaged else step_size / h

    def propose(key: jax.Array, position: Any, memory: Any, gradient: Any, step: Step) -> Proposal:
        step_size, temperature, multiplier, multiplier_variance = step
        c, h, time = times(step_size)
        root = preconditioner_sqrt(preconditioner, position)
        kick, clipped = velocity_kick(
            gradient, root, time, multiplier, temperature, curvature, drift_limit
        )
        sd = jnp.sqrt((1 - c**2) * temperature)
        scale = jax.tree.map(lambda x: jnp.asarray(sd, jnp.result_type(x)), position)
        if gradient_noise is not None:
            share = jax.tree.map(
                lambda r, v, g: step_size * r**2 * (multiplier**2 * v + multiplier_variance * g**2),
                *(root, gradient_noise, gradient),
            )
            scale = jax.tree.map(
                lambda s, n: s * injected_noise_scale(n / (1 - c), temperature), *(scale, share)
            )
        injected = jax.tree.map(lambda s, n: s * n, scale, drawn(normal_like, key, position))
        if averaged:
            kicked = jax.tree.map(lambda v, k: v - k, memory, kick)
            velocity = jax.tree.map(lambda v, n: c * v + n, kicked, injected)
            path = jax.tree.map(lambda a, b: 0.5 * (a + b), kicked, velocity)
        else:
            velocity = jax.tree.map(lambda v, k, n: c * v - k + n, memory, kick, injected)
            path = velocity
        moved = jax.tree.map(lambda x, r, v: x + h * r * v, position, root, path)
        return Proposal(moved, velocity, jax.tree.map(jnp.negative, memory), clipped)

    def relocate(memory: Any, position: Any, before: Any, after: Any, step: Step) -> Any:
        time = times(step.step_size)[2]
        root = preconditioner_sqrt(preconditioner, position)
        return relocate_velocity(memory, before, after, root, time, step.temperature, drift_limit)

    return Diffusion(init, propose, relocate, draw=normal_like)
