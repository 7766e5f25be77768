r"""The guard: refuses moves to where the potential is not finite, and backs off.

A refused move halves the chain's step size; each move made brings it back by a factor
:math:`2^{0.1}`, up to the scheduled one. A draw whose next attempt is made at a reduced step
stands for less time, so :math:`\log(\epsilon / \epsilon_0)` is added to its log weight (the time
weight); a refused attempt leaves the chain where it was and adds no weight at all.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

_RECOVERY = 2.0**0.1
#: Steps reduced so far hardly change the energy.
SMALL_SCALE = 2.0**-5
# Far below any step that moves; it keeps the time weight finite for a chain that never moves.
_SMALLEST_SCALE = 2.0**-60


class GuardState(NamedTuple):
    """Back-off of one chain and counts of when it acted."""

    #: the step size in use over the scheduled one, in (0, 1]
    step_scale: jax.Array
    #: moves refused
    refused: jax.Array
    #: steps whose drift was clipped
    clipped: jax.Array


def initial_guard() -> GuardState:
    """A guard that has not acted.

    Returns:
        A `GuardState` of a whole step size and counts of 0.

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
        guard: the guard before it; s is its `step_scale`.
        accepted: whether the attempt moved the chain, ().
        clipped: whether its drift was clipped, ().

    Returns:
        The guard after it.

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
    """Whether every number of the trees is finite."""
    finite = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(trees)]
    return jnp.stack(finite).all() if len(finite) > 1 else finite[0]
