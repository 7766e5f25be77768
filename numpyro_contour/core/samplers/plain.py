"""A diffusion on the target density itself, for instance stochastic gradient Langevin dynamics."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from numpyro_contour.core.diffusions import Diffusion
from numpyro_contour.core.samplers.adjusted import advance_adjusted
from numpyro_contour.core.samplers.chain import (
    Chain,
    Draw,
    Passed,
    PotentialAndGrad,
    Sampler,
    Stretch,
    advance,
    noise_of,
    start,
    unweighted_draw,
)
from numpyro_contour.schedules import Schedule


class PlainSamplerState(NamedTuple):
    """State of `plain`."""

    #: where the chain is
    chain: Chain


def plain(diffusion: Diffusion, step_size: Schedule, temperature: Schedule) -> Sampler:
    r"""A diffusion on :math:`\pi(x) \propto e^{-U(x) / \tau}`.

    Args:
        diffusion: for instance `diffusions.langevin()`. The moves of one with a test, such as
            `diffusions.leapfrog()`, are accepted by Metropolis-Hastings.
        step_size: schedule of :math:`\epsilon > 0`.
        temperature: schedule of :math:`\tau \ge 0`.

    Returns:
        A `Sampler`; its draws have equal weights, except where the guard has reduced the step.

    Source: Welling and Teh (2011), equation (4), for the Langevin diffusion.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.core.diffusions import langevin
        >>> from numpyro_contour.core.samplers.plain import plain
        >>> from numpyro_contour.schedules import Constant
        >>> sampler = plain(langevin(), Constant(0.1), Constant(1.0))
        >>> potential_and_grad = lambda key, x: (0.5 * jnp.sum(x**2), x)
        >>> state = sampler.init(jax.random.key(0), jnp.ones(2), potential_and_grad)
        >>> state = sampler.step(jax.random.split(jax.random.key(1)), state, potential_and_grad)
        >>> int(state.chain.steps)
        1
    """

    def init(
        key: jax.Array, position: Any, potential_and_grad: PotentialAndGrad
    ) -> PlainSamplerState:
        return PlainSamplerState(start(key, position, potential_and_grad, diffusion))

    def step(
        keys: jax.Array, state: PlainSamplerState, potential_and_grad: PotentialAndGrad
    ) -> PlainSamplerState:
        moved = keys, state.chain, potential_and_grad, diffusion, step_size, temperature
        if diffusion.accept is not None:
            return PlainSamplerState(advance_adjusted(*moved))
        return PlainSamplerState(advance(*moved, 1.0))

    def observe(state: PlainSamplerState) -> Draw:
        return unweighted_draw(state.chain, step_size)

    def relocate(state: PlainSamplerState, chain: Chain) -> PlainSamplerState:
        return state._replace(chain=chain)

    def stretch(state: PlainSamplerState) -> Stretch:
        first = state.chain.steps + 1

        def end(state: PlainSamplerState, seen: Passed) -> tuple[PlainSamplerState, Draw]:
            counts = first + jnp.arange(seen.accepted.shape[0])
            sizes = jax.vmap(step_size)(counts) * seen.step_scale
            weights = seen.log_time_weight
            return state, Draw(seen.position, seen.potential_energy, weights, sizes)

        return Stretch(state, step, end)

    draw = noise_of(diffusion)
    return Sampler(init, step, observe, relocate, draw=draw, stretch=stretch)
