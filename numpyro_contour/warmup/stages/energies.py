"""Energies of a window of steps, of one chain or pooled, and their spread."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from numpyro_contour.core.flattening.shared_theta import of_first_chain

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


def pooled(
    found: Spread, pilot_sd: jax.Array, anchors: Any, chains: str
) -> tuple[Spread, jax.Array]:
    """Where the energies of all chains lie, for bins of the same energies in each chain.

    The low end is that of the lowest chain. The standard deviation is the root mean square of those
    within chains: a chain in a mode far above the others must not make the bins of all too wide.
    Chains that have found no spread are left out.

    Args:
        found: the energies of a chain, as it tells them.
        pilot_sd: their standard deviation in the pilot, in nats.
        anchors: the anchors of its control variate, () for none. Its energies are differences to
            that of the first one, which each chain has of its own.
        chains: the name of the axis of chains.

    Returns:
        The energies of all chains, relative to what the chain's own are relative to, and the
        standard deviation of all in the pilot.
    """
    rise = jnp.zeros_like(found.low)
    if anchors:
        own = anchors.reference
        first = of_first_chain(own, chains)
        rise = (own.high - first.high) + (own.low - first.low)
    usable = jnp.isfinite(found.low) & jnp.isfinite(found.sd) & (found.sd > 0)
    low = lax.pmin(jnp.where(usable, found.low + rise, jnp.inf), chains)
    count = jnp.maximum(lax.psum(1 * usable, chains), 1)

    def within(sd: jax.Array) -> jax.Array:
        return jnp.sqrt(lax.psum(jnp.where(usable, sd**2, 0.0), chains) / count)

    mean = lax.psum(jnp.where(usable, found.mean + rise, 0.0), chains) / count
    return Spread(low - rise, mean - rise, within(found.sd)), within(pilot_sd)
