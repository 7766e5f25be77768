"""Energies of a window of steps, their spread, and the energy partition that fits them."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

#: Energies that are remembered of a window, evenly spaced in it.
SIZE = 1024


class Energies(NamedTuple):
    """Evenly spaced energies of a window."""

    #: potential energies in nats, (SIZE,)
    values: jax.Array
    #: their log importance weights, -inf where a place is empty, (SIZE,)
    log_weights: jax.Array
    #: by how much the energy of the step before was another, squared; not a number if not known
    changes: jax.Array
    #: the energy of the last step
    last: jax.Array


class Spread(NamedTuple):
    """Where the energies of the target lie."""

    #: weighted 1 % quantile, in nats
    low: jax.Array
    #: weighted mean, in nats
    mean: jax.Array
    #: weighted standard deviation, in nats
    sd: jax.Array


def no_spread() -> Spread:
    """In place of what has not been looked at."""
    return Spread(*[jnp.zeros((), jnp.result_type(float))] * 3)


def no_energies() -> Energies:
    """An empty window."""
    dtype = jnp.result_type(float)
    blank = jnp.zeros((SIZE,), dtype)
    unknown = jnp.asarray(jnp.nan, dtype)
    return Energies(blank, blank - jnp.inf, blank + unknown, unknown)


def record_energies(
    energies: Energies,
    values: jax.Array,
    log_weights: jax.Array,
    first: jax.Array,
    total: jax.Array,
) -> Energies:
    """Put steps `first`, `first + 1`, ... of a window of `total` steps into their places."""
    steps = first + jnp.arange(values.shape[0])
    dtype = energies.values.dtype
    places = jnp.floor(steps.astype(dtype) / total.astype(dtype) * SIZE).astype(jnp.int32)
    values = values.astype(dtype)
    changes = (values - jnp.concatenate([energies.last[None], values[:-1]])) ** 2
    put = lambda kept, new: kept.at[places].set(new.astype(dtype), mode="drop")
    return Energies(
        put(energies.values, values),
        put(energies.log_weights, log_weights),
        put(energies.changes, changes),
        values[-1],
    )


def spread(energies: Energies) -> Spread:
    """Weighted 1 % quantile, mean and standard deviation."""
    usable = jnp.isfinite(energies.values) & jnp.isfinite(energies.log_weights)
    log_weights = jnp.where(usable, energies.log_weights, -jnp.inf)
    weights = jax.nn.softmax(log_weights)
    low = _quantile(jnp.where(usable, energies.values, jnp.inf), weights, 0.01)
    # Relative to `low`: energies may have a large offset.
    values = jnp.where(usable, energies.values, low)
    mean = jnp.sum(weights * (values - low))
    sd = jnp.sqrt(jnp.sum(weights * (values - low - mean) ** 2))
    return Spread(low, low + mean, sd)


def _quantile(values: jax.Array, weights: jax.Array, share: float) -> jax.Array:
    """The least value up to which the weights reach `share`; infinite values weigh nothing.

    By bisection: a sort would take a third of a kernel's compilation.
    """
    finite = jnp.isfinite(values)
    least = jnp.min(values)
    most = jnp.max(jnp.where(finite, values, -jnp.inf))

    def halve(_: int, bracket: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        below, reached = bracket
        middle = below + 0.5 * (reached - below)
        enough = jnp.sum(jnp.where(values <= middle, weights, 0.0)) >= share
        return jnp.where(enough, below, middle), jnp.where(enough, middle, reached)

    # Below all by more than rounding; halved until the bracket ends between two floats.
    start = least - jnp.maximum(jnp.abs(least), 1.0)
    below, _ = lax.fori_loop(0, 64, halve, (start, most))
    return jnp.min(jnp.where(values > below, values, jnp.inf))
