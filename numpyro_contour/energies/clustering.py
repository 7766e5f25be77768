"""Clusters of points in a few dimensions, where what they leave is of third order."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
from scipy.cluster.vq import kmeans2
from scipy.optimize import minimize
from scipy.spatial import cKDTree

# Points a cluster that k-means learns from, out of twice as many.
_TRAINED_ON = 20
_ITERATIONS = 10
# The extent of a column, in standard deviations, beyond which a cluster cannot reach.
_EXTENT = 3.0


def assign(points: np.ndarray, strata: np.ndarray, most: int) -> np.ndarray:
    """The cluster of each point, by k-means within each stratum.

    K-means places its centres where the squared distances are, and remainders grow with the third
    power of the distance: so that their squares add up to little, points in the tails are more
    often among those it learns from.

    Args:
        points: scaled so that all columns count alike, (N, q).
        strata: the stratum of each point, integers from 0, (N,).
        most: how many clusters are wanted in all; a stratum has at least one.

    Returns:
        Integers from 0, each of which has a point, (N,).

    Source: Zador (1982) for the density of the best centres.
    """
    rng = np.random.default_rng(0)
    order = np.argsort(strata, kind="stable")
    result = np.empty(len(points), np.int64)
    first = 0
    for members in np.split(order, np.cumsum(np.bincount(strata))[:-1]):
        number = max(1, round(most * len(members) / len(points)))
        centres = _centres(points[members], number, rng)
        nearest = cKDTree(centres).query(points[members])[1] if len(centres) > 1 else 0
        result[members] = first + nearest
        first += len(centres)
    return np.unique(result, return_inverse=True)[1]


def _centres(points: np.ndarray, number: int, rng: np.random.Generator) -> np.ndarray:
    dimension = points.shape[1]
    if number == 1 or not dimension:
        return np.zeros((1, dimension))
    if len(points) > 2 * _TRAINED_ON * number:
        points = points[rng.choice(len(points), 2 * _TRAINED_ON * number, replace=False)]
    different = _different(points, rng)
    if len(different) <= number:
        return different
    # k-means gives centres the density g^(q / (q + 2)) for points of density g, and f^(q / (q + 6))
    # is the best for points of density f and remainders of third order.
    spacing = cKDTree(points).query(points, k=min(8, len(points)))[0][:, -1]
    spacing = np.maximum(spacing, 1e-3 * spacing.max())
    chances = spacing ** (4 * dimension / (dimension + 6))
    size = min(len(points), _TRAINED_ON * number)
    learnt_from = rng.choice(len(points), size, p=chances / chances.sum())
    sample = points[learnt_from]
    starts = _different(sample, rng)
    starts = rng.choice(starts, min(number, len(starts)), replace=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a centre may lose its points
        return kmeans2(sample, starts, _ITERATIONS, minit="matrix")[0]


def _different(points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The points without repetitions; those at one height along a random direction are equal."""
    heights = points @ rng.standard_normal(points.shape[1])
    return points[np.unique(heights, return_index=True)[1]]


def moments(
    columns: np.ndarray, assignment: np.ndarray, dtype: np.dtype
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts (K,), means (K, q) and factors L of the scatter L L' (K, q, q) of each cluster."""
    number, width = assignment.max() + 1, columns.shape[1]

    def summed(values: np.ndarray) -> np.ndarray:
        return np.bincount(assignment, values, number)

    counts = np.bincount(assignment, minlength=number)
    means = np.stack([summed(x) / counts for x in columns.T], 1) if width else np.zeros((number, 0))
    # What the model sees as centroids is rounded: the scatter is that around it.
    means = means.astype(dtype).astype(float)
    away = columns - means[assignment]
    scatter = np.zeros((number, width, width))
    for i, j in itertools.combinations_with_replacement(range(width), 2):
        scatter[:, i, j] = scatter[:, j, i] = summed(away[:, i] * away[:, j])
    sizes, directions = np.linalg.eigh(scatter)
    return counts, means, directions * np.sqrt(np.maximum(sizes, 0.0))[:, None, :]


def triples(width: int) -> list[tuple[int, ...]]:
    """The third derivatives by a number of columns, as triples of them."""
    return list(itertools.combinations_with_replacement(range(width), 3))


def extents(squares: np.ndarray, width: int, number: int) -> np.ndarray:
    r"""How far a cluster should reach along each column, in its standard deviations, (q,).

    .. math:: \min_h \sum_p \log \sum_{jkl} \overline{\ell_{jkl}^2}(x_p) \, h_j^2 h_k^2 h_l^2
              \quad \text{with} \quad \prod_j h_j = \frac{3^q}{K}, \ h_j \le 3

    Args:
        squares: mean squares of the `triples` of third derivatives at several positions, (p, ...).
        width: the number of columns q.
        number: the number of clusters K.
    """
    powers = np.array([[2 * t.count(j) for j in range(width)] for t in triples(width)], float)
    times = [
        6 / math.prod(math.factorial(t.count(j)) for j in range(width)) for t in triples(width)
    ]
    weights = squares * np.square(times)
    weights = weights[np.isfinite(weights).all(1) & (weights.sum(1) > 0)]
    even = np.full(width, math.log(_EXTENT) - math.log(number) / width)
    if not len(weights):
        return np.exp(even)
    weights = weights / weights.sum(1, keepdims=True)

    def noise(logs: np.ndarray) -> tuple[float, np.ndarray]:
        parts = weights * np.exp(powers @ logs)
        sums = parts.sum(1, keepdims=True)
        return float(np.log(sums).mean()), powers.T @ (parts / sums).mean(0)

    volume = {"type": "eq", "fun": lambda x: x.sum() - even.sum(), "jac": lambda x: np.ones(width)}
    bounds = [(None, math.log(_EXTENT))] * width
    found = minimize(noise, even, jac=True, method="SLSQP", bounds=bounds, constraints=[volume])
    return np.exp(found.x if np.isfinite(found.x).all() else even)
