"""The noise of subsampled energies where the energies are low, typical and high."""

from __future__ import annotations

import numpy as np

#: shares of the draws, ordered by their energies, around which noise is looked at
QUANTILES = (0.05, 0.5, 0.95)
_AROUND = 0.05


def noise_at_energies(noise: np.ndarray, energies: np.ndarray) -> np.ndarray:
    """The median noise of the draws around quantiles of their energies, in nats, (3,).

    Args:
        noise: standard deviations of the noise in nats, (chains, draws).
        energies: potential energies of the draws in nats, (chains, draws).
    """
    ordered = np.ravel(noise)[np.argsort(energies, axis=None)]
    bounds = [(q - _AROUND, q + _AROUND) for q in QUANTILES]
    parts = [ordered[int(a * ordered.size) : int(np.ceil(b * ordered.size))] for a, b in bounds]
    return np.array([np.median(part) for part in parts])


def noise_at_energies_text(levels: np.ndarray) -> str:
    """A sentence on `noise_at_energies`."""
    low, typical, high = (f"{level:.2g}" for level in levels)
    return (
        f"Noise of the energy is {low} nats at low, {typical} at typical, {high} at high energies."
    )
