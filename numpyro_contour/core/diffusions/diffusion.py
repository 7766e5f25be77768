"""What all diffusions share: their form, their noise and the clipping of their drift."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random

from numpyro_contour.core.arrays.random_bits import normal

#: The largest drift of a coordinate, in standard deviations of the injected noise.
DRIFT_LIMIT = 3.0

#: The ways of injecting noise; see `langevin`.
NOISES = ("averaged", "independent")


class Proposal(NamedTuple):
    """A proposed move of a diffusion."""

    #: the new position, in the structure of the old one
    position: Any
    #: what the diffusion remembers for its next step, such as the last normals or a velocity
    memory: Any
    #: what it remembers if the sampler refuses the move
    memory_if_refused: Any
    #: whether the drift was clipped in any coordinate
    clipped: jax.Array


class Step(NamedTuple):
    """The numbers that a sampler chooses for one step."""

    #: epsilon > 0
    step_size: jax.Array
    #: tau, at least 0
    temperature: jax.Array
    #: the gradient multiplier lambda, 1 for a density that is not flattened
    multiplier: jax.Array | float = 1.0
    #: the variance of the multiplier, which noise of the energies gives it
    multiplier_variance: jax.Array | float = 0.0


def memory_unchanged(memory: Any, position: Any, before: Any, after: Any, step: Step) -> Any:
    """`relocate` for a memory that does not depend on the position."""
    return memory


class Diffusion(NamedTuple):
    """A diffusion as pure functions over positions of any pytree.

    It only proposes moves: a sampler decides whether they are made.
    """

    #: `(key, position) -> memory`
    init: Callable[..., Any]
    #: `(key, position, memory, gradient, step) -> Proposal`, with a `Step`
    propose: Callable[[jax.Array, Any, Any, Any, Step], Proposal]
    #: `(memory, position, before, after, step) -> memory`, the memory of a chain that another
    #: algorithm has put at `position`, from the gradients before and after that
    relocate: Callable[[Any, Any, Any, Any, Step], Any] = memory_unchanged
    #: `(memory of the proposal, gradient there, step there, log ratio of the densities) ->
    #: (whether the move is accepted, memory)`; None for moves that are made without a test
    accept: Callable[[Any, Any, Step, jax.Array], tuple[jax.Array, Any]] | None = None
    #: `(key, position) -> noise`, all that `propose` draws, which takes it in the place of its key;
    #: None where it takes keys alone. To draw for several moves at once costs far less
    draw: Callable[[jax.Array, Any], Any] | None = None


def drawn(draw: Callable[[jax.Array, Any], Any], given: Any, position: Any) -> Any:
    """What a move draws, from its key; or what was drawn by it before, as it is.

    Args:
        draw: as of a `Diffusion`.
        given: a random key, or what was drawn by it.
        position: the position.
    """
    return draw(given, position) if _is_key(given) else given


def _is_key(given: Any) -> bool:
    dtype = getattr(given, "dtype", None)
    if dtype is None:
        return False
    return jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key) or dtype == jnp.uint32


def normal_like(key: jax.Array, tree: Any) -> Any:
    r"""Standard normals in the structure of a position.

    .. math:: R_i \sim N(0, 1)

    Args:
        key: random key.
        tree: a position, any pytree of floats.

    Returns:
        Independent standard normals in the structure, shapes and types of `tree`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.core.diffusions.diffusion import normal_like
        >>> normal_like(jax.random.key(0), {"x": jnp.zeros(3)})["x"].shape
        (3,)
    """
    leaves, structure = jax.tree.flatten(tree)
    keys = [key] if len(leaves) == 1 else random.split(key, len(leaves))
    return jax.tree.unflatten(
        structure,
        [normal(k, jnp.shape(x), jnp.result_type(x)) for k, x in zip(keys, leaves)],
    )


def clip_drift(drift: Any, scale: Any, drift_limit: float = DRIFT_LIMIT) -> tuple[Any, jax.Array]:
    r"""A drift clipped to some standard deviations of the injected noise in each coordinate.

    .. math:: \min\{\max\{d_i, -L s_i\}, L s_i\}

    Args:
        drift: d, any pytree.
        scale: s, the standard deviation of the injected noise, in the structure of `drift`. Where
            it is 0, nothing is clipped.
        drift_limit: L > 0. Defaults to 3.

    Returns:
        `(drift, clipped)`: the drift, and whether any coordinate was clipped, ().

    Example:
        >>> import jax.numpy as jnp
        >>> from numpyro_contour.core.diffusions import clip_drift
        >>> drift, clipped = clip_drift(jnp.array([1.0, -9.0]), jnp.array([1.0, 1.0]))
        >>> drift.tolist(), bool(clipped)
        ([1.0, -3.0], True)
    """
    limit = jax.tree.map(lambda s: jnp.where(s > 0, drift_limit * s, jnp.inf), scale)
    clipped = jax.tree.reduce(
        jnp.logical_or, jax.tree.map(lambda d, b: jnp.any(jnp.abs(d) > b), drift, limit)
    )
    return jax.tree.map(lambda d, b: jnp.clip(d, -b, b), drift, limit), clipped


def injected_noise_scale(noise: jax.Array, temperature: jax.Array) -> jax.Array:
    r"""The factor of the injected noise's standard deviation that makes room for gradient noise.

    .. math:: \sqrt{\max\{1 - n / (2 \tau), 0.05\}}

    Args:
        noise: n, what the noise of the gradient adds to the variance of a step, in units in which
            the injected noise adds :math:`2 \tau`.
        temperature: :math:`\tau`; at 0 no noise is injected.
    """
    share = jnp.where(temperature > 0, noise / jnp.maximum(2 * temperature, 1e-30), 0.0)
    return jnp.sqrt(jnp.maximum(1 - share, 0.05))


def preconditioner_sqrt(preconditioner: Any, like: Any) -> Any:
    """The diagonal of the square root of M; ones if `preconditioner` is None."""
    if preconditioner is None:
        return jax.tree.map(lambda x: jnp.ones((), jnp.result_type(x)), like)
    return jax.tree.map(jnp.sqrt, preconditioner)


def velocity_kick(
    gradient: Any,
    root: Any,
    time: jax.Array,
    multiplier: jax.Array | float,
    temperature: jax.Array,
    curvature: Any,
    drift_limit: float = DRIFT_LIMIT,
) -> tuple[Any, jax.Array]:
    r"""What a gradient subtracts from the velocity :math:`v = M^{-1/2} \dot x`.

    .. math:: f \bigl(\lambda M^{1/2} \nabla U - \tau \nabla \cdot M^{1/2}\bigr)

    It is clipped where a Langevin step of the same displacement would be.

    Args:
        gradient: :math:`\nabla U`.
        root: the diagonal of :math:`M^{1/2}`.
        time: f, the time for which the gradient acts.
        multiplier: :math:`\lambda`, the gradient multiplier.
        temperature: :math:`\tau`.
        curvature: the derivative of each diagonal element of M in its own coordinate, or None.
        drift_limit: the largest drift, in standard deviations of the noise of that step.

    Returns:
        `(kick, clipped)`: the change, and whether it was clipped in any coordinate, ().
    """
    kick = jax.tree.map(lambda g, r: time * multiplier * r * g, gradient, root)
    scale = jax.tree.map(lambda k: 2 * jnp.sqrt(temperature), kick)
    kick, clipped = clip_drift(kick, scale, drift_limit)
    if curvature is not None:
        kick = jax.tree.map(
            lambda k, c, r: k - time * temperature * c / (2 * r), *(kick, curvature, root)
        )
    return kick, clipped


def relocate_velocity(
    velocity: Any,
    before: Any,
    after: Any,
    root: Any,
    time: jax.Array,
    temperature: jax.Array,
    drift_limit: float = DRIFT_LIMIT,
) -> Any:
    r"""The velocity of a chain that was put elsewhere, where its next kick is another one.

    .. math:: v - \tfrac f2 M^{1/2} (\nabla U(x) - \nabla U(y))

    The memory holds the velocity half a kick before the time of the position. Only the velocity at
    that time itself is independent of the position, and this one stays the same.

    Args:
        velocity: v.
        before: the gradient at the old position x.
        after: the gradient at the new position y.
        root: the diagonal of :math:`M^{1/2}`.
        time: f, the time for which a gradient acts.
        temperature: :math:`\tau`.
        drift_limit: as for `velocity_kick`.
    """
    old, _ = velocity_kick(before, root, time, 1.0, temperature, None, drift_limit)
    new, _ = velocity_kick(after, root, time, 1.0, temperature, None, drift_limit)
    return jax.tree.map(lambda v, a, b: v - 0.5 * (a - b), velocity, old, new)
