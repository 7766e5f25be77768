"""The flattening function averaged over the noise of the energy."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr


def smoothed(nodes: np.ndarray, place: np.ndarray, noise: np.ndarray) -> np.ndarray:
    r"""The mean of a piecewise linear function under Gaussian noise of its argument.

    .. math:: E[f(p + s \xi)] = f_0 + \sum_j (f_{j+1} - f_j)\,[G(p - j) - G(p - j - 1)], \qquad
              G(t) = s\,\varphi(t / s) + t\,\Phi(t / s)

    for f with values :math:`f_j` at 0, 1, ... and constant outside, and :math:`\xi` standard
    normal. With f = log Psi, p the energy and s the noise of its estimate, both in bins, it is the
    function by which noisy multipliers flatten: their mean drift is its gradient.

    Args:
        nodes: f at 0, 1, ..., (..., nodes).
        place: p, (...).
        noise: the standard deviation s, (...).

    Returns:
        The means, (...).

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.runs.smoothed_flattening import smoothed
        >>> smoothed(np.array([[0.0, -1.0, -2.0]]), np.array([0.5]), np.array([0.0])).tolist()
        [-0.5]
    """
    nodes = np.asarray(nodes, np.float64)
    place, noise = (np.asarray(x, np.float64)[..., None] for x in (place, noise))
    ramps = _softplus_of_normal(place - np.arange(nodes.shape[-1]), noise)
    return nodes[..., 0] + (np.diff(nodes) * -np.diff(ramps)).sum(-1)


def _softplus_of_normal(t: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """E[max(t + noise * xi, 0)]."""
    safe = np.where(noise > 0, noise, 1.0)
    z = t / safe
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    return np.where(noise > 0, safe * density + t * ndtr(z), np.maximum(t, 0.0))
