"""Variance-reduced swaps: energies of minibatches relative to places where all rows are known."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.minibatches.modes_of_rows.target import Target
from benchmarks.minibatches.modes_of_rows.targets import target_of
from benchmarks.shared.runs import run
from benchmarks.shared.tables import crossings, markdown_table, mean_and_error
from numpyro_contour import ReplicaExchangeSGLD

TARGETS = ("sign", "amplitude, N = 20,000")
HOT = 4.0
CHAINS = 8
#: draws of warm-up, draws that are kept, and the steps of a draw
LENGTH = (100, 300, 100)
MINIBATCH, RELATIVE, EXACT = "a minibatch alone", "relative to anchors (default)", "all rows"
#: pairs of places at which the noise of the paper's estimator is computed
_PLACES = 100


@dataclass(frozen=True)
class Outcome:
    """What a run with one estimator of the energy gave."""

    #: variance of the energies' noise that was learnt, (chains, 2)
    variance: np.ndarray
    #: share of swaps made, (chains,)
    rates: np.ndarray
    #: mass of the mode whose mass is known, (chains,)
    masses: np.ndarray
    #: changes of mode between draws, (chains,)
    crossed: np.ndarray
    #: where the colder and the hotter replica are after each draw, (2, chains, draws)
    places: np.ndarray


def outcome(target: Target, energy: str, length: tuple[int, int, int]) -> Outcome:
    """A run of replica exchange with nothing given but the temperatures."""
    exact = energy == EXACT
    model, data = (
        (target.without_noise, target.statistics) if exact else (target.model, target.columns)
    )
    warmup, draws, num_steps = length
    chosen = {"energy": "minibatch"} if energy == MINIBATCH else {}
    kernel = ReplicaExchangeSGLD(model, temperatures=(1.0, HOT), num_steps=num_steps, **chosen)
    where = ("sampler.chain.position", "sampler.hotter.position")
    mcmc = run(kernel, warmup, draws, CHAINS, *data, extra_fields=where)
    draws_of = {k: np.asarray(v) for k, v in mcmc.get_samples(group_by_chain=True).items()}
    inside = target.inside(draws_of)
    fields = mcmc.get_extra_fields(group_by_chain=True)
    places = [np.asarray(fields[name]).reshape(CHAINS, draws) for name in where]
    state = mcmc.last_state
    return Outcome(
        np.asarray(state.energy_variance, np.float64),
        np.asarray(state.swap_rates, np.float64)[:, 0],
        inside.mean(1),
        crossings(inside),
        np.stack(places),
    )


def variance_by_snapshot(target: Target, places: np.ndarray) -> float:
    r"""The mean variance of a minibatch's energy relative to the energy one draw before.

    .. math:: \frac{N^2}n \operatorname{Var}_i \bigl[u_i(x) - u_i(s)\bigr]

    Args:
        target: a target of one site and one column.
        places: positions (chains, draws); the snapshot s of each is the one before.
    """
    (site,) = target.like
    (column,) = target.columns

    @jax.jit
    def variance(x: jax.Array, s: jax.Array) -> jax.Array:
        here, there = (target.likelihood({site: a}).log_prob(column) for a in (x, s))
        return jnp.var(here - there)

    pairs = np.stack([places[:, :-1].ravel(), places[:, 1:].ravel()], 1)
    chosen = pairs[np.linspace(0, len(pairs) - 1, _PLACES).astype(int)]
    mean = np.mean([float(variance(x, s)) for s, x in chosen])
    return float(target.rows**2 / target.minibatch * mean)


HEADER = [
    *("target", "energies", "variance of the noise, cold", "hot", "share of swaps"),
    *("mass of a mode", "error of a chain", "changes of mode in 1,000 draws"),
]


def lines(name: str, quick: bool) -> tuple[list[list[str]], str]:
    """The lines of a target, and what the paper's estimator would have, in words."""
    target = target_of(name, quick)
    length = (20, 20, 20) if quick else LENGTH
    energies = (MINIBATCH, RELATIVE) if quick else (MINIBATCH, RELATIVE, EXACT)
    found = {energy: outcome(target, energy, length) for energy in energies}
    table = []
    for energy, one in found.items():
        cold, hot = (f"{v:.2g}" if v < 1e4 else f"{v:,.0f}" for v in one.variance.mean(0))
        error = np.sqrt(((one.masses - target.mass) ** 2).mean())
        crossed = 1000 * one.crossed.mean() / (length[1] - 1)
        table.append(
            [
                f"{name}, {target.mass:.3f}",
                energy,
                *((cold, hot) if energy != EXACT else ("0", "0")),
                f"{one.rates.mean():.3f}",
                mean_and_error(one.masses),
                f"{error:.3f}",
                f"{crossed:.0f}",
            ]
        )
    of_paper = partial(variance_by_snapshot, target)
    cold, hot = (of_paper(places) for places in found[RELATIVE].places)
    words = (
        f"{name}: {cold:,.0f} at the cold and {hot:,.0f} at the hot temperature, where a snapshot "
        f"is {length[2]} steps old and a pass over all rows costs as much as "
        f"{target.rows // target.minibatch} steps"
    )
    return table, words


def section(quick: bool) -> str:
    """The part of the section on energies relative to known places."""
    rows, words = [], []
    for name in TARGETS[:1] if quick else TARGETS:
        found, of_paper = lines(name, quick)
        rows += found
        words.append(of_paper)
    return (
        "### Energies relative to known places (VR-reSGLD)\n\n"
        "Deng, Feng, Karagiannis, Lin and Liang (2021) make swaps less noisy by a control variate: "
        "the energy of a minibatch relative to that of the same rows at a snapshot of the chain, "
        "where the energy of all rows is known. `ReplicaExchangeSGLD` on minibatches does this by "
        "default (`energy=None`), for swaps and gradients, with expansions of first or second "
        "order at anchors. These are two posteriors of subsampled rows whose modes come from the "
        "rows ([where they are described](minibatches.md#several-modes)), with nothing given but "
        f"the temperatures 1 and {HOT:g} and `num_steps`, {CHAINS} chains.\n\n"
        + markdown_table(HEADER, rows)
        + "\nThe variance is that of the energies' noise in square nats, as the kernel learns it. "
        "The error is the root mean square over chains. The paper's own estimator, without slopes, "
        f"would have the variances: {'; '.join(words)}. The logarithm of the chance of a swap is "
        f"lowered by {(1 - 1 / HOT) ** 2 / 2:.2g} times the sum of both variances.\n"
    )
