r"""The guard: it refuses moves to where the potential energy is not finite, and reduces the step.

A refused move halves the step size of the chain. Each move that is made multiplies it by
:math:`2^{0.1}`, up to the scheduled one. A draw whose next attempt has a reduced step size stands
for less time. Its log weight therefore gets the term :math:`\log(\epsilon / \epsilon_0)`, the time
weight. A refused attempt leaves the chain where it was, and its draw has no weight.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

_RECOVERY = 2.0**0.1
#: Steps that are reduced to this scale hardly change the energy.
SMALL_SCALE = 2.0**-5
# Far below any scale at which a chain moves; it keeps the time weight of a stuck chain finite.
_SMALLEST_SCALE = 2.0**-60


class GuardState(NamedTuple):
    """The step scale of one chain, and how often the guard has acted."""

    #: ratio of the step size in use to the scheduled one, in (0, 1]
    step_scale: jax.Array
    #: moves refused
    refused: jax.Array
    #: steps whose drift was clipped
    clipped: jax.Array


def initial_guard() -> GuardState:
    """A guard that has not acted yet.

    Returns:
        A `GuardState` with the full step size and counts of 0.

    Example:
        >>> from numpyro_contour.core.samplers.guard import initial_guard
        >>> float(initial_guard().step_scale)
        1.0
    """
    count = jnp.zeros((), jnp.int32)
    return GuardState(jnp.ones((), jnp.result_type(float)), count, count)


def update_guard(guard: GuardState, accepted: jax.Array, clipped: jax.Array) -> GuardState:
    r"""The guard after one attempt.

    .. math:: s \leftarrow \begin{cases} \min(2^{0.1} s, 1) & \text{accepted} \\
              \max(s / 2, 2^{-60}) & \text{refused} \end{cases}

    Args:
        guard: the guard before the attempt; s is its `step_scale`.
        accepted: whether the attempt moved the chain, ().
        clipped: whether its drift was clipped, ().

    Returns:
        The guard after the attempt.

    Example:
        >>> from numpyro_contour.core.samplers.guard import initial_guard, update_guard
        >>> guard = update_guard(initial_guard(), accepted=False, clipped=False)
        >>> float(guard.step_scale), int(guard.refused)
        (0.5, 1)
    """
    scale = jnp.where(
        accepted,
        jnp.minimum(guard.step_scale * _RECOVERY, 1.0),
        jnp.maximum(guard.step_scale * 0.5, _SMALLEST_SCALE),
    )
    return GuardState(
        scale,
        guard.refused + jnp.where(accepted, 0, 1),
        guard.clipped + jnp.where(clipped, 1, 0),
    )


def all_finite(*trees: object) -> jax.Array:
    """Whether every number in the trees is finite."""
    finite = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(trees)]
    return jnp.stack(finite).all() if len(finite) > 1 else finite[0]
