"""What all samplers share: the state of a chain, and one guarded step of a diffusion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random

from numpyro_contour.core.arrays.entries import tree_where
from numpyro_contour.core.diffusions import Diffusion, Step
from numpyro_contour.core.samplers.guard import (
    SMALL_SCALE,
    GuardState,
    all_finite,
    initial_guard,
    update_guard,
)
from numpyro_contour.schedules import Schedule

#: `(key, position) -> (potential energy, gradient)`, or estimates of them from a fresh minibatch,
#: and then perhaps as a third the variance of the energy's noise. Instead of the key it may be
#: given what was drawn by it before: see `Ahead`
PotentialAndGrad = Callable[[jax.Array, Any], tuple[Any, ...]]


class Passed(NamedTuple):
    """What is kept of a step until its stretch ends."""

    #: the position, any pytree
    position: Any
    #: potential energy as the chain saw it, in nats
    potential_energy: jax.Array
    #: ratio of the size of the step that leaves the position to the scheduled one
    step_scale: jax.Array
    #: whether the position counts, as in a `Chain`
    accepted: jax.Array
    #: variance of the noise of the energy, 0 where it is exact or not known
    energy_noise: jax.Array

    @property
    def log_time_weight(self) -> jax.Array:
        """As of a `Chain`."""
        return jnp.where(self.accepted, jnp.log(self.step_scale), -jnp.inf)


class Stretch(NamedTuple):
    """How a sampler makes a stretch of steps in which it learns nothing."""

    #: the state before the first step
    state: Any
    #: `(keys, state, potential_and_grad) -> state`, one step with one evaluation
    step: Callable[..., Any]
    #: `(state, what was passed) -> (state, draws)`: the state with what it learns from all steps,
    #: and their positions as `observe` describes them, along a leading axis
    end: Callable[[Any, Passed], tuple[Any, Any]]


class Sampler(NamedTuple):
    """A sampler as pure functions.

    A step takes two keys, (2,), one for the move and one for the potential energy. To split many
    keys at once costs far less than a split at every step.
    """

    #: `(key, position, potential_and_grad) -> state`
    init: Callable[..., Any]
    #: `(keys, state, potential_and_grad) -> state`, one step with one evaluation
    step: Callable[..., Any]
    #: `(state) -> draw`, the current position as a NamedTuple with at least the fields of `Draw`
    observe: Callable[[Any], Any]
    #: `(state, chain) -> state`, the state after another algorithm has moved the chain
    relocate: Callable[[Any, Any], Any]
    #: `(state, energy) -> (log flattening, gradient multiplier)` by the theta of the state; None
    #: where the density is not flattened
    flattening_at: Callable[[Any, jax.Array], tuple[jax.Array, jax.Array]] | None = None
    #: `(state, chain) -> state`, the state after a jump of the chain between its own steps; None
    #: where that is `relocate`
    jump_to: Callable[[Any, Any], Any] | None = None
    #: `(key) -> keys` of the evaluations of a step, along a leading axis; None where there is one
    energy_keys: Callable[[jax.Array], jax.Array] | None = None
    #: `(key, state) -> noise`, what a move draws, which a step takes in the place of its first key;
    #: None where it takes keys alone
    draw: Callable[[jax.Array, Any], Any] | None = None
    #: `(state) -> Stretch`, how several steps are made for less; None where each is made alone
    stretch: Callable[[Any], Stretch] | None = None


class Draw(NamedTuple):
    """One position of a chain."""

    #: the position, any pytree
    position: Any
    #: potential energy as the chain saw it, in nats
    potential_energy: jax.Array
    #: log importance weight of this position alone
    log_weight: jax.Array
    #: step size of the step that leaves the position
    step_size: jax.Array


class Chain(NamedTuple):
    """The state of a chain: where it is, and what its next step needs."""

    #: steps attempted
    steps: jax.Array
    #: the position, any pytree
    position: Any
    #: the potential energy (or its estimate) at `position`, in nats
    potential_energy: jax.Array
    #: its gradient, from the same evaluation
    gradient: Any
    #: memory of the diffusion
    memory: Any
    #: the step scale and the counts of the guard
    guard: GuardState
    #: whether the position stands for time, as the last attempt moved the chain or a
    #: Metropolis-Hastings test kept it where it is
    accepted: jax.Array
    #: variance of the noise of `potential_energy`, 0 where it is exact or not known
    energy_noise: jax.Array


class Evaluation(NamedTuple):
    """What one evaluation of the potential energy tells."""

    #: the potential energy or its estimate, in nats
    energy: jax.Array
    #: its gradient
    gradient: Any
    #: the variance of its noise, 0 where it is exact or not known
    noise: jax.Array


def evaluate(potential_and_grad: PotentialAndGrad, key: jax.Array, position: Any) -> Evaluation:
    """One evaluation, with a noise of 0 where none is told.

    Args:
        potential_and_grad: `(key, position) -> (potential energy, gradient)`, or these and the
            variance of the energy's noise.
        key: random key.
        position: the position.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.core.samplers.chain import evaluate
        >>> found = evaluate(lambda key, x: (0.5 * x**2, x), jax.random.key(0), jnp.array(2.0))
        >>> float(found.energy), float(found.noise)
        (2.0, 0.0)
    """
    energy, gradient, *noise = potential_and_grad(key, position)
    return Evaluation(energy, gradient, noise[0] if noise else jnp.zeros_like(energy))


def noise_of(diffusion: Diffusion) -> Callable[[jax.Array, Any], Any] | None:
    """What the `draw` of a sampler is whose steps each make one move of a diffusion."""
    draw = diffusion.draw
    return None if draw is None else lambda key, state: draw(key, state.chain.position)


def start(
    key: jax.Array, position: Any, potential_and_grad: PotentialAndGrad, diffusion: Diffusion
) -> Chain:
    """A chain at its first position.

    Args:
        key: random key.
        position: the position, any pytree; integers become floats.
        potential_and_grad: `(key, position) -> (potential energy, gradient)`.
        diffusion: the diffusion that will move it.

    Returns:
        A `Chain` without any steps.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.core.diffusions import langevin
        >>> from numpyro_contour.core.samplers.chain import start
        >>> potential_and_grad = lambda key, x: (0.5 * jnp.sum(x**2), x)
        >>> chain = start(jax.random.key(0), jnp.ones(2), potential_and_grad, langevin())
        >>> float(chain.potential_energy)
        1.0
    """
    key_energy, key_memory = random.split(key)
    position = jax.tree.map(lambda x: jnp.asarray(x, jnp.result_type(x, float)), position)
    found = evaluate(potential_and_grad, key_energy, position)
    return Chain(
        steps=jnp.zeros((), jnp.int32),
        position=position,
        potential_energy=found.energy,
        gradient=found.gradient,
        memory=diffusion.init(key_memory, position),
        guard=initial_guard(),
        accepted=jnp.ones((), bool),
        energy_noise=found.noise,
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
    multiplier_variance: jax.Array | float = 0.0,
    noise_limit: float | None = None,
) -> Chain:
    r"""One attempt to move: a proposal y, and one evaluation of the potential energy and gradient.

    .. math:: x_{k+1} = \begin{cases} y & U(y) \le \max\{c, U(x_k)\} \\ x_k & \text{else}
              \end{cases}

    The move is refused if anything is not finite, or if the energy rises to above the ceiling c.

    Args:
        keys: two random keys, (2,), for the move and for the potential energy.
        chain: the chain.
        potential_and_grad: `(key, position) -> (potential energy, gradient)`.
        diffusion: the diffusion that proposes.
        step_size: schedule of :math:`\epsilon > 0`.
        temperature: schedule of :math:`\tau \ge 0`.
        multiplier: the gradient multiplier :math:`\lambda`, (); 1 for a density that is not
            flattened.
        ceiling: c, a potential energy in nats. None (default) for none.
        multiplier_variance: the variance of the multiplier. Defaults to 0.
        noise_limit: the variance of an energy's noise up to which it is trusted. The ceiling is
            lifted for energies with more, and for a chain whose steps have become small: where
            noise alone reaches the ceiling, the chain would never get away. None (default) where
            energies are exact.

    Returns:
        The `Chain` after the attempt.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.core.diffusions import langevin
        >>> from numpyro_contour.core.samplers.chain import advance, start
        >>> from numpyro_contour.schedules import Constant
        >>> potential_and_grad = lambda key, x: (0.5 * jnp.sum(x**2), x)
        >>> chain = start(jax.random.key(0), jnp.ones(2), potential_and_grad, langevin())
        >>> keys = jax.random.split(jax.random.key(1))
        >>> chain = advance(keys, chain, potential_and_grad, langevin(), Constant(0.1),
        ...                 Constant(1.0), multiplier=1.0)
        >>> int(chain.steps), bool(chain.accepted)
        (1, True)
    """
    proposal = diffusion.propose(
        keys[0],
        chain.position,
        chain.memory,
        chain.gradient,
        Step(
            next_step_size(chain, step_size),
            temperature(chain.steps),
            multiplier,
            multiplier_variance,
        ),
    )
    energy, gradient, noise = evaluate(potential_and_grad, keys[1], proposal.position)
    accepted = all_finite(proposal.position, energy, gradient)
    if ceiling is not None:
        lower = (energy <= ceiling) | (energy <= chain.potential_energy)
        if noise_limit is not None:
            untold = (noise > noise_limit) | (chain.energy_noise > noise_limit)
            lower |= untold | (chain.guard.step_scale <= SMALL_SCALE)
        accepted &= lower

    def choose(new: Any, old: Any) -> Any:
        return tree_where(accepted, new, old)

    return Chain(
        steps=chain.steps + 1,
        position=choose(proposal.position, chain.position),
        potential_energy=choose(energy, chain.potential_energy),
        gradient=choose(gradient, chain.gradient),
        memory=choose(proposal.memory, proposal.memory_if_refused),
        guard=update_guard(chain.guard, accepted, proposal.clipped),
        accepted=accepted,
        energy_noise=choose(noise, chain.energy_noise),
    )


def log_time_weight(chain: Chain) -> jax.Array:
    r"""The logarithm of the time that the position stands for, in full steps.

    .. math:: \log s \text{ after a move}, \qquad -\infty \text{ after a refusal}

    with s the ratio of the step size in use to the scheduled one.

    Args:
        chain: the chain.

    Returns:
        The log weight, ().

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.core.diffusions import langevin
        >>> from numpyro_contour.core.samplers.chain import start, log_time_weight
        >>> potential_and_grad = lambda key, x: (0.5 * jnp.sum(x**2), x)
        >>> chain = start(jax.random.key(0), jnp.ones(2), potential_and_grad, langevin())
        >>> float(log_time_weight(chain)), float(log_time_weight(chain._replace(accepted=False)))
        (0.0, -inf)
    """
    return passed(chain).log_time_weight


def passed(chain: Chain) -> Passed:
    """What is kept of a step.

    Args:
        chain: the chain after the step.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.core.diffusions import langevin
        >>> from numpyro_contour.core.samplers.chain import passed, start
        >>> potential_and_grad = lambda key, x: (0.5 * jnp.sum(x**2), x)
        >>> chain = start(jax.random.key(0), jnp.ones(2), potential_and_grad, langevin())
        >>> float(passed(chain).step_scale), bool(passed(chain).accepted)
        (1.0, True)
    """
    moved = chain.guard.step_scale, chain.accepted
    return Passed(chain.position, chain.potential_energy, *moved, chain.energy_noise)


def next_step_size(chain: Chain, step_size: Schedule) -> jax.Array:
    r"""The step size of the next attempt.

    .. math:: s\, \epsilon(k)

    after k attempts, with s the ratio of the step size in use to the scheduled one.

    Args:
        chain: the chain.
        step_size: schedule of :math:`\epsilon > 0`.

    Returns:
        The step size, ().

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.core.diffusions import langevin
        >>> from numpyro_contour.core.samplers.chain import next_step_size, start
        >>> potential_and_grad = lambda key, x: (0.5 * jnp.sum(x**2), x)
        >>> chain = start(jax.random.key(0), jnp.ones(2), potential_and_grad, langevin())
        >>> float(next_step_size(chain, lambda count: 0.5))
        0.5
    """
    return step_size(chain.steps) * chain.guard.step_scale


def unweighted_draw(chain: Chain, step_size: Schedule) -> Draw:
    r"""The draw of a sampler whose positions have equal weights, apart from their time weights.

    Args:
        chain: the chain.
        step_size: schedule of :math:`\epsilon > 0`.

    Returns:
        A `Draw` whose log weight is `log_time_weight`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.core.diffusions import langevin
        >>> from numpyro_contour.core.samplers.chain import start, unweighted_draw
        >>> potential_and_grad = lambda key, x: (0.5 * jnp.sum(x**2), x)
        >>> chain = start(jax.random.key(0), jnp.ones(2), potential_and_grad, langevin())
        >>> float(unweighted_draw(chain, lambda count: 0.5).log_weight)
        0.0
    """
    return Draw(
        chain.position,
        chain.potential_energy,
        log_time_weight(chain),
        next_step_size(chain, step_size),
    )
