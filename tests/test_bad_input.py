"""Bad calls and the errors they get: the argument's name, what it got and what it takes."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import xarray as xr
from jax import random
from numpyro.infer import MCMC, NUTS

from numpyro_contour import (
    SGHMC,
    SGLD,
    SGNHT,
    ContourSGHMC,
    ContourSGLD,
    CyclicalSGLD,
    EnergyPartition,
    ReplicaExchangeSGLD,
    epoch_schedule,
    expectation,
    predictive,
    print_summary,
    resample,
    robbins_monro,
    summary,
    to_inference_data,
    weighted_samples,
)
from numpyro_contour.diagnostics import (
    kish_share,
    normalise,
    pareto_khat,
    weighted_ess,
    weighted_eti,
    weighted_hdi,
    weighted_mcse,
    weighted_mean,
    weighted_quantile,
    weighted_sd,
)
from numpyro_contour.statistics.arviz_versions import from_datasets

PARTITION = EnergyPartition(0.0, 10.0, 5)
Y = jnp.linspace(-1.0, 1.0, 100)


def potential(x):
    return jnp.sum(x**2) / 2


def model(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y), subsample_size=10) as idx:
        numpyro.sample("y", dist.Normal(mu, 1), obs=y[idx])


def full_model(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y)) as idx:
        numpyro.sample("y", dist.Normal(mu, 1), obs=y[idx])


def two_plates(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    for name in ("left", "right"):
        with numpyro.plate(name, len(y), subsample_size=10) as idx:
            numpyro.sample(f"y_{name}", dist.Normal(mu, 1), obs=y[idx])


def latent_in_plate(y):
    with numpyro.plate("rows", len(y), subsample_size=10) as idx:
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(b, 1), obs=y[idx])


def discrete(y):
    k = numpyro.sample("k", dist.Bernoulli(0.5), infer={"enumerate": "sequential"})
    numpyro.sample("y", dist.Normal(1.0 * k, 1), obs=y[0])


def shared_discrete(y):
    """The sum over k needs every row at once."""
    k = numpyro.sample("k", dist.Bernoulli(0.5), infer={"enumerate": "parallel"})
    with numpyro.plate("rows", len(y), subsample_size=10) as idx:
        numpyro.sample("y", dist.Normal(1.0 * k, 1), obs=y[idx])


def enumerable_but_not(y):
    k = numpyro.sample("k", dist.Poisson(2.0), infer={"enumerate": "parallel"})
    numpyro.sample("y", dist.Normal(1.0 * k, 1), obs=y[0])


def summed_out(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y)) as idx:
        k = numpyro.sample("k", dist.Bernoulli(0.5), infer={"enumerate": "parallel"})
        numpyro.sample("y", dist.Normal(mu * k, 1), obs=y[idx])


def not_indexed(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y), subsample_size=10):
        numpyro.sample("y", dist.Normal(mu, 1), obs=y)


def mean_not_indexed(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y)) as idx:
        numpyro.sample("y", dist.Normal(mu * y, 1), obs=y[idx])


def contour(**arguments):
    return ContourSGLD(
        **{"potential_fn": potential, "step_size": 0.1, "partition": PARTITION, **arguments}
    )


def on_potential(kernel_class, **arguments):
    return kernel_class(**{"potential_fn": potential, "step_size": 0.1, **arguments})


def exchange(**arguments):
    return on_potential(ReplicaExchangeSGLD, **arguments)


def started(kernel, *args, init_params=None):
    return kernel.init(random.key(0), 0, init_params, args, {})


def contour_on(model, *args, init_params=None, **arguments):
    kernel = ContourSGLD(model, **{"step_size": 0.1, "partition": PARTITION, **arguments})
    return started(kernel, *args, init_params=init_params)


def with_energy(energy):
    return started(contour(energy=energy), init_params=jnp.zeros(2))


def run_of(kernel, args=(), **arguments):
    mcmc = MCMC(kernel, num_warmup=0, num_samples=3, progress_bar=False)
    mcmc.run(random.key(0), *args, **arguments)
    return mcmc


def contour_run():
    return run_of(contour(), init_params=jnp.zeros(2))


CONSTRUCTION = {
    "step size 0": (lambda: contour(step_size=0), "`step_size`", "above 0", "got 0"),
    "step size negative": (lambda: contour(step_size=-0.1), "`step_size`", "got -0.1"),
    "step size nan": (lambda: contour(step_size=float("nan")), "`step_size`", "finite", "nan"),
    "step size text": (lambda: contour(step_size="big"), "`step_size`", "'big'"),
    "preconditioner text": (lambda: contour(preconditioner="rms"), "`preconditioner`", "'rms'"),
    "preconditioner found for a step size that is given": (
        lambda: contour(preconditioner="dense", step_size=0.1),
        "`step_size`",
        "None with 'dense'",
    ),
    "preconditioner of another shape": (
        lambda: started(contour(preconditioner=jnp.ones(3)), init_params=jnp.zeros(2)),
        "`preconditioner`",
        "(3,)",
        "(2,)",
    ),
    "preconditioner not positive": (
        lambda: contour(preconditioner=jnp.array([1.0, 0.0])),
        "`preconditioner`",
        "above 0",
    ),
    "partition a tuple": (lambda: contour(partition=(0, 1, 5)), "`partition`", "(0, 1, 5)"),
    "edges out of order": (lambda: EnergyPartition(3, 1, 5), "`upper`", "got 1", "3"),
    "edges equal": (lambda: EnergyPartition(3, 3, 5), "`upper`", "got 3"),
    "edge infinite": (lambda: EnergyPartition(0, np.inf, 5), "`upper`", "finite", "inf"),
    "edge nan": (lambda: EnergyPartition(np.nan, 1, 5), "`lower`", "nan"),
    "two bins": (lambda: EnergyPartition(0, 1, 2), "`num_bins`", "at least 3", "got 2"),
    "half a bin": (lambda: EnergyPartition(0, 1, 4.5), "`num_bins`", "integer", "4.5"),
    "temperature negative": (lambda: contour(temperature=-1), "`temperature`", "got -1"),
    "contour without temperature": (lambda: contour(temperature=0), "`temperature`", "above 0"),
    "SGLD temperature negative": (
        lambda: SGLD(potential_fn=potential, step_size=0.1, temperature=-0.5),
        "`temperature`",
        "at least 0",
    ),
    "zeta negative": (lambda: contour(zeta=-0.1), "`zeta`", "at least 0", "-0.1"),
    "zeta nan": (lambda: contour(zeta=float("nan")), "`zeta`", "finite"),
    "interpolation": (lambda: contour(interpolation="cubic"), "`interpolation`", "'cubic'"),
    "random field": (lambda: contour(random_field="wl"), "`random_field`", "'csgld'", "'wl'"),
    "weight": (lambda: contour(weight="none"), "`weight`", "'piecewise'", "'none'"),
    "noise": (lambda: contour(noise="white"), "`noise`", "'averaged'", "'white'"),
    "draw": (lambda: contour(draw="first"), "`draw`", "'reservoir'", "'first'"),
    "energy": (lambda: contour(energy="exact"), "`energy`", "'minibatch'", "'exact'"),
    "one-sided": (lambda: contour(one_sided="yes"), "`one_sided`", "'yes'"),
    "multiplier bound": (lambda: contour(multiplier_bound=1.5), "`multiplier_bound`", "1.5"),
    "gain": (lambda: contour(gain=0.1), "`gain`", "function", "0.1"),
    "gain exponent": (lambda: robbins_monro(10, 0.4, 100), "`exponent`", "(0.5, 1]", "0.4"),
    "gain maximum": (lambda: robbins_monro(10, 0.8, 100, 2.0), "`maximum`", "(0, 1]", "2.0"),
    "gain scale": (lambda: robbins_monro(0, 0.8, 100), "`scale`", "above 0"),
    "no steps": (lambda: contour(num_steps=0), "`num_steps`", "at least 1", "got 0"),
    "steps and a half": (lambda: contour(num_steps=1.5), "`num_steps`", "1.5"),
    "steps True": (lambda: contour(num_steps=True), "`num_steps`", "True"),
    "neither": (lambda: ContourSGLD(step_size=0.1), "`model`", "`potential_fn`", "neither"),
    "both": (lambda: SGLD(model, potential_fn=potential, step_size=0.1), "both"),
    "model not callable": (lambda: SGLD("model", step_size=0.1), "`model`", "'model'"),
    "minibatch 0": (
        lambda: SGLD(model, step_size=0.1, minibatch_size=0),
        "`minibatch_size`",
        "got 0",
    ),
    "minibatch of a plate 0": (
        lambda: SGLD(model, step_size=0.1, minibatch_size={"rows": 0}),
        "minibatch_size['rows']",
        "got 0",
    ),
    "minibatch of a potential": (
        lambda: contour(minibatch_size=10),
        "`minibatch_size`",
        "`potential_fn`",
    ),
    "init strategy": (lambda: contour(init_strategy=3), "`init_strategy`", "got 3"),
    "rho negative": (lambda: contour(rho=-1.0), "`rho`", "at least 0", "got -1.0"),
    "rho infinite": (lambda: contour(rho=np.inf), "`rho`", "finite number", "inf"),
    "theta of another length": (
        lambda: contour(theta=[0.5, 0.5]),
        "`theta`",
        "5 finite numbers",
        "`partition`",
        "shape (2,)",
    ),
    "theta a number": (lambda: contour(theta=0.2), "`theta`", "5 finite numbers", "shape ()"),
    "theta of chains": (lambda: contour(theta=np.ones((2, 5))), "`theta`", "shape (2, 5)"),
    "theta with a zero": (
        lambda: contour(theta=[0.2] * 4 + [0.0]),
        "`theta`",
        "above 0",
        "got 0.0 in bin 4",
    ),
    "theta nan": (lambda: contour(theta=[0.2] * 4 + [np.nan]), "`theta`", "got nan in bin 4"),
    "theta text": (lambda: contour(theta="flat"), "`theta`", "'flat'"),
    "theta without partition": (
        lambda: contour(theta=np.ones(5), partition=None),
        "`partition`",
        "where `theta` is given",
        "got None",
    ),
    "temperature schedule from 0": (
        lambda: contour(temperature=lambda count: 0.0 * count),
        "`temperature`",
        "starts above 0",
        "starts at 0.0",
    ),
    "temperature schedule nan": (
        lambda: contour(temperature=lambda count: jnp.nan),
        "`temperature`",
        "starts at nan",
    ),
    "rmsprop to be tuned": (
        lambda: contour(preconditioner="rmsprop", step_size=None),
        "`step_size`",
        "'rmsprop'",
        "got None",
    ),
    "curvature without rmsprop": (
        lambda: contour(curvature_correction=True),
        "`curvature_correction`",
        "'rmsprop'",
    ),
    "curvature no boolean": (
        lambda: contour(preconditioner="rmsprop", curvature_correction=1),
        "`curvature_correction`",
        "True or False",
    ),
    "momentum 1": (lambda: on_potential(SGHMC, momentum=1.0), "`momentum`", "[0, 1)", "1.0"),
    "momentum text": (lambda: on_potential(ContourSGHMC, momentum="a"), "`momentum`", "'a'"),
    "momentum and friction": (
        lambda: on_potential(SGHMC, momentum=0.9, friction=1.0),
        "`momentum`",
        "`friction`",
    ),
    "friction 0": (lambda: on_potential(SGHMC, friction=0.0), "`friction`", "above 0"),
    "thermostat without momentum": (
        lambda: on_potential(SGNHT, momentum=0.0),
        "`momentum`",
        "above 0",
    ),
    "thermostat with friction": (
        lambda: on_potential(SGNHT, friction=1.0),
        "`friction`",
        "got 1.0",
    ),
    "thermostat without temperature": (
        lambda: on_potential(SGNHT, temperature=0.0),
        "`temperature`",
        "above 0",
    ),
    "cycle of no steps": (
        lambda: on_potential(CyclicalSGLD, cycle_length=0),
        "`cycle_length`",
        "at least 1",
        "got 0",
    ),
    "cycle that only explores": (
        lambda: on_potential(CyclicalSGLD, exploration=1.0),
        "`exploration`",
        "[0, 1)",
        "1.0",
    ),
    "ladder out of order": (
        lambda: exchange(temperatures=(3.0, 1.0)),
        "`temperatures`",
        "ascending",
        "(3.0, 1.0)",
    ),
    "ladder with equals": (lambda: exchange(temperatures=(1, 1)), "`temperatures`", "(1, 1)"),
    "ladder of one": (lambda: exchange(temperatures=(1.0,)), "`temperatures`", "two or more"),
    "ladder a number": (lambda: exchange(temperatures=3.0), "`temperatures`", "got 3.0"),
    "ladder from 0": (lambda: exchange(temperatures=(0.0, 1.0)), "`temperatures`", "above 0"),
    "ladder of text": (lambda: exchange(temperatures=("a", "b")), "`temperatures`", "'a'"),
    "a temperature beside a ladder": (
        lambda: exchange(temperature=2.0),
        "`temperature`",
        "`temperatures`",
        "got 2.0",
    ),
    "swap": (lambda: exchange(swap="none"), "`swap`", "'corrected'", "'none'"),
    "swap window": (lambda: exchange(swap_window=0), "`swap_window`", "at least 1"),
    "no swaps": (lambda: exchange(swap_every=0), "`swap_every`", "at least 1"),
    "correction factor": (
        lambda: exchange(correction_factor=0.0),
        "`correction_factor`",
        "above 0",
    ),
    "epochs of no schedule": (lambda: epoch_schedule(0.1, 100, 10), "`schedule`", "function"),
    "epochs of no rows": (
        lambda: epoch_schedule(robbins_monro(), 0, 10),
        "`num_rows`",
        "at least 1",
    ),
    "epochs of large minibatches": (
        lambda: epoch_schedule(robbins_monro(), 5, 10),
        "`minibatch_size`",
        "at most",
        "got 10",
    ),
}

INIT = {
    "minibatch too large": (
        lambda: contour_on(model, Y, minibatch_size=101),
        "`minibatch_size`",
        "100",
        "'rows'",
        "got 101",
    ),
    "unknown plate": (
        lambda: contour_on(model, Y, minibatch_size={"cols": 3}),
        "`minibatch_size`",
        "'rows'",
        "'cols'",
    ),
    "int for two plates": (
        lambda: contour_on(two_plates, Y, minibatch_size=5),
        "`minibatch_size`",
        "'left'",
        "'right'",
    ),
    "minibatch without a plate": (
        lambda: contour_on(full_model, Y, energy="minibatch"),
        "`energy`",
        "'minibatch'",
    ),
    "minibatch of a function": (
        lambda: started(contour(energy="minibatch"), init_params=jnp.zeros(2)),
        "`energy`",
        "`potential_fn`",
    ),
    "latent in a subsampled plate": (
        lambda: contour_on(latent_in_plate, Y),
        "'b'",
        "'rows'",
        ".expand([N])",
    ),
    "discrete latent": (lambda: contour_on(discrete, Y), "'k'", "discrete", "enumerate"),
    "enumerated outside the plate": (lambda: contour_on(shared_discrete, Y), "'y'", "'k'", "rows"),
    "not enumerable": (lambda: contour_on(enumerable_but_not, Y), "'k'", "enumerated"),
    "observations not indexed": (
        lambda: contour_on(not_indexed, Y),
        "'y'",
        "'rows'",
        "numpyro.subsample",
    ),
    "mean not indexed": (
        lambda: contour_on(mean_not_indexed, Y, minibatch_size=10),
        "`minibatch_size`",
        "'rows'",
        "X[idx]",
    ),
    "no init_params": (lambda: started(contour()), "`init_params` must be given"),
    "init_params of another model": (
        lambda: contour_on(model, Y, init_params={"nu": jnp.zeros(())}),
        "`init_params`",
        "'mu'",
        "'nu'",
    ),
    "init_params of another shape": (
        lambda: contour_on(model, Y, init_params={"mu": jnp.zeros(3)}),
        "`init_params`",
        "(3,)",
    ),
    "init_params without an axis of chains": (
        lambda: ContourSGLD(model, step_size=0.1, partition=PARTITION).init(
            random.split(random.key(0), 3), 0, {"mu": jnp.zeros(())}, (Y,), {}
        ),
        "`init_params`",
        "3 chains along the first axis",
        "{'mu': ()}",
    ),
    "init_params no dict": (
        lambda: contour_on(model, Y, init_params=jnp.zeros(1)),
        "`init_params`",
        "'mu'",
    ),
    "one row not a number": (
        lambda: contour_on(model, jnp.zeros(10_000).at[7_654].set(jnp.nan)),
        "rows of the data",
        "NaN",
    ),
    "data not a number, no plate": (
        lambda: contour_on(full_model, Y.at[3].set(jnp.nan)),
        "chain 0",
        "not finite",
        "data",
    ),
    "infinite start": (
        lambda: contour_on(full_model, Y, init_params={"mu": jnp.array(jnp.inf)}),
        "chain 0",
        "`init_params`",
    ),
    "gradient of another shape": (
        lambda: with_energy(lambda key, x: (0.0, {"x": x})),
        "`energy`",
        "(key, z)",
    ),
    "energy not a scalar": (lambda: with_energy(lambda key, x: (x, x)), "`energy`", "(2,)"),
    "no energy": (lambda: with_energy(lambda key, x: x), "`energy`"),
}

OUTPUTS = {
    "another kernel": (
        lambda: weighted_samples(
            run_of(NUTS(potential_fn=potential), init_params=jnp.zeros(2)),
        ),
        "`mcmc`",
        "NUTS",
    ),
    "not an MCMC": (lambda: to_inference_data(3), "`mcmc`", "int"),
    "before the run": (
        lambda: weighted_samples(MCMC(contour(), num_warmup=0, num_samples=1)),
        "`mcmc`",
        "has not been run",
    ),
    "unknown theta": (lambda: weighted_samples(contour_run(), theta="last"), "`theta`", "'last'"),
    "unknown energy": (lambda: weighted_samples(contour_run(), energy="full"), "`energy`"),
    "theta of no draw": (
        lambda: to_inference_data(contour_run(), collect_theta=0),
        "`collect_theta`",
        "at least 1",
        "got 0",
    ),
    "log likelihood yes": (
        lambda: to_inference_data(contour_run(), log_likelihood="yes"),
        "`log_likelihood`",
        "'yes'",
    ),
    "log likelihood of a potential": (
        lambda: to_inference_data(contour_run(), log_likelihood=True),
        "`log_likelihood`",
        "`potential_fn`",
    ),
    "log likelihood of a sum": (
        lambda: to_inference_data(
            run_of(SGLD(summed_out, step_size=1e-4), args=(Y,)), log_likelihood=True
        ),
        "`log_likelihood`",
        "MixtureSameFamily",
    ),
    "predictions of a potential": (
        lambda: predictive(contour_run(), random.key(0)),
        "`mcmc`",
        "`potential_fn`",
    ),
    "no predictions": (
        lambda: predictive(contour_run(), random.key(0), num_samples=0),
        "`num_samples`",
        "at least 1",
    ),
    "print interval": (lambda: print_summary(contour_run(), prob=1.5), "`prob`", "1.5"),
}

DRAWS = np.zeros((2, 5))


def of_groups(log_weight=DRAWS, **groups):
    """Weighted draws as they are read from a file."""
    dataset = lambda name, x: xr.Dataset({name: (("chain", "draw")[: np.ndim(x)], x)})
    stats = {} if log_weight is None else {"sample_stats": dataset("log_weight", log_weight)}
    return from_datasets({"posterior": dataset("x", DRAWS)} | stats | groups)


WEIGHTED = {
    "all weights -inf": (
        lambda: normalise(np.where([[True], [False]], -np.inf, DRAWS)),
        "`log_weights`",
        "chain 0",
        "refused",
    ),
    "weight NaN": (
        lambda: weighted_mean(DRAWS, DRAWS + np.where(np.arange(5) == 3, np.nan, 0)),
        "`log_weights`",
        "nan",
        "chain 0, draw 3",
    ),
    "weight infinite": (lambda: kish_share([[0.0, np.inf]]), "`log_weights`", "inf"),
    "weights of one chain": (lambda: weighted_mean(DRAWS[0], DRAWS[0]), "`log_weights`", "(5,)"),
    "weights of no draw": (lambda: normalise(np.zeros((2, 0))), "`log_weights`", "(2, 0)"),
    "weights of text": (lambda: pareto_khat("even"), "`log_weights`", "'even'"),
    "draws of another shape": (
        lambda: weighted_sd(np.zeros((2, 6)), DRAWS),
        "`x`",
        "(2, 5)",
        "(2, 6)",
    ),
    "draws of text": (lambda: weighted_mean(np.full((2, 5), "a"), DRAWS), "`x`", "numbers"),
    "quantile above 1": (lambda: weighted_quantile(DRAWS, DRAWS, [0.5, 1.2]), "`probs`", "1.2"),
    "interval of nothing": (lambda: weighted_hdi(DRAWS, DRAWS, 0), "`prob`", "above 0"),
    "interval of too much": (lambda: weighted_eti(DRAWS, DRAWS, 1.1), "`prob`", "1.1"),
    "ess of what": (lambda: weighted_ess(DRAWS, DRAWS, "median_"), "`method`", "'bulk'"),
    "mcse of what": (lambda: weighted_mcse(DRAWS, DRAWS, "mode"), "`method`", "'mode'"),
    "which quantile": (lambda: weighted_mcse(DRAWS, DRAWS, "quantile"), "`prob`", "got None"),
    "quantile of a mean": (lambda: weighted_mcse(DRAWS, DRAWS, "mean", 0.3), "`prob`", "got 0.3"),
    "quantile 0": (lambda: weighted_ess(DRAWS, DRAWS, "quantile", 0), "`prob`", "got 0"),
    "resample NUTS": (
        lambda: resample(run_of(NUTS(potential_fn=potential), init_params=jnp.zeros(2))),
        "`mcmc`",
        "NUTS",
    ),
    "resample a number": (lambda: resample(3), "`data`", "`to_inference_data`", "int"),
    "resample without weights": (lambda: resample(of_groups(None)), "`data`", "'sample_stats'"),
    "resample another's output": (
        lambda: resample(of_groups(None, sample_stats=xr.Dataset({"lp": ("draw", [1.0])}))),
        "`data`",
        "`log_weight`",
    ),
    "resample too few weights": (
        lambda: resample(of_groups(np.zeros((2, 4)))),
        "`data`",
        "(2, 5)",
        "(2, 4)",
    ),
    "resample weights NaN": (lambda: resample(of_groups(np.full((2, 5), np.nan))), "`log_weights`"),
    "resample no weight": (lambda: summary(of_groups(np.full((2, 5), -np.inf))), "chains 0, 1"),
    "resample how": (lambda: resample(of_groups(), method="bootstrap"), "`method`", "'residual'"),
    "resample none": (lambda: resample(of_groups(), 0), "`num_samples`", "at least 1"),
    "resample seed": (lambda: resample(of_groups(), seed=-1), "`seed`", "-1"),
    "resample chains": (lambda: resample(of_groups(), keep_chains=2), "`keep_chains`", "2"),
    "expectation of what": (lambda: expectation(of_groups(), "y"), "`f`", "['x']", "'y'"),
    "expectation of another shape": (
        lambda: expectation(of_groups(), lambda draws: draws["x"].mean("draw")),
        "`f`",
        "(2, 5)",
        "(2,)",
    ),
    "expectation in no group": (
        lambda: expectation(of_groups(), "x", group="prior"),
        "`group`",
        "'posterior'",
        "'prior'",
    ),
    "summary of no group": (lambda: summary(of_groups(), group="prior"), "`group`", "'prior'"),
    "summary of what form": (lambda: summary(of_groups(), fmt="wild"), "`fmt`", "'wild'"),
}


@pytest.mark.parametrize("call", [*CONSTRUCTION, *INIT, *OUTPUTS, *WEIGHTED])
def test_the_error_says_what_to_do(call):
    function, *says = {**CONSTRUCTION, **INIT, **OUTPUTS, **WEIGHTED}[call]
    with pytest.raises(ValueError) as error:
        function()
    for text in says:
        assert text in str(error.value), f"{text!r} is not in {str(error.value)!r}"


def test_good_calls_raise_nothing():
    """The table could pass with code that refuses everything."""
    contour(step_size=lambda count: 0.1, temperature=lambda count: 1.0, gain=robbins_monro())
    contour(theta=np.ones(5), random_field="penalized", rho=0.0)
    contour_on(model, Y, minibatch_size=100)
    contour_on(two_plates, Y, minibatch_size={"left": 5})
    contour_on(full_model, Y, minibatch_size=10, energy="minibatch")
    contour_on(model, Y, init_params={"mu": jnp.zeros(())})
    with_energy(lambda key, x: (0.0, x))


@pytest.mark.slow
@pytest.mark.parametrize("kernel_class", [SGLD, ContourSGLD])
def test_where_init_is_traced_the_counters_and_a_warning_say_it(kernel_class):
    arguments = {"partition": PARTITION} if kernel_class is ContourSGLD else {}
    kernel = kernel_class(full_model, step_size=0.01, **arguments)
    mcmc = MCMC(
        kernel,
        num_warmup=0,
        num_samples=20,
        num_chains=2,
        chain_method=jax.vmap,
        progress_bar=False,
    )
    start = {"mu": jnp.array([0.0, jnp.inf])}
    mcmc.run(random.key(0), Y, init_params=start)
    np.testing.assert_array_equal(mcmc.last_state.sampler.chain.guard.refused, [0, 20])
    with pytest.warns(UserWarning, match=r"100\.0% of the steps of chain 1: moves were refused"):
        _, log_weights = weighted_samples(mcmc)
    assert np.isfinite(log_weights[0]).all()
    assert np.isneginf(log_weights[1]).all()
