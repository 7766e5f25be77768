"""What a user of NUTS types: the kernel and nothing else."""

import arviz as az
import jax
import jax.numpy as jnp
import models
import pytest

import numpyro_contour
from numpyro_contour import ContourSGLD, print_summary, to_inference_data


def energy(x):
    """A normal with mean 3 and standard deviation 2."""
    return jnp.sum((x - 3.0) ** 2) / 8


@pytest.mark.parametrize(
    ("name", "steps"),
    [("SGLD", 100), ("SGHMC", 100), ("ReplicaExchangeSGLD", 100), ("ContourSGLD", 200)],
)
def test_a_draw_stands_for_something_where_nothing_is_said(name, steps):
    kernel = getattr(numpyro_contour, name)
    assert kernel(potential_fn=energy).settings["num_steps"] == steps
    # Who gives the step size has the authors' algorithm, a draw a step.
    assert kernel(potential_fn=energy, step_size=0.1).settings["num_steps"] == 1
    assert kernel(potential_fn=energy, num_steps=7).settings["num_steps"] == 7
    with pytest.raises(ValueError, match="`num_steps` takes an integer of at least 1"):
        kernel(potential_fn=energy, num_steps=0)


def test_nothing_but_the_kernel_gives_the_posterior_and_says_how(capsys):
    kernel = ContourSGLD(potential_fn=energy)
    mcmc = models.run(
        kernel,
        0,
        warmup=200,
        samples=300,
        chains=4,
        chain_method="vectorized",
        init_params=jnp.zeros(4),
    )
    table = az.summary(to_inference_data(mcmc), fmt="xarray", round_to="none")["z"]
    found = {str(name): float(x) for name, x in zip(table[table.dims[0]].values, table.values)}
    assert abs(found["mean"] - 3) < 4 * found["mcse_mean"] < 0.5
    assert abs(found["sd"] - 2) < 4 * found["mcse_sd"] < 0.5
    print_summary(mcmc)
    assert "Each draw stands for 200 steps (`num_steps`)." in capsys.readouterr().out
    one = jax.tree.map(lambda x: x[0], mcmc.last_state)
    assert kernel.get_diagnostics_str(one).endswith("200 steps a draw")
