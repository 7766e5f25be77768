"""The energies of chains that share one partition, pooled."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from numpyro_contour.adaptation.energies import Spread
from numpyro_contour.core.flattening.shared_theta import of_first_chain


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
