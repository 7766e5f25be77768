"""Kernels as blocks of `numpyro.infer.Gibbs`, beside kernels of NumPyro."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import random
from numpyro.infer import MCMC, NUTS, Gibbs

from numpyro_contour import SGLD, ContourSGLD

SCALE, SPREAD = 6.0, 0.1


def effects():
    """Effects whose scale is another block's: it begins within e^2, and goes to e^6."""
    log_scale = numpyro.sample("log_scale", dist.Normal(SCALE, SPREAD))
    with numpyro.plate("effects", 5):
        numpyro.sample("x", dist.Normal(0, jnp.exp(log_scale)))


def other():
    numpyro.sample("x", dist.Normal(0, 1))


def test_a_kernel_is_of_the_model_that_it_was_given():
    """NumPyro takes blocks of one model only, and asks by equality."""
    one, again, another = (SGLD(model).model for model in (effects, effects, other))
    assert one == effects
    assert effects == one
    assert one == again
    assert hash(one) == hash(effects)
    assert one != other
    assert one != another
    assert one not in (None, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", [SGLD, ContourSGLD])
def test_tuning_goes_on_while_another_block_moves(name):
    """Steps tuned at the first scale would take e^8 times as long to cross the last one."""
    settings = {"num_steps": 40, "preconditioner": "diag", "jumps": False}
    blocks = [
        (NUTS(effects, find_heuristic_step_size=False), ["log_scale"]),
        (name(effects, **settings), ["x"]),
    ]
    mcmc = MCMC(Gibbs(blocks), num_warmup=300, num_samples=1000, progress_bar=False)
    mcmc.run(random.key(1))
    draws = mcmc.get_samples()
    # About independent draws of the scale; those of x at least a third of that many.
    assert draws["log_scale"].mean() == pytest.approx(SCALE, abs=5 * SPREAD / 1000**0.5)
    sd = np.exp(SCALE + SPREAD**2)
    error = sd * (0.5 / (1000 / 3)) ** 0.5
    np.testing.assert_allclose(draws["x"].std(0), sd, atol=5 * error)
    np.testing.assert_allclose(draws["x"].mean(0), 0.0, atol=5 * sd / (1000 / 3) ** 0.5)
