"""Phase retrieval: 100,000 rows that make two modes, with known masses."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

ROWS = 100_000
#: rows of a minibatch
MINIBATCH = 200
#: standard deviation of the noise of an intensity
NOISE_SD = 3.0
PRIOR_MEAN = (0.3, 0.0, 0.0)
PRIOR_SD = 0.4
#: The signal that made the data. Its length sets the barrier between the modes, 8.4 nats.
SIGNAL = np.array([1.0, 0.5, -0.5]) / math.sqrt(1.5) * (56 / ROWS) ** 0.25


def load() -> tuple[np.ndarray, np.ndarray]:
    r"""The simulated data: intensities of a signal seen through random filters.

    .. math:: x_i \sim N(0, I_3), \qquad y_i \sim N((x_i^\top w)^2, 3^2)

    Returns:
        The filters x, (100,000, 3), and the intensities y, (100,000,), in float32.

    Example:
        >>> from numpyro_contour.examples.phase_retrieval import load
        >>> x, y = load()
        >>> x.shape, y.shape
        ((100000, 3), (100000,))
    """
    rng = np.random.default_rng(6)
    x = rng.standard_normal((ROWS, 3))
    y = (x @ SIGNAL) ** 2 + NOISE_SD * rng.standard_normal(ROWS)
    return x.astype(np.float32), y.astype(np.float32)


def model(x: jax.Array, y: jax.Array, minibatch: int | None = MINIBATCH) -> None:
    r"""Phase retrieval, the search for the signal that made the intensities, on minibatches.

    .. math:: w \sim N((0.3, 0, 0), 0.4^2 I_3), \qquad y_i \sim N((x_i^\top w)^2, 3^2)

    The likelihood is the same at w and -w, so the posterior has two modes. Only the prior tells
    them apart.

    Args:
        x: filters, (rows, 3).
        y: intensities, (rows,).
        minibatch: rows of a minibatch. Defaults to 200. None for all rows.

    Example:
        >>> from numpyro_contour.examples.phase_retrieval import load, model
        >>> from numpyro_contour.models.model_potential import ModelPotential
        >>> ModelPotential.of(model, load()).plates.sizes
        {'rows': (100000, 200)}
    """
    w = numpyro.sample("w", dist.Normal(jnp.array(PRIOR_MEAN), PRIOR_SD).to_event(1))
    with numpyro.plate("rows", len(y), subsample_size=minibatch) as idx:
        numpyro.sample("y", dist.Normal((x[idx] @ w) ** 2, NOISE_SD), obs=y[idx])


def has_sign_of_signal(w: Any) -> np.ndarray:
    r"""Whether a draw is in the mode at the signal that made the data, not in the one opposite.

    .. math:: w^\top w_0 > 0

    Args:
        w: draws, (..., 3).

    Returns:
        Booleans, (...,).

    Example:
        >>> from numpyro_contour.examples.phase_retrieval import SIGNAL, has_sign_of_signal
        >>> has_sign_of_signal([SIGNAL, -SIGNAL]).tolist()
        [True, False]
    """
    return np.asarray(w) @ SIGNAL > 0


@cache
def exact_mass() -> float:
    r"""The posterior probability of the mode at the signal, by integration on a grid.

    .. math:: U(w) = \frac{\sum_i \big((x_i^\top w)^2 - y_i\big)^2}{2 \cdot 3^2}
              + \frac{|w - m|^2}{2 \cdot 0.4^2}

    The sum is a polynomial of fourth degree in w. Its coefficients are sufficient statistics:
    sums over the rows, which are computed once for all points of the grid.

    Returns:
        The probability.

    Example:
        >>> from numpyro_contour.examples.phase_retrieval import exact_mass
        >>> round(exact_mass(), 3)
        0.604
    """
    x, y = (np.asarray(a, np.float64) for a in load())
    # (x'w)^2 is linear in the nine products w_j w_k.
    products = (x[:, :, None] * x[:, None, :]).reshape(len(x), 9)
    quadratic, linear = products.T @ products, products.T @ y
    # The spacing is less than the posterior's smallest standard deviation, 0.017. At the
    # ends of the axes the density is below exp(-50) of its peak.
    axis = (np.arange(60) + 0.5) / 100 - 0.3
    w = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    pairs = (w[:, :, None] * w[:, None, :]).reshape(len(w), 9)
    fit = ((pairs @ quadratic) * pairs).sum(1) - 2 * pairs @ linear
    energy = fit / (2 * NOISE_SD**2) + (((w - PRIOR_MEAN) / PRIOR_SD) ** 2).sum(1) / 2
    density = np.exp(energy.min() - energy)
    return float(density[has_sign_of_signal(w)].sum() / density.sum())
