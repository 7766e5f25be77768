"""Which coordinates of a model are logarithms of scales."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer.util import initialize_model

from numpyro_contour import SGLD
from numpyro_contour.core.arrays.vectors import coordinate_names
from numpyro_contour.models.coordinates import scales_of
from numpyro_contour.models.model_potential import ModelPotential


def mask_of(model):
    like = initialize_model(jax.random.key(0), model).param_info.z
    return scales_of(ModelPotential.of(model), like), coordinate_names(like)


def test_positive_sites_are_scales():
    def model():
        a = numpyro.sample("a", dist.Normal(0, 1).expand([2]).to_event(1))
        numpyro.sample("between", dist.Uniform(0, 1 + a[0] ** 2))
        numpyro.sample("above", dist.LeftTruncatedDistribution(dist.Normal(0, 1), a[1]))
        numpyro.sample("gamma", dist.Gamma(2.0, 1.0).expand([2]))
        numpyro.sample("half", dist.HalfNormal(1).expand([2]).to_event(1))
        numpyro.sample("shares", dist.Dirichlet(jnp.ones(3)))

    mask, names = mask_of(model)
    assert {name.split("[")[0] for name, held in zip(names, mask) if held} == {
        *("above", "gamma", "half")
    }
    assert mask.shape == (len(names),)
    assert np.sum(mask) == 5


def test_scales_alone_are_no_scales_of_anything():
    def scales():
        numpyro.sample("a", dist.HalfNormal(1))

    def none():
        numpyro.sample("a", dist.Normal(0, 1))

    assert mask_of(scales)[0] is None
    assert mask_of(none)[0] is None


@pytest.mark.slow
def test_the_descent_of_a_model_knows_its_scales():
    """Centred effects near 242: a descent of all coordinates at once ends near 0."""
    made = np.random.default_rng(7)
    days = np.array([-14.0, -7, 0, 7, 14])
    weights, slopes = 242 + 14 * made.normal(size=30), 6.2 + 0.5 * made.normal(size=30)
    y = weights[:, None] + slopes[:, None] * days + 6 * made.normal(size=(30, 5))

    def rats():
        level = numpyro.sample("level", dist.Normal(0, 1000))
        slope = numpyro.sample("slope", dist.Normal(0, 100))
        spreads = numpyro.sample("spreads", dist.HalfCauchy(jnp.array([50.0, 10])).to_event(1))
        noise = numpyro.sample("noise", dist.HalfCauchy(50))
        a = numpyro.sample("a", dist.Normal(level, spreads[0]).expand([30]).to_event(1))
        b = numpyro.sample("b", dist.Normal(slope, spreads[1]).expand([30]).to_event(1))
        mean = a[:, None] + b[:, None] * days
        numpyro.sample("y", dist.Normal(mean, noise).to_event(2), obs=y)

    kernel, warmup = SGLD(rats, num_steps=25), 400
    state = kernel.first_state(jax.random.split(jax.random.key(3), 4), warmup)
    draw = jax.jit(lambda state: kernel.sample(state, (), {}))
    for _ in range(int(kernel.parts.plan.bounds(jnp.asarray(warmup))[0])):
        state = draw(state)
    # 98 of 100 descents arrive, and none without the scales; the posterior has 236 +- 2.
    assert np.sum(abs(np.asarray(state.z["level"]) - 236) < 20) >= 3, state.z["level"]
