"""A finished run as one object: the same for one chain and for several, and read in one file."""

import ast
from pathlib import Path

import jax
import jax.numpy as jnp
import models
import numpy as np
import pytest

import numpyro_contour
from numpyro_contour import SGLD
from numpyro_contour.runs.finished_run import FinishedRun

ROOT = Path(numpyro_contour.__file__).parent
READERS = [ROOT / "runs" / name for name in ("finished_run.py", "jumping_run.py")]


@pytest.mark.slow
@pytest.mark.parametrize("chains", [1, 2])
def test_the_chain_is_the_first_axis(chains):
    data = models.constrained_data()
    mcmc = models.run(models.constrained_kernel("ContourSGLD"), 0, *data, chains=chains, thinning=2)
    run = FinishedRun.of(mcmc)
    assert (run.num_chains, run.num_draws, run.thinning) == (chains, 30, 2)
    assert run.state.steps.shape == run.energy_offsets.shape == (chains,)
    assert run.state.log_theta.shape == (chains, 20)
    assert run.log_flattening(run.fields["potential_energy_estimate"]).shape == (chains, 30)
    assert run.log_psi_nodes(0, run.state.log_theta).shape == (chains, 20)
    assert jax.tree.map(jnp.shape, run.like)["shares"] == (2,)
    assert all(x.shape[:2] == (chains, 30) for x in run.named_samples.values())
    assert run.per_draw("unconstrained").shape == (chains, 30, 5)
    np.testing.assert_array_equal(run.model_args[0], data[0])
    assert run.is_contour
    assert run.has_full_data_weights
    assert run.energy_estimator == "minibatch"
    assert run.kernel_name == "ContourSGLD"


def test_what_was_computed_belongs_to_one_run():
    kernel = SGLD(potential_fn=lambda x: x**2 / 2, step_size=0.1)
    mcmc = models.run(kernel, 0, init_params=jnp.array(0.0))
    FinishedRun.of(mcmc).computed["figure"] = 1
    assert FinishedRun.of(mcmc).computed == {"figure": 1}
    mcmc.run(jax.random.key(1), init_params=jnp.array(0.0))
    assert not FinishedRun.of(mcmc).computed


def attributes_of(tree):
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


OF_MCMC = {
    "_args", "_kwargs", "_states", "_last_state", "last_state", "get_samples", "get_extra_fields"
}  # fmt: skip


def test_an_mcmc_is_read_in_one_file_only():
    """The adapter of statistics/arviz_versions.py is asked these by ArviZ, and reads no MCMC.

    The demo's peers are runs of NUTS.
    """
    others = ROOT / "statistics" / "arviz_versions.py", ROOT / "examples" / "demo_peers.py"
    for path in ROOT.rglob("*.py"):
        if path not in (READERS[0], *others):
            assert not attributes_of(ast.parse(path.read_text())) & OF_MCMC, path


def test_kernels_are_asked_in_one_file_for_each_kind_of_run():
    for room in ("runs", "output", "plots", "diagnosis", "statistics", "examples"):
        for path in (ROOT / room).rglob("*.py"):
            if path not in READERS:
                assert "numpyro_contour.kernels" not in path.read_text(), path


def test_a_run_may_be_read_while_a_function_is_traced():
    kernel = SGLD(potential_fn=lambda x: x @ x / 2, step_size=0.1)
    run = FinishedRun.of(models.run(kernel, 0, init_params=jnp.ones(2)))
    traced = jax.make_jaxpr(lambda x: run.exact_energy()(x))(jnp.ones(2))
    assert [eqn.primitive.name for eqn in traced.eqns] == ["dot_general", "div"]
    assert isinstance(run.like, np.ndarray)
