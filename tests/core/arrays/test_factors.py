"""Factors of low rank against the matrices that they stand for."""

import jax.numpy as jnp
import numpy as np
import pytest

from numpyro_contour.core.arrays.factors import (
    LowRank,
    diagonal,
    displacement,
    inverse_transposed,
    slope,
)

SIZE, RANK = 7, 2


def low_rank_and_matrix():
    rng = np.random.default_rng(0)
    scales, stretches = np.exp(rng.normal(size=SIZE)), np.array([20.0, 0.1])
    directions, _ = np.linalg.qr(rng.normal(size=(SIZE, RANK)))
    inner = np.eye(SIZE) + (directions * (stretches - 1)) @ directions.T
    factor = LowRank(*(jnp.asarray(x, jnp.float32) for x in (scales, directions, stretches)))
    return factor, scales[:, None] * inner


def test_products_are_those_of_the_matrix():
    factor, matrix = low_rank_and_matrix()
    v = np.random.default_rng(1).normal(size=SIZE)
    d = np.random.default_rng(2).uniform(0.5, 2.0, SIZE)
    v32, d32 = jnp.asarray(v, jnp.float32), jnp.asarray(d, jnp.float32)
    close = {"rtol": 1e-4, "atol": 1e-4}
    np.testing.assert_allclose(displacement(factor, v32), matrix @ v, **close)
    np.testing.assert_allclose(slope(factor, v32), matrix.T @ v, **close)
    np.testing.assert_allclose(diagonal(factor, d32), np.diag((matrix * d) @ matrix.T), **close)
    back = np.linalg.inv(matrix).T
    np.testing.assert_allclose(displacement(inverse_transposed(factor), v32), back @ v, **close)
    np.testing.assert_allclose(
        displacement(inverse_transposed(jnp.asarray(matrix, jnp.float32)), v32), back @ v, **close
    )


@pytest.mark.parametrize("of_zeros", [True, False])
def test_what_stretches_nothing_only_scales(of_zeros):
    scales, v = jnp.arange(1.0, 4.0), jnp.ones(3)
    directions = jnp.zeros((3, 1)) if of_zeros else jnp.array([[0.0], [1.0], [0.0]])
    stretches = jnp.array([5.0 if of_zeros else 1.0])
    factor = LowRank(scales, directions, stretches)
    np.testing.assert_array_equal(displacement(factor, v), scales)
    np.testing.assert_array_equal(slope(factor, v), scales)
    np.testing.assert_array_equal(diagonal(factor, v), scales**2)
