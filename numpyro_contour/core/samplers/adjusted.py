"""A step that is accepted by Metropolis-Hastings, of a diffusion that has the test."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from numpyro_contour.core.diffusions import Diffusion, Step
from numpyro_contour.core.samplers.chain import Chain, PotentialAndGrad, evaluate
from numpyro_contour.core.samplers.guard import all_finite
from numpyro_contour.schedules import Schedule

#: `(potential energy) -> (log flattening, gradient multiplier)`
FlatteningAt = Callable[[jax.Array], tuple[jax.Array | float, jax.Array | float]]


def advance_adjusted(
    keys: jax.Array,
    chain: Chain,
    potential_and_grad: PotentialAndGrad,
    diffusion: Diffusion,
    step_size: Schedule,
    temperature: Schedule,
    flattening_at: FlatteningAt | None = None,
) -> Chain:
    r"""One move on :math:`e^{-U(x) / \tau} / \Psi(U(x))^\zeta`, accepted by Metropolis-Hastings.

    A move that is refused leaves the chain where it is, and its position stands for the time of the
    attempt as any other. The guard has nothing to do here: a proposal that is not finite is
    refused too.

    Args:
        keys: two random keys, (2,), for the move and for the potential energy.
        chain: the chain.
        potential_and_grad: `(key, position) -> (potential energy, gradient)`, exact.
        diffusion: the diffusion that proposes, with its test `accept`.
        step_size: schedule of :math:`\epsilon > 0`.
        temperature: schedule of :math:`\tau > 0`.
        flattening_at: from a potential energy to :math:`\zeta \log\Psi` and the multiplier of the
            drift there. None (default) for a density that is not flattened.

    Returns:
        The `Chain` after the attempt.

    Source: Roberts and Tweedie (1996), *Exponential convergence of Langevin distributions and their
    discrete approximations*.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.core.diffusions import leapfrog
        >>> from numpyro_contour.core.samplers.adjusted import advance_adjusted
        >>> from numpyro_contour.core.samplers.chain import start
        >>> from numpyro_contour.schedules import Constant
        >>> potential_and_grad = lambda key, x: (0.5 * jnp.sum(x**2), x)
        >>> chain = start(jax.random.key(0), jnp.ones(2), potential_and_grad, leapfrog())
        >>> keys = jax.random.split(jax.random.key(1))
        >>> chain = advance_adjusted(keys, chain, potential_and_grad, leapfrog(), Constant(0.1),
        ...                          Constant(1.0))
        >>> int(chain.steps), bool(chain.accepted)
        (1, True)
    """
    assert diffusion.accept is not None
    tau = temperature(chain.steps)
    if flattening_at is None:
        flattening_at = lambda energy: (0.0, 1.0)
    log_flattening, multiplier = flattening_at(chain.potential_energy)
    step = Step(step_size(chain.steps), tau, multiplier)
    proposal = diffusion.propose(keys[0], chain.position, chain.memory, chain.gradient, step)
    energy, gradient, _ = evaluate(potential_and_grad, keys[1], proposal.position)
    log_flattening_there, multiplier_there = flattening_at(energy)
    log_ratio = (chain.potential_energy - energy) / tau + log_flattening - log_flattening_there
    finite = all_finite(proposal.position, energy, gradient, log_ratio)
    accepted, memory = diffusion.accept(
        proposal.memory,
        gradient,
        step._replace(multiplier=multiplier_there),
        jnp.where(finite, log_ratio, -jnp.inf),
    )

    def choose(new: jax.Array, old: jax.Array) -> jax.Array:
        return jnp.where(accepted, new, old)

    return chain._replace(
        steps=chain.steps + 1,
        position=jax.tree.map(choose, proposal.position, chain.position),
        potential_energy=choose(energy, chain.potential_energy),
        gradient=jax.tree.map(choose, gradient, chain.gradient),
        memory=memory,
    )
