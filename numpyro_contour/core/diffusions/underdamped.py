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
    kicks,
    normal_like,
    remaining,
    roots,
    with_kick_of,
)

#: momentum coefficient where neither it nor a friction is given
DEFAULT_MOMENTUM = 0.9


def check_momentum(momentum: Any, friction: Any) -> tuple[float | None, float | None]:
    """The arguments `momentum` and `friction`, of which one is None afterwards."""
    if friction is not None:
        if momentum is not None:
            raise checks.fail("momentum", momentum, "None where `friction` is given")
        return None, checks.positive("friction", friction)
    momentum = checks.number("momentum", DEFAULT_MOMENTUM if momentum is None else momentum)
    if not 0 <= momentum < 1:
        raise checks.fail("momentum", momentum, "a number in [0, 1)")
    return momentum, None


def coefficient(
    momentum: float | None, friction: float | None, step_size: jax.Array
) -> jax.Array | float:
    """The momentum coefficient of a step, given or by the friction."""
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
    r"""The underdamped Langevin diffusion, whose steps go on in the direction of the last.

    With noise "independent" the step of SGHMC in the parametrisation of Saatci and Wilson,

    .. math:: u_{k+1} = c\, u_k - \epsilon\, \lambda_k M \nabla\tilde U(x_k)
              + \sqrt{2 (1 - c) \tau\epsilon M}\, R_{k+1}, \qquad x_{k+1} = x_k + u_{k+1}

    and with "averaged" the splitting BAOAB of the same dynamics with the same displacement by a
    gradient, :math:`h^2 = 2\epsilon / (1 + c)`,

    .. math:: v'_k = v_k - h \lambda_k M^{1/2} \nabla\tilde U(x_k), \qquad
              v_{k+1} = c\, v'_k + \sqrt{(1 - c^2) \tau}\, R_{k+1}, \qquad
              x_{k+1} = x_k + \tfrac h2 M^{1/2} (v'_k + v_{k+1})

    which samples a Gaussian without bias at any stable step. Without momentum, c = 0, the one is
    `langevin("averaged")` after its first step and the other `langevin("independent")`. At
    temperature 0 both are gradient descent with momentum (the heavy ball). A gradient acts for
    about :math:`1 / (1 - c)` steps, so that a step of SGLD of
    :math:`\epsilon / (1 - c)` goes as far in the long run.

    Args:
        momentum: c in [0, 1). None (default) for 0.9, or what `friction` says.
        friction: instead of c, :math:`\gamma > 0` with :math:`c = e^{-\gamma\sqrt\epsilon}`, so
            that the friction per unit of time stays as steps become smaller. None (default) for c
            as `momentum` says.
        noise: "averaged" (default) or "independent".
        preconditioner: the diagonal of M > 0, in the structure of a position. None (default) for 1.
        gradient_noise: V, the variance of the gradient estimate in each coordinate. The injected
            noise is made smaller by what the noise of the gradient adds, of its variance
            :math:`\epsilon M (\lambda^2 V + W g^2) / (2 (1 - c) \tau)` with W the variance of the
            multiplier, up to 95 %. None (default) for no such correction.
        curvature: where M depends on the position, the derivative of each of its diagonal elements
            in its own coordinate. None (default) where M is fixed.
        drift_limit: the most standard deviations of a Langevin step's noise that the drift moves a
            coordinate, > 0. Defaults to 3; `math.inf` for the plain scheme of the papers.

    Returns:
        A `Diffusion`; its memory is the velocity :math:`v = M^{-1/2} u / h`, of variance
        :math:`\tau`. It starts at rest and turns back where a move is refused.

    Raises:
        ValueError: an argument is out of its range, or both momentum and friction are given.

    Source: Chen, Fox and Guestrin (2014), equation (15), in the parametrisation of Saatci and
    Wilson (2017), Algorithm 1, "independent"; Leimkuhler and Matthews (2013), BAOAB, "averaged".

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
        """The momentum coefficient, the time h of a step, and that for which a gradient acts."""
        c = coefficient(momentum, friction, step_size)
        h = jnp.sqrt(2 * step_size / (1 + c))
        return c, h, h if averaged else step_size / h

    def propose(key: jax.Array, position: Any, memory: Any, gradient: Any, step: Step) -> Proposal:
        step_size, temperature, multiplier, multiplier_variance = step
        c, h, factor = times(step_size)
        root = roots(preconditioner, position)
        kick, clipped = kicks(
            gradient, root, factor, multiplier, temperature, curvature, drift_limit
        )
        sd = jnp.sqrt((1 - c**2) * temperature)
        scale = jax.tree.map(lambda x: jnp.asarray(sd, jnp.result_type(x)), position)
        if gradient_noise is not None:
            share = jax.tree.map(
                lambda r, v, g: step_size * r**2 * (multiplier**2 * v + multiplier_variance * g**2),
                *(root, gradient_noise, gradient),
            )
            scale = jax.tree.map(
                lambda s, n: s * remaining(n / (1 - c), temperature), *(scale, share)
            )
        injected = jax.tree.map(lambda s, n: s * n, scale, normal_like(key, position))
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
        factor = times(step.step_size)[2]
        root = roots(preconditioner, position)
        return with_kick_of(memory, before, after, root, factor, step.temperature, drift_limit)

    return Diffusion(init, propose, relocate)
