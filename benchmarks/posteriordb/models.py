"""Eight posteriors of posteriordb as NumPyro models, with the reference of each."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints

_DATA = Path(__file__).parent / "data"


def _flat(name: str, constraint: Any, *shape: int) -> jax.Array:
    """A parameter without a prior, as Stan has it: flat where it is constrained."""
    return numpyro.sample(name, dist.ImproperUniform(constraint, (), shape))


def _regression(beta: jax.Array, sigma: jax.Array, y: jax.Array, *columns: jax.Array) -> None:
    mean = beta[0] + sum(b * column for b, column in zip(beta[1:], columns))
    numpyro.sample("y", dist.Normal(mean, sigma), obs=y)


def blr(**data: Any) -> None:
    """Linear regression."""
    beta = numpyro.sample("beta", dist.Normal(0, 10).expand([data["D"]]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(10))
    numpyro.sample("y", dist.Normal(data["X"] @ beta, sigma), obs=data["y"])


def eight_schools_noncentered(y: jax.Array, sigma: jax.Array, **_: Any) -> None:
    """The eight schools, not centred."""
    normal = numpyro.sample("theta_trans", dist.Normal(0, 1).expand([len(y)]).to_event(1))
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    theta = numpyro.deterministic("theta", normal * tau + mu)
    numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def garch11(y: jax.Array, sigma1: float, **_: Any) -> None:
    """GARCH(1, 1), flat where alpha1 + beta1 < 1."""
    mu = _flat("mu", constraints.real)
    alpha0 = _flat("alpha0", constraints.positive)
    alpha1 = numpyro.sample("alpha1", dist.Uniform(0, 1))
    share = numpyro.sample("share", dist.Uniform(0, 1))
    beta1 = numpyro.deterministic("beta1", share * (1 - alpha1))
    numpyro.factor("flat", jnp.log1p(-alpha1))

    def next_sigma(sigma: jax.Array, before: jax.Array) -> tuple[jax.Array, jax.Array]:
        variance = alpha0 + alpha1 * (before - mu) ** 2 + beta1 * sigma**2
        return jnp.sqrt(variance), jnp.sqrt(variance)

    first = jnp.asarray(sigma1, y.dtype)
    _, others = jax.lax.scan(next_sigma, first, y[:-1])
    numpyro.sample("y", dist.Normal(mu, jnp.concatenate([first[None], others])), obs=y)


def kidscore_momiq(kid_score: jax.Array, mom_iq: jax.Array, **_: Any) -> None:
    """A child's test score on the IQ of its mother."""
    beta = _flat("beta", constraints.real, 2)
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))
    _regression(beta, sigma, kid_score, mom_iq)


def logearn_interaction(earn: jax.Array, height: jax.Array, male: jax.Array, **_: Any) -> None:
    """The logarithm of earnings on height, sex and their product, not centred."""
    beta = _flat("beta", constraints.real, 4)
    sigma = _flat("sigma", constraints.positive)
    _regression(beta, sigma, jnp.log(earn), height, male, height * male)


def logmesquite_logvash(**data: Any) -> None:
    """The logarithm of the weight of leaves on logarithms of the size of a bush."""
    beta = _flat("beta", constraints.real, 6)
    sigma = _flat("sigma", constraints.positive)
    first, second = jnp.log(data["diam1"]), jnp.log(data["diam2"])
    height = jnp.log(data["canopy_height"])
    columns = first + second + height, first + second, first - second
    others = jnp.log(data["total_height"]), data["group"]
    _regression(beta, sigma, jnp.log(data["weight"]), *columns, *others)


def low_dim_gauss_mix(y: jax.Array, **_: Any) -> None:
    """A mixture of two normals with ordered means."""
    mu = _flat("mu", constraints.ordered_vector, 2)
    numpyro.factor("prior of mu", dist.Normal(0, 2).log_prob(mu).sum())
    sigma = numpyro.sample("sigma", dist.HalfNormal(2).expand([2]).to_event(1))
    theta = numpyro.sample("theta", dist.Beta(5, 5))
    components = dist.Normal(mu, sigma).log_prob(y[:, None])
    log_shares = jnp.log(jnp.stack([theta, 1 - theta]))
    numpyro.factor("y", jax.nn.logsumexp(components + log_shares, axis=1).sum())


def nes(**data: Any) -> None:
    """Party identification, with age as a factor."""
    beta = _flat("beta", constraints.real, 9)
    sigma = _flat("sigma", constraints.positive)
    ages = [1.0 * (data["age_discrete"] == group) for group in (2, 3, 4)]
    columns = data["real_ideo"], data["race_adj"], *ages
    others = data["educ1"], data["gender"], data["income"]
    _regression(beta, sigma, data["partyid7"], *columns, *others)


MODELS: dict[str, Callable] = {
    "earnings-logearn_interaction": logearn_interaction,
    "eight_schools-eight_schools_noncentered": eight_schools_noncentered,
    "garch-garch11": garch11,
    "kidiq-kidscore_momiq": kidscore_momiq,
    "low_dim_gauss_mix-low_dim_gauss_mix": low_dim_gauss_mix,
    "mesquite-logmesquite_logvash": logmesquite_logvash,
    "nes1972-nes": nes,
    "sblrc-blr": blr,
}


@dataclass(frozen=True)
class Posterior:
    """A posterior with its reference."""

    name: str
    model: Callable
    #: arguments of the model by name, arrays in single precision
    data: dict[str, Any]
    #: mean and standard deviation of each parameter, with indices from 1 as in Stan
    reference: dict[str, tuple[float, float]]

    @classmethod
    def of(cls, name: str) -> Posterior:
        """The posterior of this name."""
        found = json.loads((_DATA / "reference.json").read_text())[name]
        data = json.loads((_DATA / f"{found['data']}.json").read_text())
        arrays = {
            key: jnp.asarray(np.asarray(x, np.float32)) if isinstance(x, list) else x
            for key, x in data.items()
        }
        parameters = found["parameters"].items()
        reference = {key: (row["mean"], row["sd"]) for key, row in parameters}
        return cls(name, MODELS[name], arrays, reference)

    def values(self, samples: dict[str, np.ndarray]) -> np.ndarray:
        """Draws of the parameters in the order of the reference, (chains, draws, parameters)."""
        columns = []
        for name in self.reference:
            site, _, index = name.partition("[")
            draws = np.asarray(samples[site], np.float64)
            columns.append(draws[..., int(index[:-1]) - 1] if index else draws)
        return np.stack(columns, -1)
