"""What a user of NUTS types: the kernel and nothing else."""

import inspect
import warnings
from typing import Any

import arviz as az
import jax
import jax.numpy as jnp
import models
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC
from tiers import in_third_tier

import numpyro_contour
from numpyro_contour import (
    SGLD,
    ContourSGLD,
    EnergyPartition,
    predictive,
    print_summary,
    to_inference_data,
)
from numpyro_contour.diagnostics import weighted_rhat
from numpyro_contour.kernels.after_run import of_each_chain


def energy(x):
    """A normal with mean 3 and standard deviation 2."""
    return jnp.sum((x - 3.0) ** 2) / 8


@pytest.mark.parametrize(
    ("name", "steps"),
    [("SGLD", 100), ("SGHMC", 100), ("ReplicaExchangeSGLD", 100), ("ContourSGLD", 200)],
)
def test_a_draw_stands_for_something_where_nothing_is_said(name, steps):
    """The most steps that are found."""
    kernel = getattr(numpyro_contour, name)
    found = kernel(potential_fn=energy)
    assert found.settings["num_steps"] == "tuned"
    assert found.parts.num_steps == steps
    # Who gives the step size has the authors' algorithm, a draw a step.
    assert kernel(potential_fn=energy, step_size=0.1).settings["num_steps"] == 1
    assert kernel(potential_fn=energy, num_steps=7).settings["num_steps"] == 7
    with pytest.raises(ValueError, match="`num_steps` takes an integer of at least 1"):
        kernel(potential_fn=energy, num_steps=0)


@pytest.mark.slow
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
    # The modes that chains know are those of all, without an axis of chains.
    one = jax.tree.map(lambda x: x[0], of_each_chain(mcmc.last_state, mcmc.num_chains))
    assert kernel.get_diagnostics_str(one).endswith("200 steps a draw")


@pytest.mark.slow
@pytest.mark.parametrize(("chains", "lengths"), [(1, (0, 1, 7)), in_third_tier(2, (7,))])
def test_a_warmup_of_any_length_is_the_shortest_that_finds_what_it_is_to_find(chains, lengths):
    """Step by step: what NumPyro does not make of it, its first draw makes."""

    def draws(num_warmup):
        start = jnp.zeros((chains, 2)) if chains > 1 else jnp.zeros(2)
        arguments = {"warmup": num_warmup, "samples": 3, "chains": chains}
        # Only chains that run together search for modes with each other.
        jumps = None if chains > 1 else False
        kernel = SGLD(potential_fn=energy, num_steps=5, jumps=jumps)
        how = {"chain_method": "vectorized", "init_params": start}
        return models.run(kernel, 0, **arguments, **how)

    expected = draws(20)
    for given in lengths:
        with pytest.warns(
            UserWarning, match=f"`num_warmup` has {given} draws?, .* {20 - given} more"
        ) as caught:
            mcmc = draws(given)
        assert caught[0].filename == models.__file__  # where `mcmc.run` stands
        np.testing.assert_array_equal(mcmc.get_samples(), expected.get_samples())
        assert (np.asarray(mcmc.last_state.steps) == 23 * 5).all()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = to_inference_data(mcmc)["warmup"].attrs
        assert (found["num_warmup"], found["num_warmup_given"]) == (20, given)


# --------------------------------------------------------------------------- what is misspelt


@pytest.mark.parametrize("name", ["ContourSGLD", "SGLD", "CyclicalSGHMC", "ReplicaExchangeSGLD"])
def test_an_unknown_argument_is_named_with_the_one_that_is_meant(name):
    kernel = getattr(numpyro_contour, name)
    for wrong, right in (("num_step", "num_steps"), ("stepsize", "step_size")):
        with pytest.raises(TypeError, match=f"{name} takes no `{wrong}`. Do you mean `{right}`"):
            kernel(potential_fn=energy, **{wrong: 5})
    with pytest.raises(TypeError, match=r"no `num_chains`: it belongs to `MCMC\("):
        kernel(potential_fn=energy, num_chains=4)
    with pytest.raises(ValueError, match="`step_size` takes None to find it in the warm-up"):
        kernel(potential_fn=energy, step_size="auto")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SGLD", "ContourSGLD"])
def test_a_field_that_does_not_exist_is_named_with_those_that_do(name):
    kernel = getattr(numpyro_contour, name)(potential_fn=energy, step_size=0.1, **OWN.get(name, {}))
    mcmc = MCMC(kernel, num_warmup=0, num_samples=5, progress_bar=False)
    message = "got 'potential_energy'. Do you mean `potential_energy_estimate`? There are .* steps"
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        mcmc.run(jax.random.key(0), init_params=jnp.zeros(2), extra_fields=("potential_energy",))
    mcmc.run(jax.random.key(0), init_params=jnp.zeros(2), extra_fields=("steps", "sampler.chain"))
    assert mcmc.get_extra_fields()["steps"].shape == (5,)


@pytest.mark.parametrize("name", ["SGLD", "ContourSGLD"])
def test_the_fields_that_stand_for_those_of_hmc(name):
    """As docs/nuts.md names them: a counter grows by what HMC tells of a draw."""
    arguments = {"step_size": 0.1, "adjusted": True, "num_steps": 4, **OWN.get(name, {})}
    kernel = getattr(numpyro_contour, name)(potential_fn=energy, **arguments)
    fields = ("refused", "potential_energy_estimate", "steps", "moved", "step_size")
    found = models.run(
        kernel, 0, samples=5, warmup=0, init_params=jnp.zeros(2), extra_fields=fields
    ).get_extra_fields()
    assert {found[name].shape for name in fields} == {(5,)}
    np.testing.assert_array_equal(found["steps"], 4 * np.arange(1, 6))
    assert (np.diff(found["moved"], prepend=0) <= 4).all()
    assert found["moved"][-1] > 0


OWN = {"ContourSGLD": {"partition": EnergyPartition(0.0, 10.0, 5)}}


def test_a_kernel_and_the_package_show_what_they_have():
    shown = repr(ContourSGLD(potential_fn=energy, zeta=0.6, temperature=2.0))
    assert shown.startswith("ContourSGLD(potential_fn, step_size='tuned', ")
    assert "num_steps='tuned'" in shown
    assert "zeta=0.6" in shown
    assert "temperature=2," in shown
    assert {"ContourSGLD", "diagnose", "plots"} <= set(dir(numpyro_contour))
    assert "kernels" not in dir(numpyro_contour)


@pytest.mark.parametrize("name", numpyro_contour.__all__)
def test_an_editor_is_told_what_a_function_returns(name):
    function = getattr(numpyro_contour, name)
    if inspect.isfunction(function):
        assert function.__annotations__["return"] not in ("Any", Any)


@pytest.mark.slow
def test_entries_that_are_always_the_same_have_no_r_hat_in_the_table(capsys):
    """Above the diagonal of a Cholesky factor stand zeros, and its first entry is 1."""

    def correlations():
        numpyro.sample("factor", dist.LKJCholesky(3, 2.0))

    kernel = SGLD(correlations, step_size=0.1)
    print_summary(models.run(kernel, 0, samples=50, chains=2, chain_method="vectorized"))
    rows = [line.split() for line in capsys.readouterr().out.split("\n") if "factor[" in line]
    constant = {name for name, *_, r_hat in rows if r_hat == "nan"}
    assert constant == {f"factor[{i}]" for i in ("0,0", "0,1", "0,2", "1,2")}
    assert len(rows) == 9


def test_what_is_constant_but_for_rounding_has_no_r_hat():
    rng = np.random.default_rng(0)
    x = np.stack([rng.normal(size=(4, 100)), 1 + 1e-7 * rng.integers(0, 2, (4, 100))], -1)
    found = weighted_rhat(x.astype(np.float32), np.zeros((4, 100)))
    assert found[0] == pytest.approx(1, abs=0.05)
    assert np.isnan(found[1])
    # In double precision these are draws.
    assert np.isfinite(weighted_rhat(x, np.zeros((4, 100)))[1])


def test_predictions_without_the_models_arguments_say_which():
    def model(x, y=None):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mu * x, 1), obs=y)

    mcmc = models.run(SGLD(model, step_size=0.1), 0, jnp.ones(3), jnp.ones(3), samples=5)
    with pytest.raises(ValueError, match=r"`model_args` takes .* missing a required argument: 'x'"):
        predictive(mcmc, jax.random.key(0))


@pytest.mark.slow
def test_arviz_is_imported_when_a_run_is_looked_at(run_python):
    """It takes longer to import than all else."""
    code = """
import sys, numpyro_contour
print([name for name in ("arviz", "xarray", "pandas", "matplotlib") if name in sys.modules])
from numpyro_contour import *
print("arviz" in sys.modules, set(numpyro_contour.__all__) <= set(globals()))
"""
    assert run_python(code).split("\n")[:2] == ["[]", "True True"]
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = numpyro_contour.nothing
