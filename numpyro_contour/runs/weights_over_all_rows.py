"""From weights at the noisy energies of a run to weights at the energies over all data."""

from __future__ import annotations

import jax
import numpy as np
from numpyro.infer import MCMC

from numpyro_contour.core.arrays.vectors import by_chain
from numpyro_contour.runs.energies_over_all_rows import full_energies
from numpyro_contour.runs.smoothed_flattening import smoothed

# Draws whose theta is shaped at once.
_DRAWS = 1024


def full_data_correction(mcmc: MCMC, theta: str) -> np.ndarray:
    r"""What is added to the log weights of a run with noisy energies, (chains, draws).

    .. math:: \zeta\,[\log\Psi^{\sigma(x)}_\theta(U(x)) - \log\Psi_\theta(\tilde U(x))],
              \qquad \log\Psi^\sigma(u) = E[\log\Psi(u + \sigma\xi)]

    A chain on noisy energies flattens by the smoothed function, at the full energy of the draw and
    with the noise at the draw's own position, and a draw that stands for a window was chosen by
    the weight at its noisy one.

    Args:
        mcmc: a finished run of a contour kernel.
        theta: "online", theta as the draw's window left it, or "final".
    """
    kernel = mcmc.sampler
    fields = mcmc.get_extra_fields(group_by_chain=True)
    full = full_energies(mcmc)
    seen = np.asarray(fields["potential_energy_estimate"], np.float64)
    state = mcmc.last_state
    lower = by_chain(state.partition.lower, 0).astype(np.float64)
    width = by_chain(state.partition.width, 0).astype(np.float64)
    offset = kernel.node_offset
    correction = np.empty_like(seen)
    for chain in range(len(seen)):
        values = _nodes_of_chain(mcmc, theta, chain)

        def place(energy: np.ndarray, chain: int = chain) -> np.ndarray:
            return (energy - lower[chain]) / width[chain] - offset

        noise = full.noise[chain] / width[chain]
        felt = smoothed(values, place(full.energy[chain]), noise)
        correction[chain] = felt - smoothed(values, place(seen[chain]), np.zeros(()))
    return kernel.settings["zeta"] * correction


def _nodes_of_chain(mcmc: MCMC, theta: str, chain: int) -> np.ndarray:
    """Log Psi at the nodes of the bins, of each draw (draws, bins) or of all (1, bins)."""
    state = mcmc.last_state
    if mcmc.num_chains > 1:
        state = jax.tree.map(lambda x: x[chain], state)
    fields = mcmc.get_extra_fields(group_by_chain=True)
    log_theta = state.log_theta[None]
    if theta == "online" and "log_theta" in fields:
        log_theta = fields["log_theta"][chain]
    shaped = jax.jit(jax.vmap(lambda x: mcmc.sampler.log_psi_nodes(state, x)))
    parts = [shaped(log_theta[i : i + _DRAWS]) for i in range(0, len(log_theta), _DRAWS)]
    return np.concatenate([np.asarray(part, np.float64) for part in parts])
