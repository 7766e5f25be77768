"""Chains whose descent has led nowhere, and the places that others give them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from numpyro_contour.core.arrays.entries import entries
from numpyro_contour.modes.way_down import is_implausible
from numpyro_contour.warmup.stages.plan import Plan
from numpyro_contour.warmup.stages.state import progress

# Energies of minibatches on the same rows differ by less than this many standard deviations of an
# energy between minibatches, unless the chains are in different places.
_NOISE_SDS = 5.0


def rescue(plan: Plan, before: Any, after: Any) -> Any:
    """The states of all chains, where a descent ends without those that have not arrived.

    A chain that is too high for any part of the posterior, or not at a finite energy, becomes a
    copy of one that is not, with random numbers of its own. A chain in another mode of plausible
    energy stays where it is.

    Args:
        plan: the plan of the warm-up.
        before: the states of all chains before a tuning draw, with a leading axis.
        after: the states after it.
    """
    here = jax.vmap(lambda warmup: progress(plan, warmup))(before.warmup)
    ends = jnp.any(here.ends & plan.flag("descends", here.number))
    return lax.cond(ends, _without_lost_chains, lambda x: x, after)


def _without_lost_chains(state: Any) -> Any:
    energy, tuning = state.sampler.chain.potential_energy, state.warmup.tuning
    energy = jnp.where(jnp.isfinite(energy), energy, jnp.inf)
    lowest = jnp.argmin(energy)
    noise = _NOISE_SDS * jnp.sqrt(tuning.energy_noise[lowest])
    scales = tuning.preconditioner
    lost = is_implausible(energy - noise, scales, energy[lowest], scales[lowest])
    # Where energies are exact a chain walks after its descent, and in a neck that walk goes on down
    # and tells of a room that is too wide. The ends of the descents have to speak against it too.
    best = tuning.descent.best
    ends = best.energy, best.inverse_curvature
    lost &= is_implausible(*ends, *(x[lowest] for x in ends)) | (noise > 0)
    lost &= jnp.arange(energy.shape[0]) != lowest
    # The chains that stay, in turn.
    staying = jnp.argsort(lost, stable=True)
    chains = jnp.arange(lost.shape[0])
    giver = jnp.where(lost, staying[chains % jnp.sum(~lost)], chains)
    taken = entries(state._replace(rng_key=()), giver)
    warmup = taken.warmup._replace(
        history=state.warmup.history, taken_from=jnp.where(lost, giver, -1).astype(jnp.int32)
    )
    return taken._replace(rng_key=state.rng_key, warmup=warmup)
