"""The generator written out is that of `jax.random`, to the last bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from numpyro_contour.core.arrays.random_bits import bits, fold_in, normal, split, uniform

KEYS = {
    "typed": lambda: random.key(7),
    "legacy": lambda: random.PRNGKey(7),
    "rbg": lambda: random.key(7, impl="rbg"),
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("shape", [(), (1,), (513,), (3, 5, 7)])
def test_bits_and_normals_are_those_of_jax(kind, shape):
    key = KEYS[kind]()
    np.testing.assert_array_equal(bits(key, shape), random.bits(key, shape, jnp.uint32))
    ours = jax.jit(lambda k: normal(k, shape, jnp.float32))(key)
    theirs = jax.jit(lambda k: random.normal(k, shape, jnp.float32))(key)
    np.testing.assert_array_equal(ours, theirs)
    assert ours.dtype == jnp.float32


@pytest.mark.parametrize("kind", KEYS)
def test_keys_and_uniform_numbers_are_those_of_jax(kind):
    key = KEYS[kind]()
    data = lambda key: random.key_data(key) if key.dtype != jnp.uint32 else key
    np.testing.assert_array_equal(data(split(key, 5)), data(random.split(key, 5)))
    for number in (0, 7, jnp.array(2**31 - 1)):
        np.testing.assert_array_equal(data(fold_in(key, number)), data(random.fold_in(key, number)))
    ours, theirs = uniform(key, (3, 5), jnp.float32), random.uniform(key, (3, 5))
    np.testing.assert_array_equal(ours, theirs)


def test_many_keys_at_once():
    keys = random.split(random.key(3), 6)
    ours = jax.vmap(lambda k: normal(k, (4,), jnp.float32))(keys)
    np.testing.assert_array_equal(ours, jax.vmap(lambda k: random.normal(k, (4,)))(keys))


def test_other_settings_of_jax_are_respected():
    with jax.enable_x64(True):
        doubles = normal(random.key(1), (5,), jnp.dtype("float64"))
        np.testing.assert_array_equal(doubles, random.normal(random.key(1), (5,), "float64"))
    with jax.threefry_partitionable(False):
        words = bits(random.key(1), (5,))
        np.testing.assert_array_equal(words, random.bits(random.key(1), (5,)))
