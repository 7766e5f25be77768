"""A Bayesian neural network for the strength of concrete: the model, predictions and scores."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from numpyro_contour.examples.datasets import Split
from numpyro_contour.statistics.estimates import weighted_eti, weighted_mean

HIDDEN = 50
MINIBATCH = 50


class Predictions(NamedTuple):
    """Weighted posterior predictive distribution of held-out rows, in the target's own units."""

    #: predictive mean, (rows,)
    mean: np.ndarray
    #: 5 % quantile, (rows,)
    lower: np.ndarray
    #: 95 % quantile, (rows,)
    upper: np.ndarray


def network(weights: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    r"""One hidden layer of tanh units.

    .. math:: f(x) = \sum_{h=1}^H v_h \tanh(x^\top w_h + b_h) / \sqrt H

    Args:
        weights: `input_weights` w, (features, H); `hidden_bias` b, (H,); `output_weights` v, (H,).
        x: standardised inputs, (rows, features).

    Returns:
        f, (rows,), in standard deviations of the target.

    Example:
        >>> import jax.numpy as jnp
        >>> from numpyro_contour.examples.concrete import network
        >>> weights = {"input_weights": jnp.ones((8, 4)), "hidden_bias": jnp.zeros(4),
        ...            "output_weights": jnp.ones(4)}
        >>> network(weights, jnp.zeros((3, 8))).tolist()
        [0.0, 0.0, 0.0]
    """
    hidden = jnp.tanh(x @ weights["input_weights"] + weights["hidden_bias"])
    return hidden @ weights["output_weights"] / math.sqrt(hidden.shape[-1])


def model(x: jax.Array, y: jax.Array | None = None) -> None:
    r"""The Bayesian neural network over minibatches of 50 rows.

    .. math:: w, b, v, s \sim N(0, 1), \quad \sigma = e^{-1 + s / 2}, \quad
              y \sim N(f(x), \sigma^2)

    All latent variables have the same prior scale, and the target is standardised, so the output
    needs no bias.

    Args:
        x: standardised inputs, (rows, features).
        y: standardised target, (rows,). None (default) to predict it.

    Example:
        >>> from numpyro_contour.examples.concrete import model
        >>> from numpyro_contour.examples.datasets import load, split_and_standardise
        >>> from numpyro_contour.models.model_potential import ModelPotential
        >>> data = split_and_standardise(load("concrete"), seed=0)
        >>> ModelPotential.of(model, (data.X_train, data.y_train)).plates.sizes
        {'rows': (927, 50)}
    """
    rows, features = x.shape
    weights = {
        "input_weights": numpyro.sample(
            "input_weights", dist.Normal(0, 1).expand([features, HIDDEN]).to_event(2)
        ),
        "hidden_bias": numpyro.sample(
            "hidden_bias", dist.Normal(0, 1).expand([HIDDEN]).to_event(1)
        ),
        "output_weights": numpyro.sample(
            "output_weights", dist.Normal(0, 1).expand([HIDDEN]).to_event(1)
        ),
    }
    noise = numpyro.sample("noise", dist.Normal(0, 1))
    noise_sd = numpyro.deterministic("noise_sd", jnp.exp(-1 + noise / 2))
    with numpyro.plate("rows", rows, subsample_size=MINIBATCH) as idx:
        f = numpyro.deterministic("f", network(weights, x[idx]))
        numpyro.sample("y", dist.Normal(f, noise_sd), obs=None if y is None else y[idx])


def predict(drawn: dict[str, jax.Array], log_weights: np.ndarray, split: Split) -> Predictions:
    r"""The weighted posterior predictive distribution at the held-out rows.

    .. math:: E[y] \approx \sum_k w_k f_k(x) / \sum_k w_k, \qquad
              y_k \sim N(f_k(x), \sigma_k^2) \text{ with weight } w_k

    Args:
        drawn: `predictive` of the model at the held-out inputs, "f" and "y", (chains, draws, rows).
        log_weights: log importance weights, (chains, draws).
        split: the data.

    Returns:
        The `Predictions`; the interval holds 90 % and includes the observation noise.

    Raises:
        ValueError: as in `weighted_mean`.

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.examples.concrete import predict
        >>> from numpyro_contour.examples.datasets import load, split_and_standardise
        >>> data = split_and_standardise(load("concrete"), seed=0)
        >>> f = np.zeros((1, 100, 103))
        >>> y = f + np.random.default_rng(0).normal(size=f.shape)
        >>> predictions = predict({"f": f, "y": y}, np.zeros((1, 100)), data)
        >>> predictions.mean.shape, bool((predictions.lower < predictions.mean).all())
        ((103,), True)
    """
    mean = weighted_mean(drawn["f"], log_weights)
    lower, upper = weighted_eti(drawn["y"], log_weights, prob=0.9).T
    return Predictions(*(split.y_mean + split.y_sd * z for z in (mean, lower, upper)))


def rmse(predicted: np.ndarray, observed: np.ndarray) -> float:
    r"""The root-mean-square error of predictions.

    .. math:: \sqrt{\frac1n \sum_i (\hat y_i - y_i)^2}

    Args:
        predicted: predictions, (rows,).
        observed: observations, (rows,), in the same unit.

    Returns:
        The error, in the unit of the arguments.

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.examples.concrete import rmse
        >>> rmse(np.array([1.0, 2.0]), np.array([4.0, -1.0]))
        3.0
    """
    return float(np.sqrt(np.mean((predicted - observed) ** 2)))


def coverage(predictions: Predictions, observed: np.ndarray) -> float:
    r"""The share of observations inside their predictive intervals.

    .. math:: \frac1n \sum_i 1\{l_i \le y_i \le u_i\}

    Args:
        predictions: the predictive distribution of each row.
        observed: observations, (rows,), in the target's own units.

    Returns:
        The share, in [0, 1]; near 0.9 if the intervals are calibrated.

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.examples.concrete import Predictions, coverage
        >>> predictions = Predictions(np.zeros(4), np.full(4, -1.0), np.ones(4))
        >>> coverage(predictions, np.array([0.0, 0.5, -0.5, 2.0]))
        0.75
    """
    inside = (predictions.lower <= observed) & (observed <= predictions.upper)
    return float(np.mean(inside))


def linear_regression(split: Split) -> np.ndarray:
    r"""Predictions of the held-out rows by ordinary least squares, as a baseline.

    .. math:: \hat y = \hat\beta_0 + x^\top \hat\beta

    Args:
        split: the data.

    Returns:
        Predictions, (rows,), in the target's own units.

    Example:
        >>> from numpyro_contour.examples.concrete import linear_regression
        >>> from numpyro_contour.examples.datasets import load, split_and_standardise
        >>> linear_regression(split_and_standardise(load("concrete"), seed=0)).shape
        (103,)
    """
    inputs = np.column_stack([np.ones(len(split.y_train)), split.X_train])
    coefficients = np.linalg.lstsq(inputs, split.y_train, rcond=None)[0]
    predicted = coefficients[0] + split.X_test @ coefficients[1:]
    return split.y_mean + split.y_sd * predicted
