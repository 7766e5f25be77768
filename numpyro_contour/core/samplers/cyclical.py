"""Cyclical step sizes: each cycle first explores by gradient descent and then samples."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from numpyro_contour import checks
from numpyro_contour.core.diffusions import Diffusion
from numpyro_contour.core.samplers.chain import Draw, Passed, Sampler, Stretch
from numpyro_contour.core.samplers.plain import PlainSamplerState, plain
from numpyro_contour.schedules import Schedule


def check_exploration(exploration: float) -> float:
    """The argument `exploration`."""
    exploration = checks.non_negative("exploration", exploration)
    if exploration >= 1:
        raise checks.fail("exploration", exploration, "a number in [0, 1)")
    return exploration


def cyclical(
    diffusion: Diffusion,
    step_size: Schedule,
    temperature: Schedule,
    cycle_length: int,
    exploration: float = 0.5,
    origin: jax.Array | int = 0,
) -> Sampler:
    r"""A diffusion whose step size falls from its peak to 0 in each cycle.

    .. math:: \epsilon_k = \frac{\epsilon_0}{2} \Bigl[\cos\frac{\pi\,
              \mathrm{mod}(k, L)}{L} + 1\Bigr]

    The first steps of a cycle explore, at temperature 0. The others sample.

    Args:
        diffusion: for instance `diffusions.langevin()`.
        step_size: schedule of the peak :math:`\epsilon_0 > 0`.
        temperature: schedule of :math:`\tau \ge 0` in the sampling stage.
        cycle_length: L, the number of steps in a cycle, at least 1.
        exploration: the share of a cycle that explores, in [0, 1). Defaults to 0.5.
        origin: the number of steps before the first cycle. Defaults to 0.

    Returns:
        A `Sampler`. Draws of the sampling stage have equal weights, draws of the exploring stage
        have weight 0.

    Raises:
        ValueError: an argument is out of its range.

    Source: Zhang, Li, Zhang, Chen and Wilson (2020), equation (1) and Algorithm 1.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.core.diffusions import langevin
        >>> from numpyro_contour.core.samplers.cyclical import cyclical
        >>> from numpyro_contour.schedules import Constant
        >>> sampler = cyclical(langevin(), Constant(0.1), Constant(1.0), cycle_length=100)
        >>> potential_and_grad = lambda key, x: (0.5 * jnp.sum(x**2), x)
        >>> state = sampler.init(jax.random.key(0), jnp.ones(2), potential_and_grad)
        >>> state = sampler.step(jax.random.split(jax.random.key(1)), state, potential_and_grad)
        >>> float(sampler.observe(state).log_weight)
        -inf
    """
    length = checks.integer("cycle_length", cycle_length, at_least=1)
    # In whole steps: comparing shares of a cycle would suffer from rounding.
    exploring = round(check_exploration(exploration) * length)

    def step_of_cycle(count: jax.Array) -> jax.Array:
        return jnp.mod(count - origin, length)

    def cosine_step_size(count: jax.Array) -> jax.Array:
        progress = step_of_cycle(count) / length
        return step_size(count) * 0.5 * (jnp.cos(jnp.pi * progress) + 1)

    def stage_temperature(count: jax.Array) -> jax.Array:
        return jnp.where(step_of_cycle(count) < exploring, 0.0, temperature(count))

    sampler = plain(diffusion, cosine_step_size, stage_temperature)

    def weighted(draw: Draw, count: jax.Array) -> Draw:
        """A draw, without weight if the step that led there, with this count, explores."""
        explores = step_of_cycle(count) < exploring
        return draw._replace(log_weight=jnp.where(explores, -jnp.inf, draw.log_weight))

    def observe(state: PlainSamplerState) -> Draw:
        return weighted(sampler.observe(state), state.chain.steps - 1)

    def stretch(begun: PlainSamplerState) -> Stretch:
        assert sampler.stretch is not None
        made = sampler.stretch(begun)

        def end(state: PlainSamplerState, seen: Passed) -> tuple[PlainSamplerState, Draw]:
            state, draws = made.end(state, seen)
            counts = begun.chain.steps + jnp.arange(seen.accepted.shape[0])
            return state, weighted(draws, counts)

        return made._replace(end=end)

    return sampler._replace(observe=observe, stretch=stretch)
