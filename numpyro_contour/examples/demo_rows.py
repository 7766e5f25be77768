"""The second half of the demo: two modes that 100,000 rows make, sampled on minibatches."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax import random

from numpyro_contour import SGLD, ContourSGLD, expectation, summary
from numpyro_contour.examples import phase_retrieval
from numpyro_contour.examples.demo_peers import Drawn, draw_csgld, draw_nuts, has_blackjax
from numpyro_contour.examples.demo_runs import Job, Result, describe_warmup, run
from numpyro_contour.runs.finished_run import FinishedRun

JOB = Job(chains=8, warmup=80, draws=300, num_steps=300)
QUICK_JOB = Job(chains=4, warmup=60, draws=100, num_steps=200)
CSGLD = "csgld of blackjax"
#: draws of NUTS in the warm-up, and as many after it: no fewer rows than the others look at
NUTS_DRAWS = 25
QUICK_NUTS_DRAWS = 10


class Row(NamedTuple):
    """What the table says of a sampler."""

    #: probability of the mode at the signal in each chain, (chains,)
    by_chain: np.ndarray
    #: how often a chain went from mode to mode between its draws, mean over chains
    crossings: float
    #: rows looked at
    rows: int
    #: seconds, including compilation
    seconds: float

    @property
    def mass(self) -> float:
        """The probability of the mode, from all chains."""
        return float(self.by_chain.mean())

    @property
    def error(self) -> float:
        """Its standard error, from the scatter of the chains."""
        return float(self.by_chain.std(ddof=1) / len(self.by_chain) ** 0.5)


class Runs(NamedTuple):
    """All runs of the second half."""

    contour: Result
    table: dict[str, Row]


def run_all(job: Job, nuts_draws: int, key: jax.Array) -> Runs:
    """All samplers on phase retrieval, with nothing given except the length of the run."""
    data = tuple(jnp.asarray(a) for a in phase_retrieval.load())
    key_ours, key_csgld, key_nuts = random.split(key, 3)
    kernels = ContourSGLD, SGLD
    with warnings.catch_warnings():
        # A report on ContourSGLD follows; the table says all of SGLD.
        warnings.filterwarnings("ignore", "This run cannot be trusted", UserWarning)
        ours = {
            kernel.__name__: run(
                kernel(phase_retrieval.model, num_steps=job.num_steps), job, key_ours, *data
            )
            for kernel in kernels
        }
    table = {name: _row(_drawn(result)) for name, result in ours.items()}
    if has_blackjax():
        table[CSGLD] = _row(draw_csgld(job, key_csgld, *data))
    table["NUTS on all rows"] = _row(draw_nuts(nuts_draws, job.chains, key_nuts, *data))
    return Runs(ours["ContourSGLD"], table)


def _drawn(result: Result) -> Drawn:
    finished = FinishedRun.of(result.mcmc)
    chains, draws = result.weights.shape
    steps = int(np.sum(finished.state.sampler.chain.steps))
    passes = int(np.sum(finished.anchors.passes)) if finished.anchors else 0
    # The weights are those at the energies over all rows.
    passes += chains * draws if finished.has_full_data_weights else 0
    rows = steps * phase_retrieval.MINIBATCH + passes * phase_retrieval.ROWS
    return Drawn(np.asarray(result.samples["w"]), result.weights, rows, result.seconds)


def _row(drawn: Drawn) -> Row:
    of_mode = phase_retrieval.has_sign_of_signal(drawn.w)
    by_chain = (drawn.weights * of_mode).mean(1) / drawn.weights.mean(1)
    crossings = np.abs(np.diff(of_mode.astype(int), axis=1)).sum(1).mean()
    return Row(by_chain, float(crossings), drawn.rows, drawn.seconds)


def describe(job: Job, runs: Runs) -> str:
    """The table of all samplers, and what the warm-up of ContourSGLD found."""
    anchors = FinishedRun.of(runs.contour.mcmc).anchors
    placed = int((np.asarray(anchors.slots.weight)[0] > 0).sum()) if anchors else 0
    warmup = f"{describe_warmup(runs.contour.mcmc)},\nand {placed} anchors for the control variate"
    return f"{describe_table(job, runs.table)}\n\n{warmup}"


def describe_table(job: Job, table: dict[str, Row]) -> str:
    """The table of all samplers, and what its columns are."""
    exact = phase_retrieval.exact_mass()
    share = phase_retrieval.MINIBATCH / phase_retrieval.ROWS
    lines = [
        f"Phase retrieval: {phase_retrieval.ROWS:,} rows make two modes, minibatches of "
        f"{phase_retrieval.MINIBATCH} rows ({share:.1%})",
        f"{job.chains} chains of {job.gradients:,} steps each, from random places; the probability "
        "of the mode at the signal",
        "",
        f"{'':20}{'P(mode)':>9}{'error':>8}{'off, a chain':>14}{'crossings':>11}{'rows':>12}"
        f"{'seconds':>9}",
        f"{'exact':20}{exact:9.3f}",
    ]
    for name, row in table.items():
        off = np.abs(row.by_chain - exact).mean()
        lines.append(
            f"{name:20}{row.mass:9.3f}{row.error:8.3f}{off:14.3f}{row.crossings:11.1f}"
            f"{row.rows / 1e6:10.0f} M{row.seconds:9.1f}"
        )
    lines += [
        "",
        "error: standard error from the scatter of the chains",
        "off, a chain: mean distance of a single chain's P from the exact one",
        "crossings: from mode to mode, per chain; without any, P only says where chains began",
        "rows: looked at, those of anchors and weights included; seconds: with compilation",
    ]
    if CSGLD not in table:
        lines.append(
            "csgld of blackjax is left out, since blackjax is not installed: "
            "`pip install 'numpyro_contour[demo]'`."
        )
    return "\n".join(lines)


def describe_file(idata: Any) -> str:
    """The signal and the mode's probability by the file of weighted draws."""
    mass = expectation(idata, lambda p: phase_retrieval.has_sign_of_signal(p["w"]))
    noise = np.asarray(idata["weighted_sample_stats"]["energy_noise"])
    with pd.option_context("display.width", 100, "display.max_columns", None):
        table = str(summary(idata, ["w"]))
    return (
        f"Read again from the file, by `summary` and `expectation` with weights:\n\n{table}\n\n"
        f"P(mode) = {mass.mean:.3f} +- {mass.mcse:.3f}. A minibatch moves the energy of a draw by "
        f"{np.median(noise):.2f} nats\n(median; at most {noise.max():.1f})."
    )
