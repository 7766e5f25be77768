"""What is asked of a kernel after a run: exact energies, weights, relaxation times."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from numpyro_contour.core.arrays.vectors import ravel
from numpyro_contour.core.flattening.psi import NODE_OFFSETS, Flattening, log_psi_at_nodes
from numpyro_contour.core.samplers.known_modes import Modes, cell, standardised
from numpyro_contour.kernels.kernel import Kernel
from numpyro_contour.kernels.methods.contour_state import NAME as WEIGHT_SITE
from numpyro_contour.kernels.methods.contour_state import ContourState, log_flattening_at
from numpyro_contour.warmup.stages.draw_length import steps_of
from numpyro_contour.warmup.stages.relaxation_times import RelaxationTimes, relaxation_times


def flattening_of(kernel: Kernel) -> Flattening:
    """How a contour kernel flattens the density."""
    flattening = kernel.parts.method.flattening
    assert flattening is not None
    return flattening


def without_weight(samples: Any, log_weight: Any) -> Any:
    """The collected draws without their log weights; a model's own site of that name stays."""
    if not isinstance(samples, dict) or WEIGHT_SITE not in samples:
        return samples
    if not np.array_equal(samples[WEIGHT_SITE], log_weight, equal_nan=True):
        return samples
    return {name: value for name, value in samples.items() if name != WEIGHT_SITE}


def log_flattening(kernel: Kernel, state: ContourState, energy: jax.Array) -> jax.Array:
    """The log weights of potential energies, (n,), by the theta of one chain."""
    temperature = kernel.parts.temperature(state.sampler.chain.steps)
    weight = kernel.settings["weight"]
    return log_flattening_at(state, energy, temperature, flattening_of(kernel), weight)


def log_psi_nodes(kernel: Kernel, state: ContourState, log_theta: jax.Array) -> jax.Array:
    """Log Psi at the nodes of the bins, (num_bins,), by a theta of one chain."""
    temperature = kernel.parts.temperature(state.sampler.chain.steps)
    bins = jnp.arange(log_theta.shape[-1])
    partition = state.sampler.partition
    return log_psi_at_nodes(log_theta, bins, partition, temperature, flattening_of(kernel))


def node_offset(kernel: Kernel) -> float:
    """Distance from a bin's left edge to its node in bin widths, 0, 0.5 or 1."""
    return NODE_OFFSETS[flattening_of(kernel).interpolation]


def of_each_chain(state: Any, num_chains: int) -> Any:
    """The last state of a run with a leading axis of chains in all its parts."""
    if num_chains == 1:
        return jax.tree.map(lambda x: x[None], state)
    known = getattr(state.warmup, "modes", ())
    if not known or known.modes.known.ndim > 1:
        return state
    # Chains that ran together have their modes in common.
    modes = jax.tree.map(lambda x: jnp.broadcast_to(x, (num_chains, *x.shape)), known)
    return state._replace(warmup=state.warmup._replace(modes=modes))


def place_among(modes: Modes, position: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The number of the mode in whose cell a position is, and half |z|^2 in each mode, (K,)."""
    z = standardised(modes, position)
    return cell(modes, z), 0.5 * jnp.sum(z**2, -1)


def relaxation_times_of(kernel: Kernel, state: Any) -> RelaxationTimes | None:
    """Relaxation times of one chain's coordinates, and the shares of noise in their steps.

    None where the step size was given. See `warmup.stages.relaxation_times.relaxation_times`.
    """
    parts, warmup = kernel.parts, state.warmup
    if not parts.scaling.is_found:
        return None
    temperature = parts.temperature(state.sampler.chain.steps)
    found = parts.scaling.found_step(parts.moves, warmup.tuning, temperature)
    return relaxation_times(
        *(warmup.tuning, warmup.draw_moments, steps_of(parts.num_steps, warmup), temperature),
        *(found.reach, found.fastest),
    )


def move_scales_of(kernel: Kernel, state: Any) -> tuple[Any, jax.Array] | None:
    """L and the diagonal of D of one chain, whose moves are preconditioned by L D L'.

    None where moves are accepted by Metropolis-Hastings, or follow the gradients by "rmsprop".
    """
    parts = kernel.parts
    by_barrier = parts.settings.get("barrier") is not None
    if parts.moves.adjusted or by_barrier or parts.scaling.by_rmsprop:
        return None
    if parts.scaling.is_found:
        tuning = state.warmup.tuning
        return tuning.factor, tuning.preconditioner
    given = parts.scaling.given_preconditioner(state.z)
    return (), jnp.ones_like(ravel(state.z)) if given is None else given
