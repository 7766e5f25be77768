"""Bins and schedules against their definitions."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from numpyro_contour import EnergyPartition, checks, robbins_monro
from numpyro_contour.schedules import as_schedule


def test_bins_are_those_of_numpy_digitize():
    partition = EnergyPartition(-3.5, 8.5, 24)
    energy = np.linspace(-6, 11, 1001) + 1e-3
    expected = np.clip(np.digitize(energy, np.linspace(-3.5, 8.5, 25)) - 1, 0, 23)
    np.testing.assert_array_equal(partition.index(jnp.asarray(energy)), expected)
    np.testing.assert_allclose(partition.edges, np.linspace(-3.5, 8.5, 25), rtol=1e-6)
    assert partition.width == 0.5


def test_infinite_and_missing_energies_have_a_bin():
    partition = EnergyPartition(0.0, 10.0, 5)
    energies = jnp.array([jnp.inf, -jnp.inf, jnp.nan])
    assert partition.index(energies).tolist() == [4, 0, 0]


def test_partitions_may_differ_between_chains():
    partitions = EnergyPartition.tree_unflatten(
        10, (jnp.array([0.0, 5.0]), jnp.array([10.0, 25.0]))
    )
    assert jax.vmap(lambda p: p.index(7.5))(partitions).tolist() == [7, 1]
    assert partitions.edges.shape == (2, 11)


def test_robbins_monro_follows_its_formula():
    gain = robbins_monro(10, 0.8, 100, maximum=0.003)
    for k in (1, 10_000, 1_000_000):
        np.testing.assert_allclose(gain(k), min(0.003, 10 / (k**0.8 + 100)), rtol=1e-5)


def test_an_optax_schedule_is_a_schedule():
    schedule = as_schedule("step_size", optax.cosine_decay_schedule(0.1, 100), checks.positive)
    assert float(schedule(jnp.array(100))) == pytest.approx(0.0, abs=1e-8)
