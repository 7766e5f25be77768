"""Flattened chains climb walls that steepen, with a step size that is lowered for them."""

import jax.numpy as jnp
import numpy as np
import pytest
from models import run
from scipy.integrate import quad
from tiers import in_third_tier

from numpyro_contour import ContourSGLD, diagnose, weighted_samples
from numpyro_contour.warmup.stages.plan import SETTLE

# Potential energies of one coordinate. The first three have curvatures that grow with the energy.
WALLS = {
    "x^4": lambda x: 1.6 * x**4,
    "x^8": lambda x: x**8,
    "cosh": lambda x: jnp.cosh(3 * x),
    "Poisson": lambda x: 2 * jnp.exp(x) - 2 * x,
}


def exact_sd(energy):
    def moment(k):
        return quad(lambda x: x**k * np.exp(-energy(x)), -12, 4, points=[-1, 0, 1])[0]

    return np.sqrt(moment(2) / moment(0) - (moment(1) / moment(0)) ** 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dim", "steps_are_lowered"),
    [
        ("x^4", 1, True),
        in_third_tier("x^8", 5, True),
        in_third_tier("cosh", 1, True),
        in_third_tier("Poisson", 1, False),
    ],
)
def test_standard_deviations_with_nothing_given(name, dim, steps_are_lowered):
    energy = WALLS[name]
    kernel = ContourSGLD(potential_fn=lambda x: jnp.sum(energy(x)), num_steps=200)
    start = jnp.linspace(-0.5, 0.5, 4)[:, None] * jnp.ones((4, dim))
    settings = {"samples": 500, "warmup": 500, "chains": 4, "chain_method": "vectorized"}
    mcmc = run(kernel, 0, init_params=start, **settings)
    x, log_weights = weighted_samples(mcmc)
    x = np.asarray(x, float).reshape(4, -1, dim)
    weights = np.exp(np.asarray(log_weights, float)).reshape(4, -1, 1)
    weights /= weights.sum(1, keepdims=True)
    mean = (weights * x).sum((0, 1)) / 4
    variances = (weights * (x - mean) ** 2).sum(1)  # of each chain and coordinate
    error = variances.std(ddof=1) / np.sqrt(variances.size)
    expected = exact_sd(energy)
    # Steps of a size that is stable at typical energies: a bias of 3 % of the variance is theirs.
    assert abs(variances.mean() - expected**2) < 4 * error + 0.03 * expected**2
    assert diagnose(mcmc).faults == ()
    steps = np.asarray(mcmc.last_state.warmup.history.step_size)
    lowered = steps[:, -1] / steps[:, kernel.parts.plan.last(SETTLE)]
    assert (lowered < 0.5).all() if steps_are_lowered else (lowered > 0.9).all()
