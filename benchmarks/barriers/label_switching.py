"""Two exchangeable normals: the model, its labels, and its reference values."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from numpyro_contour.examples.datasets import read_columns

#: means and standard deviations of the posterior with ordered means, from the reference draws of
#: posteriordb for `low_dim_gauss_mix`
REFERENCE = {
    "mu, lower": (-2.73351, 0.0420),
    "mu, upper": (2.86983, 0.0546),
    "sigma of the lower": (1.02807, 0.0314),
    "sigma of the upper": (1.02382, 0.0405),
    "weight of the lower": (0.621549, 0.0155),
}


def data() -> np.ndarray:
    """The 1,000 observations."""
    return read_columns("gauss_mix")["y"].astype(np.float32)


def model(y: Any, of_first: float = 5.0, of_second: float = 5.0) -> None:
    """A mixture of two normals, whose weight has the prior Beta(of_first, of_second)."""
    mu = numpyro.sample("mu", dist.Normal(0, 2).expand([2]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2).expand([2]).to_event(1))
    weight = numpyro.sample("weight", dist.Beta(of_first, of_second))
    shares = jnp.stack([jnp.log(weight), jnp.log1p(-weight)])
    densities = dist.Normal(mu, sigma).log_prob(y[:, None]) + shares
    numpyro.factor("y", jax.nn.logsumexp(densities, axis=-1).sum())


def lower_first(draws: Any) -> np.ndarray:
    """Whether the first normal is the lower one."""
    return draws["mu"][..., 0] < draws["mu"][..., 1]


def relabelled(draws: Any) -> dict[str, np.ndarray]:
    """The parameters as if the first normal were always the lower one."""
    first = lower_first(draws)
    mu, sigma = (
        np.where(first[..., None], draws[name], draws[name][..., ::-1]) for name in ("mu", "sigma")
    )
    weight = np.where(first, draws["weight"], 1 - draws["weight"])
    values = (mu[..., 0], mu[..., 1], sigma[..., 0], sigma[..., 1], weight)
    return dict(zip(REFERENCE, values))
