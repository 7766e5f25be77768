"""Ranks of what the prior drew among draws of the posterior, one run for each data set."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import random
from numpyro.infer import MCMC, Predictive
from numpyro.infer.util import log_density

from benchmarks.calibration.models import Model, Sites
from benchmarks.shared.runs import quiet
from numpyro_contour import ContourSGLD, diagnose, resample
from numpyro_contour.output.groups_of_run import groups_of
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.statistics.arviz_versions import from_datasets

CHAINS = 4
#: draws among which the prior's draw is ranked: ranks are 0 to 99
AMONG = 99
#: the name of the quantity that the data decide: minus the log of the joint density
ENERGY = "energy"


@dataclass(frozen=True)
class Ranks:
    """The ranks of one model's quantities over all data sets."""

    #: by quantity, (data sets,)
    weighted: dict[str, list[int]]
    #: the same from draws that are taken as they come, as if they had no weights
    unweighted: dict[str, list[int]]
    #: of each data set the first check that is bad; "" where `diagnose` finds no fault
    faults: list[str]
    #: seconds of each run, without those of `diagnose`
    seconds: list[float]

    def of_faultless(self) -> dict[str, list[int]]:
        """The ranks of the runs without fault."""
        kept = [not fault for fault in self.faults]
        return {
            name: [rank for rank, keep in zip(ranks, kept) if keep]
            for name, ranks in self.weighted.items()
        }


def rank(rng: np.random.Generator, drawn: float, draws: np.ndarray) -> int:
    """How many draws are below the prior's draw; among equal ones by chance."""
    below = int(np.sum(draws < drawn))
    return int(rng.integers(below, below + np.sum(draws == drawn), endpoint=True))


def ranks_among(
    rng: np.random.Generator, drawn: dict[str, np.ndarray], draws: dict[str, np.ndarray]
) -> dict[str, int]:
    """The rank of each quantity."""
    return {name: rank(rng, float(x[0]), draws[name]) for name, x in drawn.items()}


def data_sets(model: Model, number: int) -> tuple[Sites, np.ndarray]:
    """Draws from the prior, and the data that each of them makes."""
    drawn = dict(Predictive(model.of, num_samples=number)(random.key(0), *model.inputs))
    return drawn, drawn.pop("y")


def driver(model: Model, make: Callable = ContourSGLD) -> MCMC:
    """A driver that compiles once for all data sets of a model.

    Args:
        model: the model.
        make: makes the kernel of a model. Defaults to `ContourSGLD` with nothing else given.
    """
    kernel = make(model.of, num_steps=model.num_steps, minibatch_size=model.minibatch)
    # Nobody reads the text of the progress bar, which takes as long as the draws of a small model.
    kernel.get_diagnostics_str = lambda state: ""
    # NumPyro keeps the compiled draw between runs only with its progress bar.
    return MCMC(
        kernel,
        num_warmup=model.warmup,
        num_samples=model.draws,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=True,
        jit_model_args=True,
    )


def looked_at_quickly(mcmc: MCMC) -> Any:
    """What `to_inference_data` returns, without the groups for which programs are compiled.

    Those are compiled anew for each data set, which takes several times as long as the run.
    """
    return from_datasets(groups_of(FinishedRun.of(mcmc), quickly=True))


def energies(model: Model) -> Callable[[Sites, Any], np.ndarray]:
    """Minus the log of the joint density of each draw and the data, as a compiled function."""
    density = lambda y, sites: -log_density(model.of, model.inputs, {"y": y}, sites)[0]
    return jax.jit(lambda sites, y: jax.vmap(partial(density, y))(sites))


def ranks_of(
    model: Model,
    number: int,
    make: Callable = ContourSGLD,
    said: Callable[[str], None] = print,
) -> Ranks:
    """The ranks over so many data sets.

    Args:
        model: the model.
        number: number of data sets.
        make: as for `driver`.
        said: what is called now and then with a line on how far it is.
    """
    drawn, data = data_sets(model, number)
    mcmc, energy = driver(model, make), energies(model)
    rng = np.random.default_rng(0)
    found = Ranks({}, {}, [], [])
    for n, key in enumerate(random.split(random.key(1), number)):
        y = data[n]
        began = time.perf_counter()
        with quiet(), contextlib.redirect_stderr(io.StringIO()):
            mcmc.run(key, *model.inputs, y)
            jax.block_until_ready(mcmc.last_state)
            found.seconds.append(round(time.perf_counter() - began, 3))
            idata = looked_at_quickly(mcmc)
            faults = diagnose(idata).faults
            # Each chain's weights have mean 1, so that all chains count alike.
            chosen = resample(idata, AMONG, seed=n)["posterior"]
        found.faults.append(faults[0].check if faults else "")
        every = np.linspace(0, CHAINS * model.draws - 1, AMONG).round().astype(int)
        as_they_come = mcmc.get_samples()
        of_weights = {name: np.asarray(x)[0] for name, x in chosen.data_vars.items()}
        of_prior = {name: np.asarray(drawn[name])[n : n + 1] for name in of_weights}

        def quantities(sites: Sites, y: Any = y) -> dict[str, np.ndarray]:
            return model.quantities(sites) | {ENERGY: np.asarray(energy(sites, y), np.float64)}

        truth = quantities(of_prior)
        for ranks, sites in (
            (found.weighted, of_weights),
            (found.unweighted, {name: np.asarray(as_they_come[name])[every] for name in of_prior}),
        ):
            for name, one in ranks_among(rng, truth, quantities(sites)).items():
                ranks.setdefault(name, []).append(one)
        if n % 20 == 19:
            said(f"{n + 1} of {number}, {np.median(found.seconds):.2f} s a run")
    return found
