"""The weights of draws at their energies over all rows, from those at the noisy energies."""

from __future__ import annotations

import numpy as np

from numpyro_contour.runs.energies_over_all_rows import full_energies
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.runs.smoothed_flattening import smoothed


def full_data_correction(run: FinishedRun, theta: str) -> np.ndarray:
    r"""The correction that is added to the log weights of a run with noisy energies.

    .. math:: \zeta\,[\log\Psi^{\sigma(x)}_\theta(U(x)) - \log\Psi_\theta(\tilde U(x))],
              \qquad \log\Psi^\sigma(u) = E[\log\Psi(u + \sigma\xi)]

    A chain with noisy energies flattens by the smoothed function. It is evaluated at the draw's
    energy over all rows, with the noise at the draw's own position. The draw that stands for a
    window was selected by its weight at the noisy energy, which is therefore divided out.

    Args:
        run: a run of a contour kernel.
        theta: "online", theta as the draw's window left it, or "final".

    Returns:
        Differences of log weights, (chains, draws).
    """
    full = full_energies(run)
    seen = run.per_draw("potential_energy_estimate").astype(np.float64)
    lower = np.asarray(run.state.partition.lower, np.float64)
    width = np.asarray(run.state.partition.width, np.float64)
    offset = run.node_offset
    correction = np.empty_like(seen)
    for chain in range(len(seen)):
        values = _nodes_of_chain(run, theta, chain)

        def place(energy: np.ndarray, chain: int = chain) -> np.ndarray:
            return (energy - lower[chain]) / width[chain] - offset

        noise = full.noise[chain] / width[chain]
        felt = smoothed(values, place(full.energy[chain]), noise)
        correction[chain] = felt - smoothed(values, place(seen[chain]), np.zeros(()))
    return run.settings["zeta"] * correction


def _nodes_of_chain(run: FinishedRun, theta: str, chain: int) -> np.ndarray:
    """Log Psi at the nodes of the bins, of each draw (draws, bins) or of all (1, bins)."""
    log_theta = run.state.log_theta[chain][None]
    if theta == "online" and "log_theta" in run.fields:
        log_theta = run.fields["log_theta"][chain]
    return run.log_psi_nodes(chain, log_theta)
