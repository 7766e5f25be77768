"""The stochastic gradient Nose-Hoover thermostat (SGNHT)."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from numpyro_contour import checks
from numpyro_contour.core.diffusions.diffusion import (
    NOISES,
    Diffusion,
    Proposal,
    Step,
    drawn,
    normal_like,
    preconditioner_sqrt,
    relocate_velocity,
    velocity_kick,
)
from numpyro_contour.core.diffusions.underdamped import check_momentum


class Thermostat(NamedTuple):
    """Memory of `nose_hoover`."""

    #: M^(-1/2) times the velocity of the position; its variance is tau
    velocity: Any
    #: f, about the share of the velocity that is lost in a step
    friction: jax.Array


def nose_hoover(
    momentum: float | None = None,
    noise: str = "averaged",
    preconditioner: Any = None,
    curvature: Any = None,
) -> Diffusion:
    r"""Underdamped Langevin dynamics whose friction adapts to the noise of the gradient.

    With noise "independent", this is Algorithm 2 of Ding et al., written in velocities
    :math:`v = u / \sqrt\epsilon` and with :math:`a = 1 - c`,

    .. math:: v_{k+1} = (1 - f_k) v_k - \sqrt\epsilon\, \lambda_k M^{1/2} \nabla\tilde U(x_k)
              + \sqrt{2 a \tau}\, R_{k+1}, \quad x_{k+1} = x_k + \sqrt\epsilon M^{1/2} v_{k+1},
              \quad f_{k+1} = f_k + \epsilon \Bigl(\frac{|v_{k+1}|^2}{d \tau} - 1\Bigr)

    and with "averaged", it is the splitting BADODAB of the same dynamics, with
    :math:`h^2 = 2\epsilon / (1 + c)` as in `underdamped`. The friction then changes by half of
    :math:`h^2 (|v|^2 / (d \tau) - 1)` before and after
    :math:`v \leftarrow e^{-f} v + \sqrt{\tau \log(1/c)\, (1 - e^{-2f}) / f}\, R`.

    The friction f settles at a value where the mean kinetic energy is that of the temperature,
    whatever the variance of the gradient noise is, provided that it is the same everywhere and in
    all preconditioned coordinates. The variances of positions are then too small by a share of
    f / 2 with "independent", and correct to second order with "averaged".

    Args:
        momentum: c in (0, 1), which sets how much noise is injected. The friction starts at the
            value that balances it. None (default) for 0.9.
        noise: "averaged" (default) or "independent".
        preconditioner: the diagonal of M > 0, in the structure of a position. None (default) for 1.
        curvature: if M depends on the position, the derivative of each of its diagonal elements in
            its own coordinate. None (default) if M is fixed.

    Returns:
        A `Diffusion`; its memory is a `Thermostat`. Its temperature must be above 0.

    Raises:
        ValueError: an argument is out of its range.

    Source: Ding et al. (2014), Algorithm 2; Leimkuhler and Shang (2016), BADODAB.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.core.diffusions import Step, nose_hoover
        >>> diffusion = nose_hoover()
        >>> x = jnp.ones(2)
        >>> memory = diffusion.init(jax.random.key(0), x)
        >>> proposal = diffusion.propose(jax.random.key(1), x, memory, x, Step(0.1, 1.0))
        >>> proposal.position.shape
        (2,)
    """
    averaged = checks.one_of("noise", noise, NOISES) == "averaged"
    c = checks.positive("momentum", check_momentum(momentum, None)[0])
    balance = -jnp.log(c) if averaged else 1 - c

    def init(key: jax.Array, position: Any) -> Thermostat:
        at_rest = jax.tree.map(jnp.zeros_like, position)
        return Thermostat(at_rest, jnp.asarray(balance, jnp.result_type(float)))

    def step_time(step_size: jax.Array) -> jax.Array:
        """The time h of a step."""
        return jnp.sqrt(2 * step_size / (1 + c)) if averaged else jnp.sqrt(step_size)

    def propose(
        key: jax.Array, position: Any, memory: Thermostat, gradient: Any, step: Step
    ) -> Proposal:
        step_size, temperature, multiplier, _ = step
        velocity, friction = memory
        size = sum(jnp.size(x) for x in jax.tree.leaves(position))
        root = preconditioner_sqrt(preconditioner, position)
        h = step_time(step_size)
        kick, clipped = velocity_kick(gradient, root, h, multiplier, temperature, curvature)

        def friction_change(velocity: Any) -> jax.Array:
            squares = jax.tree.map(lambda v: jnp.sum(v**2), velocity)
            return h**2 * (jax.tree.reduce(jnp.add, squares) / (size * temperature) - 1)

        fresh = drawn(normal_like, key, position)
        if averaged:
            kicked = jax.tree.map(lambda v, k: v - k, velocity, kick)
            friction = friction + 0.5 * friction_change(kicked)
            kept = jnp.exp(-friction)
            # (1 - exp(-2 f)) / f, which is 2 at f = 0
            near = jnp.abs(friction) < 1e-4
            safe = jnp.where(near, 1.0, friction)
            rate = jnp.where(near, 2 - 2 * friction, -jnp.expm1(-2 * safe) / safe)
            sd = jnp.sqrt(temperature * balance * rate)
            moving = jax.tree.map(lambda v, n: kept * v + sd * n, kicked, fresh)
            friction = friction + 0.5 * friction_change(moving)
            path = jax.tree.map(lambda a, b: 0.5 * (a + b), kicked, moving)
        else:
            sd = jnp.sqrt(2 * balance * temperature)
            moving = jax.tree.map(
                lambda v, k, n: (1 - friction) * v - k + sd * n, velocity, kick, fresh
            )
            friction = friction + friction_change(moving)
            path = moving
        moved = jax.tree.map(lambda x, r, v: x + h * r * v, position, root, path)
        turned = Thermostat(jax.tree.map(jnp.negative, velocity), memory.friction)
        return Proposal(moved, Thermostat(moving, friction), turned, clipped)

    def relocate(
        memory: Thermostat, position: Any, before: Any, after: Any, step: Step
    ) -> Thermostat:
        root, h = preconditioner_sqrt(preconditioner, position), step_time(step.step_size)
        velocity = relocate_velocity(memory.velocity, before, after, root, h, step.temperature)
        return memory._replace(velocity=velocity)

    return Diffusion(init, propose, relocate, draw=normal_like)
