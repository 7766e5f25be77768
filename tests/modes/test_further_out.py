"""Descents from further out than chains go: which places, and a mode that no chain climbs to."""

import jax.numpy as jnp
import models
import numpy as np
import pytest
from jax import nn, random
from jax.scipy.stats import norm
from scipy import stats

from numpyro_contour import ContourSGLD, weighted_samples
from numpyro_contour.core.samplers.known_modes import no_modes
from numpyro_contour.modes.where_no_chain_is import further_out


def one_mode(mean):
    modes = no_modes(3, len(mean), dense=False)
    return modes._replace(known=modes.known.at[1].set(True), mean=modes.mean.at[1].set(mean))


def test_places_are_on_both_sides_up_to_sixteen_times_as_far_as_chains_and_modes():
    places = np.array([[0.0, 1.0], [2.0, -1.0]], np.float32)
    mode = np.array([5.0, 3.0])
    modes = one_mode(mode)
    factors = {"chain": [], "mode": []}
    for number in range(400):
        there = np.asarray(further_out(random.key(number), jnp.asarray(places), modes))
        moved, references = there[0] - places[0], {"chain": places[1], "mode": mode}
        for name, reference in references.items():
            line = places[0] - reference
            if abs(moved[0] * line[1] - moved[1] * line[0]) < 1e-3 * np.linalg.norm(moved):
                factors[name].append(moved @ line / (line @ line))
    assert len(factors["chain"]) + len(factors["mode"]) == 400
    # Either is as likely, and so is either side.
    assert abs(len(factors["chain"]) - 200) < 4 * 10
    each = np.concatenate(list(factors.values()))
    assert abs((each > 0).sum() - 200) < 4 * 10
    logs = np.log(np.abs(each)) / np.log(16)
    assert stats.kstest(logs, "uniform").pvalue > 1e-3


def test_one_chain_goes_out_from_the_mode_it_knows_and_stays_if_it_knows_none():
    place = jnp.array([[1.0, 2.0]])
    alone = further_out(random.key(0), place, no_modes(3, 2, dense=False))
    np.testing.assert_array_equal(alone, place)
    there = further_out(random.key(0), place, one_mode([1.0, 0.0]))
    assert there[0, 0] == 1.0
    assert abs(there[0, 1] - 2.0) >= 2.0


def crescent_and_normal(x):
    """A curved mode, and a narrow normal beyond a barrier of 200 nats, of half the mass each."""
    curved = norm.logpdf(x[0]) + norm.logpdf(x[1], x[0] ** 2, 0.3)
    narrow = norm.logpdf(x[0], 0.0, 0.1) + norm.logpdf(x[1], -8.0, 0.1)
    return np.log(2) - nn.logsumexp(jnp.stack([curved, narrow]))


@pytest.mark.slow
def test_a_mode_that_no_chain_climbs_to_is_found():
    kernel = ContourSGLD(potential_fn=crescent_and_normal, num_steps=20)
    start = jnp.array([[1.6, 2.0], [0.4, 2.1], [-0.9, 1.7], [-1.4, 3.7]])
    how = {"chains": 4, "chain_method": "vectorized", "init_params": start}
    mcmc = models.run(kernel, 2, warmup=400, samples=1500, **how)
    x, log_weights = weighted_samples(mcmc)
    weights = np.exp(np.asarray(log_weights, float))
    shares = (weights * (np.asarray(x)[..., 1] < -3)).sum(1) / weights.sum(1)
    error = shares.std(ddof=1) / 2
    assert abs(shares.mean() - 0.5) < 5 * max(error, 0.01), shares
    assert error < 0.05
