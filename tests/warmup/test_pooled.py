"""Chains that share theta have bins of the same energies."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from numpyro_contour.core.arrays.compensated_sums import Sum
from numpyro_contour.warmup.stages.energies import Spread, pooled


class Anchored(NamedTuple):
    """As much of anchors as is looked at."""

    reference: Sum


FOUND = Spread(jnp.array([3.0, 1.0, 7.0]), jnp.array([5.0, 4.0, 9.0]), jnp.array([1.0, 2.0, 3.0]))


def of_chains(found, pilot_sd, anchors=()):
    def of_chain(*of_one):
        return pooled(*of_one, "chains")

    return jax.vmap(of_chain, axis_name="chains")(found, pilot_sd, anchors)


def test_the_lowest_energies_and_the_spread_within_chains():
    found, pilot_sd = of_chains(FOUND, jnp.array([2.0, 4.0, 4.0]))
    np.testing.assert_array_equal(found.low, [1.0, 1.0, 1.0])
    np.testing.assert_array_equal(found.mean, [6.0, 6.0, 6.0])
    np.testing.assert_allclose(found.sd, np.full(3, (14 / 3) ** 0.5), rtol=1e-6)
    np.testing.assert_allclose(pilot_sd, np.full(3, 12**0.5), rtol=1e-6)


def test_energies_that_are_relative_to_each_chains_own_anchor():
    """In chain 1 all energies are told 10 nats too low, in chain 2 by 1 too high."""
    high, low = jnp.array([100.0, 110.0, 98.0]), jnp.array([0.0, 0.0, 1.0])
    rise = np.array([0.0, 10.0, -1.0])
    told = FOUND._replace(low=FOUND.low - rise, mean=FOUND.mean - rise)
    found, _ = of_chains(told, FOUND.sd, Anchored(Sum(high, low)))
    np.testing.assert_allclose(found.low + rise, np.ones(3), rtol=1e-6)
    np.testing.assert_allclose(found.mean + rise, np.full(3, 6.0), rtol=1e-6)


def test_chains_that_found_no_spread_are_left_out():
    lost = FOUND._replace(low=FOUND.low.at[1].set(jnp.inf), sd=FOUND.sd.at[1].set(jnp.nan))
    found, pilot_sd = of_chains(lost, FOUND.sd)
    np.testing.assert_array_equal(found.low, [3.0, 3.0, 3.0])
    np.testing.assert_allclose(found.sd, np.full(3, 5**0.5), rtol=1e-6)
    np.testing.assert_allclose(pilot_sd, found.sd, rtol=1e-6)
