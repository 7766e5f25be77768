"""The posteriors as a user of NumPyro has them: as models, or as functions of a vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import random

from benchmarks.cost.first_run import mixture
from benchmarks.peers.clock import posteriors
from benchmarks.peers.clock.posteriors import Data, Posterior


def amplitude(y: jax.Array) -> None:
    """The model of README."""
    a = numpyro.sample("a", dist.Normal(0.3, 1))
    with numpyro.plate("rows", len(y)) as idx:
        numpyro.sample("y", dist.Normal(a**2, posteriors.AMPLITUDE_NOISE), obs=y[idx])


def range_finder(phases: jax.Array, y: jax.Array) -> None:
    """A distance that is known up to whole periods, of which the prior allows four."""
    distance = numpyro.sample("distance", dist.Uniform(0, posteriors.PERIODS))
    signal = posteriors.RANGE_AMPLITUDE * jnp.cos(2 * jnp.pi * (distance - phases))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(signal, posteriors.RANGE_NOISE), obs=y)


def sensors(distances: jax.Array) -> None:
    """Positions in the plane from distances to two places on a line: each may be mirrored."""
    middle = jnp.array([prior.mean for prior in posteriors.PLACE])
    beacons = jnp.array([[-1.0, 0.0], [1.0, 0.0]])
    with numpyro.plate("sensor", posteriors.SENSORS):
        place = numpyro.sample("place", dist.Normal(middle, posteriors.PLACE[0].sd).to_event(1))
        away = jnp.sqrt(jnp.sum((place[:, None] - beacons) ** 2, -1))
        noise = dist.Normal(away, posteriors.SENSOR_NOISE).to_event(1)
        numpyro.sample("distances", noise, obs=distances)


def _columns(draws: dict[str, Any], *names: str) -> np.ndarray:
    parts = [np.asarray(draws[name]) for name in names]
    return np.concatenate([part.reshape(*part.shape[:2], -1) for part in parts], -1)


def _of_mixture(draws: dict[str, Any]) -> np.ndarray:
    return _columns({**draws, "share": draws["share"][..., :1]}, "share", "mean", "sd")


#: models, and the coordinates (chains, draws, size) of draws (chains, draws, ...) by site
MODELS: dict[str, tuple[Callable, Callable[[Any], np.ndarray]]] = {
    "README's model, 1-d": (amplitude, lambda draws: _columns(draws, "a")),
    "mixture, 5-d": (mixture, _of_mixture),
    "four periods, 1-d": (range_finder, lambda draws: _columns(draws, "distance")),
    "sensor positions, 8-d": (sensors, lambda draws: _columns(draws, "place")),
}


def potential(posterior: Posterior, data: Data) -> Callable[[jax.Array], jax.Array]:
    """The potential energy of a posterior whose priors are normal with mean 0, as a function."""
    scales = jnp.array([prior.sd for prior in posterior.priors])
    arrays = tuple(map(jnp.asarray, data))

    def energy(x: jax.Array) -> jax.Array:
        return 0.5 * jnp.sum((x / scales) ** 2) - posterior.log_likelihood(x, arrays, jnp)

    return energy


def starts(posterior: Posterior, seed: int, chains: int) -> jax.Array:
    """Starting points of chains: uniform within 2 of 0, as in NumPyro."""
    shape = chains, posterior.size
    return random.uniform(random.key(100 + seed), shape, minval=-2.0, maxval=2.0)
