"""What the theta of a chain makes of potential energies, for weights after a run."""

from __future__ import annotations

import jax

from numpyro_contour.core.flattening.psi import (
    Flattening,
    log_flattening,
    log_psi,
)
from numpyro_contour.kernels.methods.contour_state import ContourState


def log_flattening_at(
    state: ContourState,
    energy: jax.Array,
    temperature: jax.Array,
    flattening: Flattening,
    weight: str = "consistent",
) -> jax.Array:
    """The log weights of potential energies by the theta of one chain.

    Args:
        state: the state of one chain.
        energy: potential energies in nats, (n,).
        temperature: tau.
        flattening: zeta and the shape of Psi.
        weight: "consistent" (default) or "piecewise".

    Returns:
        Log weights, (n,), up to a constant of the chain.
    """
    sampler = state.sampler

    def weigh(u: jax.Array) -> jax.Array:
        psi = log_psi(sampler.theta.log_theta, u, sampler.partition, temperature, flattening)
        energy_bin = sampler.partition.index(u)
        return log_flattening(sampler.theta, psi, energy_bin, flattening, weight)

    return jax.vmap(weigh)(energy)
