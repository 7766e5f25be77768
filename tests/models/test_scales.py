"""Which coordinates of a model are logarithms of scales."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer.util import initialize_model

from numpyro_contour.core.arrays.vectors import coordinate_names
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.scales import scales_of


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
