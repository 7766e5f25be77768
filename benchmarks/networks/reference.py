"""A small network whose posterior NUTS can sample: which kernel predicts as it does?"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import random
from numpyro.infer import MCMC, NUTS

import numpyro_contour as nc
from benchmarks.networks.scores import agreement, scores
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.runs import driver, quiet
from benchmarks.shared.tables import markdown_table

ROWS, TEST, INPUTS, HIDDEN, CLASSES = 600, 2000, 8, 10, 3
MINIBATCH = 100
CHAINS = 8
# Of the reference, of each chain of NUTS, and of our kernels.
NUTS_DRAWS, GRADIENTS = 1000, 100_000


def data(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and classes from a network of the same form, so that classes overlap."""
    rng = np.random.default_rng(3)
    first = rng.normal(size=(INPUTS, HIDDEN))
    last = rng.normal(size=(HIDDEN, CLASSES))
    x = rng.normal(size=(rows, INPUTS))
    logits = np.tanh(x @ first) @ last
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(-1)
    return x.astype(np.float32), labels


def _weights() -> tuple[Any, Any]:
    first = numpyro.sample("first", dist.Normal(0, 1).expand([INPUTS, HIDDEN]).to_event())
    last = numpyro.sample("last", dist.Normal(0, 1).expand([HIDDEN, CLASSES]).to_event())
    return first, last


def model(x: Any, y: Any = None) -> None:
    """One hidden layer, with normal priors of the scale by which the data were made."""
    first, last = _weights()
    with numpyro.plate("rows", len(x), subsample_size=min(MINIBATCH, len(x))) as idx:
        logits = jnp.tanh(x[idx] @ first) @ last
        numpyro.sample("y", dist.Categorical(logits=logits), obs=None if y is None else y[idx])


def on_all_rows(x: Any, y: Any) -> None:
    """The model on all rows, for NUTS."""
    first, last = _weights()
    numpyro.sample("y", dist.Categorical(logits=jnp.tanh(x @ first) @ last), obs=y)


def kernels(steps: int, total: int) -> dict[str, Any]:
    """Kernels with nothing given, and with the paper's way of flattening a network."""
    by = {"num_steps": steps}
    return {
        "SGLD": nc.SGLD(model, **by),
        "SGHMC": nc.SGHMC(model, **by),
        "SGHMC, minibatch alone": nc.SGHMC(model, energy="minibatch", **by),
        "ContourSGLD": nc.ContourSGLD(model, **by),
        "ContourSGHMC": nc.ContourSGHMC(model, **by),
        "ContourSGHMC, minibatch alone": nc.ContourSGHMC(model, energy="minibatch", **by),
        "ContourSGHMC, zeta 1e6, minibatch alone": nc.ContourSGHMC(
            model, energy="minibatch", zeta=1e6, random_field="scalable", **by
        ),
        "CyclicalSGHMC": nc.CyclicalSGHMC(model, cycle_length=max(2, total // 10), **by),
        "InteractingContourSGLD": nc.InteractingContourSGLD(model, **by),
    }


def _probabilities(x: np.ndarray, draws: dict[str, np.ndarray]) -> np.ndarray:
    """Of all draws, (chains, draws, rows, classes)."""
    one = lambda first, last: jax.nn.softmax(jnp.tanh(x @ first) @ last)
    return np.asarray(jax.jit(jax.vmap(jax.vmap(one)))(draws["first"], draws["last"]), float)


def main(experiment: Experiment) -> str:
    """The section of the page."""
    nuts_draws, gradients = experiment.choose((NUTS_DRAWS, GRADIENTS), (10, 400))
    rows, test = experiment.choose((ROWS, TEST), (120, 20))
    x, y = data(rows + test)
    held, known = x[rows:], y[rows:]
    x, y = x[:rows], y[:rows]
    draws = experiment.choose(200, 10)
    steps = gradients // (2 * draws)
    chains: dict[str, np.ndarray] = {}
    weights: dict[str, np.ndarray] = {}
    faults: dict[str, str] = {}
    with quiet():
        nuts = MCMC(
            NUTS(on_all_rows),
            num_warmup=nuts_draws,
            num_samples=nuts_draws,
            num_chains=CHAINS,
            chain_method="vectorized",
            progress_bar=False,
        )
        nuts.run(random.key(0), x, y)
        chains["NUTS"] = _probabilities(held, nuts.get_samples(group_by_chain=True))
        weights["NUTS"] = np.ones(chains["NUTS"].shape[:2])
        faults["NUTS"] = ""
        for name, kernel in kernels(steps, gradients).items():
            mcmc = driver(kernel, draws, draws, CHAINS)
            mcmc.run(random.key(1), x, y)
            samples, log_weights = nc.weighted_samples(mcmc)
            chains[name] = _probabilities(held, samples)
            weights[name] = np.exp(np.asarray(log_weights, np.float64))
            found = nc.diagnose(mcmc).faults
            faults[name] = ", ".join(fault.check for fault in found) or "none"
    by_chain = {
        name: np.einsum("cd,cdrk->crk", w / w.sum(1, keepdims=True), chains[name])
        for name, w in weights.items()
    }
    truth = by_chain["NUTS"].mean(0)
    half = by_chain["NUTS"][: CHAINS // 2].mean(0), by_chain["NUTS"][CHAINS // 2 :].mean(0)
    cells = []
    for name, found in by_chain.items():
        mean = found.mean(0)
        same, distance = agreement(mean, truth) if name != "NUTS" else agreement(*half)
        alone = np.mean([agreement(one, truth)[1] for one in found])
        score = scores(mean, known)
        cells.append(
            [
                name,
                f"{100 * same:.1f}",
                f"{distance:.4f}",
                f"{alone:.4f}",
                f"{100 * score.accuracy:.1f}",
                f"{score.log_likelihood:.4f}",
                f"{score.calibration_error:.3f}",
                faults[name],
            ]
        )
    heads = ["method", "agreement, %", "TV", "TV of single chains", "accuracy, %"]
    return (
        "## Predictions of a small network\n\n"
        f"A network of one hidden layer, {INPUTS} inputs, {HIDDEN} hidden units and {CLASSES} "
        f"classes on {rows:,} rows, whose weights are made by its own prior. The reference is NUTS "
        f"on all rows, {CHAINS} chains of {nuts_draws:,} draws; its own row compares two halves of "
        f"its chains. Kernels take minibatches of {MINIBATCH} rows and {CHAINS} chains of "
        f"{gradients:,} gradients, with nothing given unless it is said. Agreement is the share of "
        f"{test:,} held-out rows with the same best class, and TV the mean total variation "
        "distance of the probabilities.\n\n"
        + markdown_table([*heads, "log likelihood", "calibration error", "faults"], cells)
    )
