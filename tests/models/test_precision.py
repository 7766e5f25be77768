import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import random
from tiers import in_third_tier

from numpyro_contour import SGLD, ContourSGLD

X = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)


def regression(X):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([3]).to_event(1))
    with numpyro.plate("rows", len(X), subsample_size=10) as idx:
        numpyro.sample("y", dist.Normal(X[idx] @ w, 1), obs=jnp.ones(len(idx)))


def mixture(X):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([2, 3]).to_event(2))
    with numpyro.plate("rows", len(X)):
        z = numpyro.sample("z", dist.Bernoulli(0.5), infer={"enumerate": "parallel"})
        numpyro.sample("y", dist.Normal((X @ w.T)[jnp.arange(40), z], 1), obs=jnp.ones(40))


def program_of(kernel, *args, start=None):
    """The program of a draw."""
    state = kernel.first_state(random.key(0), 60, start, args, {})
    return str(jax.make_jaxpr(lambda s: kernel.sample(s, args, {}))(state))


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [in_third_tier(SGLD), ContourSGLD])
def test_products_of_the_model_are_in_full_precision_unless_another_is_chosen(kernel):
    # A GPU takes ten bits of each number otherwise: means were off by .3 standard deviations.
    given = {"preconditioner": "diag", "jumps": False}
    assert program_of(kernel(regression, **given), X).count("HIGHEST") > 10
    with jax.default_matmul_precision("bfloat16"):
        assert "HIGHEST" not in program_of(kernel(regression, **given), X)


def test_those_of_a_potential_function_and_of_an_enumerated_model_are_too():
    given = {"preconditioner": "diag", "jumps": False}
    energy = lambda x: jnp.sum((X @ x) ** 2)
    assert "HIGHEST" in program_of(SGLD(potential_fn=energy, **given), start=jnp.zeros(3))
    assert "HIGHEST" in program_of(SGLD(mixture, **given), X)
