"""Ordinary models of many kinds with made-up data, as users write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax import random
from jax.scipy.special import log_ndtr


class Kind(NamedTuple):
    """A model and its data."""

    model: Callable
    data: tuple
    #: the same model over all rows, for NUTS, if that is another one
    of_all_rows: Callable | None = None
    #: exact mean and standard deviation by site, where NUTS is not to be trusted either
    exact: dict[str, tuple[float, float]] | None = None
    num_steps: int = 100
    #: the sites that are compared, None for all
    sites: tuple[str, ...] | None = None


def _key(number: int) -> jax.Array:
    return random.fold_in(random.key(2026), number)


def years() -> Kind:
    """A line through years that are not centred."""
    x = jnp.arange(1952.0, 2014.0)
    y = 9.3 + 0.015 * (x - 1983) + random.normal(_key(0), x.shape)

    def model(x: jax.Array, y: jax.Array) -> None:
        level = numpyro.sample("level", dist.Normal(0, 100))
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        noise = numpyro.sample("noise", dist.HalfNormal(3))
        numpyro.sample("y", dist.Normal(level + slope * x, noise), obs=y)

    return Kind(model, (x, y))


def collinear() -> Kind:
    """26 columns that are nearly sums of each other."""
    keys = random.split(_key(1), 4)
    base = random.normal(keys[0], (500, 6)) @ random.normal(keys[1], (6, 25))
    x = base + 0.03 * random.normal(keys[2], (500, 25))
    x = jnp.concatenate([jnp.ones((500, 1)), x], 1)
    y = 1.0 + 0.2 * x[:, 1] - 0.1 * x[:, 5] + 0.7 * random.normal(keys[3], (500,))

    def model(x: jax.Array, y: jax.Array) -> None:
        beta = numpyro.sample("beta", dist.Normal(0, 3).expand([26]).to_event(1))
        noise = numpyro.sample("noise", dist.HalfNormal(2))
        numpyro.sample("y", dist.Normal(x @ beta, noise), obs=y)

    return Kind(model, (x, y))


def gaussian_process() -> Kind:
    """A Gaussian process whose exponential is the mean of counts."""
    x = jnp.linspace(-10.0, 10.0, 11)
    counts = random.poisson(_key(2), jnp.exp(2.5 + 1.2 * jnp.sin(0.5 * x)))

    def model(x: jax.Array, counts: jax.Array) -> None:
        length = numpyro.sample("length", dist.Gamma(25, 4))
        scale = numpyro.sample("scale", dist.HalfNormal(2))
        normal = numpyro.sample("normal", dist.Normal(0, 1).expand([len(x)]).to_event(1))
        squares = ((x[:, None] - x) / length) ** 2
        covariance = scale**2 * jnp.exp(-0.5 * squares) + 1e-4 * jnp.eye(len(x))
        rate = jnp.exp(jnp.linalg.cholesky(covariance) @ normal)
        numpyro.sample("counts", dist.Poisson(rate), obs=counts)

    return Kind(model, (x, counts))


def _populations(rates: jax.Array, first: jax.Array, years: int) -> jax.Array:
    """Prey and predators by Runge and Kutta, five steps a year, (years, 2)."""

    def change(state: jax.Array) -> jax.Array:
        prey, predators = state
        return jnp.stack(
            [(rates[0] - rates[1] * predators) * prey, (rates[3] * prey - rates[2]) * predators]
        )

    def step(state: jax.Array, _: None) -> tuple[jax.Array, None]:
        h = 0.2
        a = change(state)
        b = change(state + h / 2 * a)
        c = change(state + h / 2 * b)
        d = change(state + h * c)
        return state + h / 6 * (a + 2 * b + 2 * c + d), None

    def year(state: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        after = jax.lax.scan(step, state, None, 5)[0]
        return after, after

    return jax.lax.scan(year, first, None, years)[1]


def predators() -> Kind:
    """Predators and prey: an ordinary differential equation."""
    rates = jnp.array([0.55, 0.028, 0.8, 0.024])
    first = jnp.array([34.0, 5.9])
    noise = 0.25 * random.normal(_key(3), (20, 2))
    seen = _populations(rates, first, 20) * jnp.exp(noise)

    def model(seen: jax.Array) -> None:
        means = jnp.array([1.0, 0.05, 1.0, 0.05])
        sds = jnp.array([0.5, 0.05, 0.5, 0.05])
        prior = dist.TruncatedNormal(means, sds, low=0.0).to_event(1)
        rates = numpyro.sample("rates", prior)
        first = numpyro.sample("first", dist.LogNormal(jnp.log(10.0), 1).expand([2]).to_event(1))
        noise = numpyro.sample("noise", dist.LogNormal(-1, 1).expand([2]).to_event(1))
        expected = _populations(rates, first, len(seen))
        expected = jnp.maximum(jnp.nan_to_num(expected, nan=1e9, posinf=1e9), 1e-9)
        numpyro.sample("seen", dist.LogNormal(jnp.log(expected), noise), obs=seen)

    return Kind(model, (seen,), num_steps=20)


def unscaled_counts() -> Kind:
    """A Poisson regression with columns of sd .03 to 3.4, by minibatches."""
    keys = random.split(_key(4), 2)
    scales = jnp.array([0.03, 0.1, 0.2, 0.5, 1.0, 1.7, 2.5, 3.4])
    x = scales * random.normal(keys[0], (8000, 8))
    slopes = 0.3 / scales * jnp.array([1, -1, 0.5, 1, -0.5, 1, -1, 0.3])
    counts = random.poisson(keys[1], jnp.exp(0.5 + x @ slopes))

    def of(size: int | None) -> Callable:
        def model(x: jax.Array, counts: jax.Array) -> None:
            level = numpyro.sample("level", dist.Normal(0, 5))
            beta = numpyro.sample("beta", dist.Normal(0, 10).expand([8]).to_event(1))
            with numpyro.plate("rows", len(counts), subsample_size=size) as rows:
                rate = jnp.exp(level + x[rows] @ beta)
                numpyro.sample("y", dist.Poisson(rate), obs=counts[rows])

        return model

    return Kind(of(200), (x, counts), of(None))


def funnel() -> Kind:
    """Neal's funnel in ten dimensions."""

    def model() -> None:
        v = numpyro.sample("v", dist.Normal(0, 3))
        numpyro.sample("x", dist.Normal(0, jnp.exp(v / 2)).expand([9]).to_event(1))

    return Kind(model, (), exact={"v": (0.0, 3.0)})


def horseshoe() -> Kind:
    """A regression whose slopes have a horseshoe prior."""
    keys = random.split(_key(5), 2)
    x = random.normal(keys[0], (100, 10))
    y = x[:, 0] - 0.7 * x[:, 3] + 0.5 * random.normal(keys[1], (100,))

    def model(x: jax.Array, y: jax.Array) -> None:
        local = numpyro.sample("local", dist.HalfCauchy(1).expand([10]).to_event(1))
        common = numpyro.sample("common", dist.HalfCauchy(1))
        noise = numpyro.sample("noise", dist.HalfNormal(2))
        normal = numpyro.sample("normal", dist.Normal(0, 1).expand([10]).to_event(1))
        beta = numpyro.deterministic("beta", common * local * normal)
        numpyro.sample("y", dist.Normal(x @ beta, noise), obs=y)

    # A scale with a Cauchy's tail has no mean.
    return Kind(model, (x, y), sites=("beta", "noise"))


_SPREADS = {"centred": 1.0, "not centred": 0.3}


def hierarchy(form: str) -> Kind:
    """Fifteen groups of a few rows each."""
    keys = random.split(_key(6), 2)
    group = jnp.arange(120) % 15
    effects = 1.0 + _SPREADS[form] * random.normal(keys[0], (15,))
    y = effects[group] + random.normal(keys[1], (120,))

    def model(group: jax.Array, y: jax.Array) -> None:
        level = numpyro.sample("level", dist.Normal(0, 5))
        spread = numpyro.sample("spread", dist.HalfNormal(2))
        noise = numpyro.sample("noise", dist.HalfNormal(2))
        if form == "centred":
            effect = numpyro.sample("effect", dist.Normal(level, spread).expand([15]).to_event(1))
        else:
            normal = numpyro.sample("normal", dist.Normal(0, 1).expand([15]).to_event(1))
            effect = numpyro.deterministic("effect", level + spread * normal)
        numpyro.sample("y", dist.Normal(effect[group], noise), obs=y)

    return Kind(model, (group, y))


def growth() -> Kind:
    """Weights of thirty rats in grams over five weeks: effects and slopes, centred."""
    keys = random.split(_key(14), 3)
    days = jnp.array([-14.0, -7.0, 0.0, 7.0, 14.0])
    level = 242 + 14 * random.normal(keys[0], (30, 1))
    slope = 6.2 + 0.5 * random.normal(keys[1], (30, 1))
    y = level + slope * days + 6 * random.normal(keys[2], (30, 5))

    def model(days: jax.Array, y: jax.Array) -> None:
        means = [numpyro.sample("level", dist.Normal(0, 1000))]
        means.append(numpyro.sample("slope", dist.Normal(0, 100)))
        spreads = numpyro.sample("spreads", dist.HalfCauchy(jnp.array([50.0, 10.0])).to_event(1))
        noise = numpyro.sample("noise", dist.HalfCauchy(50))
        of_rats = dist.Normal(jnp.stack(means)[:, None], spreads[:, None]).expand([2, 30])
        levels, slopes = numpyro.sample("of_rats", of_rats.to_event(2))
        weights = levels[:, None] + slopes[:, None] * days
        numpyro.sample("y", dist.Normal(weights, noise).to_event(2), obs=y)

    return Kind(model, (days, y))


def states() -> Kind:
    """A random walk of a hundred states, not seen without noise, centred."""
    keys = random.split(_key(15), 2)
    walk = 5 + jnp.cumsum(0.3 * random.normal(keys[0], (100,)))
    y = walk + 0.5 * random.normal(keys[1], (100,))

    def model(y: jax.Array) -> None:
        scale = numpyro.sample("scale", dist.HalfNormal(1))
        noise = numpyro.sample("noise", dist.HalfNormal(1))
        first = numpyro.sample("first", dist.Normal(0, 10))
        state = numpyro.sample(
            "state", dist.ImproperUniform(dist.constraints.real_vector, (), (100,))
        )
        moves = jnp.diff(state, prepend=first)
        numpyro.factor("moves", dist.Normal(0, scale).log_prob(moves).sum())
        numpyro.sample("y", dist.Normal(state, noise), obs=y)

    return Kind(model, (y,))


def neighbours() -> Kind:
    """Counts in sixty districts on a ring, with an effect of each and one that neighbours share."""
    keys = random.split(_key(16), 3)
    here = jnp.arange(60)
    expected = jnp.exp(3 + 0.5 * random.normal(keys[0], (60,)))
    log_rate = 0.2 + 0.4 * jnp.sin(here * 4 * jnp.pi / 60) + 0.1 * random.normal(keys[1], (60,))
    counts = random.poisson(keys[2], expected * jnp.exp(log_rate))
    links = 2 * jnp.eye(60) - jnp.eye(60)[here - 1] - jnp.eye(60)[:, here - 1]
    # Riebler et al. (2016): shared effects are scaled to a typical variance of 1.
    size = jnp.exp(jnp.mean(jnp.log(jnp.diag(jnp.linalg.pinv(links)))))

    def model(expected: jax.Array, counts: jax.Array) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1))
        spread = numpyro.sample("spread", dist.HalfNormal(1))
        share = numpyro.sample("share", dist.Beta(0.5, 0.5))
        own = numpyro.sample("own", dist.Normal(0, 1).expand([60]).to_event(1))
        shared = numpyro.sample(
            "shared", dist.ImproperUniform(dist.constraints.real_vector, (), (60,))
        )
        numpyro.factor("links", -0.5 * jnp.sum((shared - jnp.roll(shared, 1)) ** 2))
        numpyro.factor("sum", dist.Normal(0, 0.06).log_prob(jnp.sum(shared)))
        effect = jnp.sqrt(1 - share) * own + jnp.sqrt(share / size) * shared
        rate = expected * jnp.exp(level + spread * effect)
        numpyro.sample("counts", dist.Poisson(rate), obs=counts)

    return Kind(model, (expected, counts))


def probit() -> Kind:
    """A probit regression."""
    keys = random.split(_key(7), 2)
    x = random.normal(keys[0], (300, 5)) * jnp.array([0.2, 1.0, 1.0, 3.0, 10.0])
    slopes = jnp.array([2.0, 0.5, -0.8, 0.2, 0.05])
    y = (x @ slopes + 0.3 + random.normal(keys[1], (300,)) > 0).astype(jnp.int32)

    def model(x: jax.Array, y: jax.Array) -> None:
        level = numpyro.sample("level", dist.Normal(0, 5))
        beta = numpyro.sample("beta", dist.Normal(0, 5).expand([5]).to_event(1))
        mean = level + x @ beta
        log_probability = jnp.where(y == 1, log_ndtr(mean), log_ndtr(-mean))
        numpyro.factor("y", log_probability.sum())

    return Kind(model, (x, y))


def negative_binomial() -> Kind:
    """Counts with more than Poisson spread."""
    keys = random.split(_key(8), 3)
    x = random.normal(keys[0], (300, 3)) * jnp.array([1.0, 0.3, 4.0]) + 2.0
    mean = jnp.exp(0.5 + x @ jnp.array([0.3, 1.0, 0.1]))
    counts = random.poisson(keys[1], mean * random.gamma(keys[2], 2.0, (300,)) / 2.0)

    def model(x: jax.Array, counts: jax.Array) -> None:
        level = numpyro.sample("level", dist.Normal(0, 5))
        beta = numpyro.sample("beta", dist.Normal(0, 5).expand([3]).to_event(1))
        concentration = numpyro.sample("concentration", dist.HalfNormal(5))
        rate = jnp.exp(level + x @ beta)
        numpyro.sample("y", dist.NegativeBinomial2(rate, concentration), obs=counts)

    return Kind(model, (x, counts))


def ordered_logit() -> Kind:
    """Answers on a scale of five."""
    keys = random.split(_key(9), 2)
    x = random.normal(keys[0], (400, 3)) * jnp.array([1.0, 0.1, 5.0])
    cuts = jnp.array([-2.0, -0.5, 0.5, 2.0])
    latent = x @ jnp.array([1.0, 5.0, -0.1]) + random.logistic(keys[1], (400,))
    y = jnp.sum(latent[:, None] > cuts, 1)

    def model(x: jax.Array, y: jax.Array) -> None:
        beta = numpyro.sample("beta", dist.Normal(0, 5).expand([3]).to_event(1))
        ordered = dist.TransformedDistribution(
            dist.Normal(0, 3).expand([4]).to_event(1), dist.transforms.OrderedTransform()
        )
        cuts = numpyro.sample("cuts", ordered)
        numpyro.sample("y", dist.OrderedLogistic(x @ beta, cuts), obs=y)

    return Kind(model, (x, y))


def covariance() -> Kind:
    """A covariance with an LKJ prior."""
    root = jnp.array([[1.0, 0.0, 0.0], [1.6, 1.2, 0.0], [-0.2, 0.1, 0.3]])
    y = random.normal(_key(10), (100, 3)) @ root.T + jnp.array([0.0, 5.0, -1.0])

    def model(y: jax.Array) -> None:
        mean = numpyro.sample("mean", dist.Normal(0, 10).expand([3]).to_event(1))
        scales = numpyro.sample("scales", dist.HalfNormal(3).expand([3]).to_event(1))
        root = numpyro.sample("root", dist.LKJCholesky(3, 1.0))
        numpyro.deterministic("correlations", (root @ root.T)[jnp.tril_indices(3, -1)])
        normal = dist.MultivariateNormal(mean, scale_tril=scales[:, None] * root)
        numpyro.sample("y", normal, obs=y)

    # Some entries of the root are constants.
    return Kind(model, (y,), sites=("mean", "scales", "correlations"))


def student() -> Kind:
    """A regression with outliers and an unknown number of degrees of freedom."""
    keys = random.split(_key(11), 2)
    x = random.normal(keys[0], (150, 2)) * jnp.array([1.0, 50.0])
    y = 100.0 + x @ jnp.array([2.0, 0.5]) + random.t(keys[1], 3.0, (150,))

    def model(x: jax.Array, y: jax.Array) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1000))
        beta = numpyro.sample("beta", dist.Normal(0, 100).expand([2]).to_event(1))
        noise = numpyro.sample("noise", dist.HalfNormal(10))
        freedom = numpyro.sample("freedom", dist.Gamma(2, 0.1))
        numpyro.sample("y", dist.StudentT(freedom, level + x @ beta, noise), obs=y)

    return Kind(model, (x, y))


#: the models by name
KINDS: dict[str, Callable[[], Kind]] = {
    "a line through years": years,
    "26 collinear columns": collinear,
    "Gaussian process, counts": gaussian_process,
    "unscaled counts, minibatches": unscaled_counts,
    "funnel": funnel,
    "horseshoe": horseshoe,
    "hierarchy, centred": lambda: hierarchy("centred"),
    "hierarchy, not centred": lambda: hierarchy("not centred"),
    "growth in grams, centred": growth,
    "states in time, centred": states,
    "neighbours, BYM2": neighbours,
    "probit": probit,
    "negative binomial": negative_binomial,
    "ordered logit": ordered_logit,
    "LKJ covariance": covariance,
    "Student's t": student,
    "predators and prey": predators,
}
