"""What all samplers share: the chain's place, and one guarded step of a diffusion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random

from numpyro_contour.diffusions import Diffusion
from numpyro_contour.guard import (
    SMALL_SCALE,
    GuardState,
    all_finite,
    initial_guard,
    update_guard,
)
from numpyro_contour.schedules import Schedule

#: `(key, position) -> (potential energy, gradient)`, or estimates of them from a fresh minibatch
PotentialAndGrad = Callable[[jax.Array, Any], tuple[jax.Array, Any]]


class Sampler(NamedTuple):
    """A sampler as pure functions.

    `init(key, position, potential_and_grad) -> state`,
    `step(keys, state, potential_and_grad) -> state`, `observe(state) -> draw`, a NamedTuple with at
    least the fields of `Draw`, and `place(state, chain) -> state`, the sampler's state with its
    chain where another algorithm has moved it. A step takes two keys, for the move and for the
    potential energy: many keys split at once cost far less than a split at every step.
    """

    init: Callable[..., Any]
    step: Callable[..., Any]
    observe: Callable[[Any], Any]
    place: Callable[[Any, Any], Any]


class Draw(NamedTuple):
    """What can be said of one position of a chain."""

    position: Any
    #: potential energy as the chain saw it, in nats
    potential_energy: jax.Array
    #: log importance weight of this position alone
    log_weight: jax.Array
    #: step size of the step that leaves the position
    step_size: jax.Array


class Chain(NamedTuple):
    """Where a chain is and what its next step needs."""

    #: steps attempted
    steps: jax.Array
    position: Any
    #: the potential energy (or its estimate) at `position`
    potential_energy: jax.Array
    #: its gradient, from the same evaluation
    gradient: Any
    #: memory of the diffusion
    memory: Any
    guard: GuardState
    #: whether the last attempt moved the chain
    accepted: jax.Array


def start(
    key: jax.Array, position: Any, potential_and_grad: PotentialAndGrad, diffusion: Diffusion
) -> Chain:
    """A chain at its first position."""
    key_energy, key_memory = random.split(key)
    position = jax.tree.map(lambda x: jnp.asarray(x, jnp.result_type(x, float)), position)
    energy, gradient = potential_and_grad(key_energy, position)
    return Chain(
        steps=jnp.zeros((), jnp.int32),
        position=position,
        potential_energy=energy,
        gradient=gradient,
        memory=diffusion.init(key_memory, position),
        guard=initial_guard(),
        accepted=jnp.ones((), bool),
    )


def advance(
    keys: jax.Array,
    chain: Chain,
    potential_and_grad: PotentialAndGrad,
    diffusion: Diffusion,
    step_size: Schedule,
    temperature: Schedule,
    multiplier: jax.Array | float,
    ceiling: jax.Array | None = None,
    multiplier_noise: jax.Array | float = 0.0,
    noisy: bool = False,
) -> Chain:
    """One attempt to move: a proposal and one evaluation of value and gradient at its end.

    It is refused where anything is not finite, and where the energy rises to above `ceiling`. With
    `noisy` energies a chain whose steps have become small for that is let go on: where noise alone
    reaches the ceiling it would never leave.
    """
    proposal = diffusion.propose(
        keys[0],
        chain.position,
        chain.memory,
        chain.gradient,
        step_size(chain.steps) * chain.guard.step_scale,
        temperature(chain.steps),
        multiplier,
        multiplier_noise,
    )
    energy, gradient = potential_and_grad(keys[1], proposal.position)
    accepted = all_finite(proposal.position, energy, gradient)
    if ceiling is not None:
        lower = (energy <= ceiling) | (energy <= chain.potential_energy)
        accepted &= (lower | (chain.guard.step_scale <= SMALL_SCALE)) if noisy else lower

    def choose(new: Any, old: Any) -> Any:
        return jax.tree.map(lambda a, b: jnp.where(accepted, a, b), new, old)

    return Chain(
        steps=chain.steps + 1,
        position=choose(proposal.position, chain.position),
        potential_energy=choose(energy, chain.potential_energy),
        gradient=choose(gradient, chain.gradient),
        memory=choose(proposal.memory, proposal.memory_if_refused),
        guard=update_guard(chain.guard, accepted, proposal.clipped),
        accepted=accepted,
    )


def time_weight(chain: Chain) -> jax.Array:
    """Log of the share of a full step that the position stands for; -inf after a refusal."""
    return jnp.where(chain.accepted, jnp.log(chain.guard.step_scale), -jnp.inf)


def next_step_size(chain: Chain, step_size: Schedule) -> jax.Array:
    """The step size of the next attempt."""
    return step_size(chain.steps) * chain.guard.step_scale


def unweighted_draw(chain: Chain, step_size: Schedule) -> Draw:
    """The draw of a sampler whose positions weigh the same, but for the guard's time weight."""
    return Draw(
        chain.position,
        chain.potential_energy,
        time_weight(chain),
        next_step_size(chain, step_size),
    )
