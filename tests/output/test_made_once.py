"""What is computed of a run after it is computed once, however many functions ask for it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer import MCMC

from numpyro_contour import SGLD, diagnose, expectation, summary, to_inference_data
from numpyro_contour.output import groups_of_run


@pytest.fixture
def counted(monkeypatch):
    """How often each of the passes was made."""
    made = {}
    for name in ("equipartition", "gradient_along_lines", "curvature", "report_on"):
        original = getattr(groups_of_run, name)

        def counting(*args, name=name, original=original):
            made[name] = made.get(name, 0) + 1
            return original(*args)

        monkeypatch.setattr(groups_of_run, name, counting)
    return made


def finished(seed=0):
    kernel = SGLD(potential_fn=lambda x: jnp.sum(x**2) / 2, step_size=0.3, num_steps=5)
    mcmc = MCMC(
        kernel,
        num_warmup=20,
        num_samples=100,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(seed), init_params=jnp.zeros((4, 2)))
    return mcmc


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*drifts were clipped")
def test_passes_over_a_run_are_made_once(counted):
    mcmc = finished()
    first = to_inference_data(mcmc)
    for function in (to_inference_data, summary, diagnose, lambda run: expectation(run, "z")):
        function(mcmc)
    assert set(counted) == {"equipartition", "gradient_along_lines", "curvature", "report_on"}
    assert set(counted.values()) == {1}
    assert str(diagnose(mcmc)) == str(diagnose(first))
    # Of another kind of weights, or of another run, they are others.
    to_inference_data(mcmc, energy="estimate")
    assert set(counted.values()) == {2}
    mcmc.run(jax.random.key(1), init_params=jnp.zeros((4, 2)))
    to_inference_data(mcmc)
    assert set(counted.values()) == {3}


@pytest.mark.filterwarnings("ignore:.*drifts were clipped")
def test_what_is_handed_out_is_the_users_own():
    mcmc = finished()
    first = to_inference_data(mcmc)
    ratio = first["equipartition"]["ratio"].values.copy()
    first["equipartition"]["ratio"].values[:] = -1.0
    np.testing.assert_array_equal(to_inference_data(mcmc)["equipartition"]["ratio"], ratio)


def test_the_warning_comes_each_time():
    kernel = SGLD(potential_fn=lambda x: jnp.sum(x**2) / 2, step_size=1e-4, num_steps=1)
    mcmc = MCMC(kernel, num_warmup=0, num_samples=100, progress_bar=False)
    mcmc.run(jax.random.key(0), init_params=jnp.zeros(2))
    for function in (to_inference_data, to_inference_data, summary):
        with pytest.warns(UserWarning, match="This run cannot be trusted") as caught:
            function(mcmc)
        assert len(caught) == 1
