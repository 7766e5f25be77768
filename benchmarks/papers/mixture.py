"""Figures 1 and 2 of CSGLD (section 4.1): the mixture 0.4 N(-6, 1) + 0.6 N(4, 1)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax import random
from matplotlib.figure import Figure
from numpyro.infer import MCMC

from benchmarks.mixture import PAPER
from benchmarks.papers.harness import Experiment
from benchmarks.tables import markdown_table, total_variation
from numpyro_contour import SGLD, ContourSGLD, EnergyPartition, robbins_monro
from numpyro_contour.contour import Flattening, log_psi
from numpyro_contour.examples import mixture

CHAINS = 10
NUM_STEPS = 100
ZETA = 0.75
STEP_SIZE = 0.1
#: 50 subregions of 1 nat; the first of them that holds any energy is the first
PARTITION = EnergyPartition(1.0, 51.0, 50)
#: the same one lower: no position has an energy in its first bin
EMPTY_FIRST = EnergyPartition(0.0, 50.0, 50)
GAIN = robbins_monro(1, 0.6, 100)
#: Psi of the paper, equation (5), and that of this package
PAPERS_PSI = Flattening(ZETA, "backward", one_sided=False, multiplier_bound=None)
OUR_PSI = Flattening(ZETA)
PAPERS_WEIGHTS = "piecewise"
#: steps of warm-up where nothing is given
WARMUP = 100_000
#: steps of that run in all: each of them costs more
MOST = 1_000_000
#: what two standard errors do not reach counts as different
SIGNIFICANT = 2.0

# ------------------------------------------------------------------------------ what is known


def energy(x: np.ndarray, mass: float = mixture.MASS) -> np.ndarray:
    """The potential energy of a mixture with so much mass at 4, in nats, in float64."""
    left = math.log(1 - mass) - 0.5 * (x + 6) ** 2
    right = math.log(mass) - 0.5 * (x - 4) ** 2
    return 0.5 * math.log(2 * math.pi) - np.logaddexp(left, right)


def fine_grid() -> np.ndarray:
    """Positions that cover the mixtures."""
    return np.linspace(-20.0, 18.0, 400_001)


def bins_of(energies: np.ndarray, partition: EnergyPartition) -> np.ndarray:
    """The bin of each energy, from 0."""
    place = np.floor((energies - partition.lower) / partition.width)
    return np.clip(place, 0, partition.num_bins - 1).astype(int)


def exact_theta(partition: EnergyPartition, mass: float = mixture.MASS) -> np.ndarray:
    """The probability of each bin, (num_bins,), by integration."""
    energies = energy(fine_grid(), mass)
    density = np.exp(-energies)
    bins = bins_of(energies, partition)
    return np.bincount(bins, density / density.sum(), minlength=partition.num_bins)


@partial(jax.jit, static_argnames="psi")
def _log_psi(
    energies: jax.Array, log_theta: jax.Array, partition: EnergyPartition, psi: Flattening
) -> jax.Array:
    return jax.vmap(lambda u: log_psi(log_theta, u, partition, 1.0, psi).value)(energies)


def log_flattening(
    energies: np.ndarray, theta: np.ndarray, partition: EnergyPartition, psi: Flattening
) -> np.ndarray:
    r"""What flattening adds to energies, :math:`\zeta \log \Psi_\theta(u)`, at temperature 1."""
    values = _log_psi(jnp.asarray(energies), jnp.asarray(np.log(theta)), partition, psi)
    return psi.zeta * np.asarray(values, np.float64)


def flattened_energy(
    x: np.ndarray,
    theta: np.ndarray,
    partition: EnergyPartition,
    psi: Flattening,
    mass: float = mixture.MASS,
) -> np.ndarray:
    """The energy of the flattened density, up to a constant."""
    energies = energy(x, mass)
    return energies + log_flattening(energies, theta, partition, psi)


def barrier(x: np.ndarray, energies: np.ndarray) -> float:
    """How far the highest energy between the modes is above the lowest of all."""
    between = (x > -6) & (x < 4)
    return float(energies[between].max() - energies.min())


def mean_by_bin_weights(partition: EnergyPartition) -> float:
    """E[x] by the paper's weights and Psi at the exact theta, without any error of sampling."""
    x = fine_grid()
    energies, theta = energy(x), exact_theta(partition)
    own = ZETA * np.log(theta[bins_of(energies, partition)])
    density = np.exp(-energies + own - log_flattening(energies, theta, partition, PAPERS_PSI))
    return float((x * density).sum() / density.sum())


# ------------------------------------------------------------------------------------ the runs


@dataclass(frozen=True)
class Variant:
    """An algorithm of the comparison."""

    name: str
    colour: str
    settings: dict[str, Any] = field(default_factory=dict)
    kernel: Callable = ContourSGLD
    #: steps of warm-up, which count as iterations
    warmup: int = 0
    #: the most steps that it is run for: its steps cost more
    most: float = math.inf
    #: line style
    line: str = "-"

    def mcmc(self, steps: int, warmup: int = 0, num_steps: int = NUM_STEPS, **more: Any) -> MCMC:
        """A run of so many steps, still to be made."""
        kernel = self.kernel(
            potential_fn=mixture.potential,
            energy=mixture.noisy_energy(),
            **{"num_steps": num_steps, **self.settings, **more},
        )
        return MCMC(
            kernel,
            num_warmup=warmup // num_steps,
            num_samples=steps // num_steps,
            num_chains=CHAINS,
            chain_method="vectorized",
            progress_bar=False,
        )


@dataclass(frozen=True)
class Results:
    """What is kept of a run."""

    variant: Variant
    #: draws, (chains, draws), each for `NUM_STEPS` steps
    x: np.ndarray
    #: their log weights, by the theta of their own time
    log_weights: np.ndarray
    #: learnt theta, (chains, num_bins), and the exact one of each chain's partition
    theta: np.ndarray | None
    exact: np.ndarray | None

    def errors(self, times: np.ndarray) -> np.ndarray:
        """The error of E[x] after so many iterations, (chains, times); NaN where it has none."""
        draws = (times - self.variant.warmup) // NUM_STEPS
        last = self.x.shape[1]
        means = running_mean(self.x, self.log_weights)[:, np.clip(draws, 1, last) - 1]
        return np.where((draws > 0) & (draws <= last), means - mixture.MEAN, np.nan)

    @property
    def final(self) -> np.ndarray:
        """The error of E[x] at its end, (chains,)."""
        return self.errors(np.array([self.iterations]))[:, 0]

    @property
    def iterations(self) -> int:
        """How many iterations it was run for."""
        return self.variant.warmup + NUM_STEPS * self.x.shape[1]

    @property
    def crossings(self) -> np.ndarray:
        """How often successive draws of each chain are in different modes."""
        return np.abs(np.diff(self.x > mixture.DIVIDE, axis=1)).sum(1)


@dataclass(frozen=True)
class Path:
    """A stretch of the chains."""

    iterations: np.ndarray
    #: positions and gradient multipliers there, (chains, iterations)
    x: np.ndarray
    multiplier: np.ndarray

    def part(self, start: int | None, stop: int | None, every: int = 1) -> Path:
        """Some of its iterations."""
        kept = slice(start, stop, every)
        return Path(self.iterations[kept], self.x[:, kept], self.multiplier[:, kept])


def running_mean(x: np.ndarray, log_weights: np.ndarray) -> np.ndarray:
    """The weighted mean of the draws so far, (chains, draws)."""
    shifted = np.asarray(log_weights, np.float64)
    weights = np.exp(shifted - shifted.max(axis=1, keepdims=True))
    with np.errstate(invalid="ignore"):  # before the first draw with a weight there is no mean
        return np.cumsum(weights * x, axis=1) / np.cumsum(weights, axis=1)


def variants(experiment: Experiment) -> list[Variant]:
    """The algorithms of Figure 1(c), and ours beside them."""
    numbers = {"step_size": STEP_SIZE}
    contour = numbers | {
        "partition": PARTITION,
        "gain": GAIN,
        "zeta": ZETA,
        "collect_theta": False,
    }
    known = {"theta": exact_theta(PARTITION)}
    paper = PAPER | contour
    found = [
        Variant("SGLD", "0.5", numbers | {"noise": "independent"}, SGLD),
        Variant("KSGLD, the paper's", "tab:orange", paper | known, line="--"),
        Variant("CSGLD, the paper's", "tab:orange", paper),
        Variant("KSGLD, ours", "tab:blue", contour | known, line="--"),
        Variant("ContourSGLD, the same numbers", "tab:blue", contour),
    ]
    if experiment.quick:
        return found
    return [
        *found,
        Variant("CSGLD, the paper's, u_1 = 1", "tab:red", paper | {"partition": EMPTY_FIRST}),
        Variant(
            "ContourSGLD, nothing given",
            "tab:green",
            {"collect_theta": False},
            warmup=WARMUP,
            most=MOST,
        ),
    ]


def chains_from_zero() -> jax.Array:
    """Where chains start: between the modes."""
    return jnp.zeros(CHAINS)


def measure(variant: Variant, steps: int) -> Results:
    """Run an algorithm for so many steps, warm-up included."""
    mcmc = variant.mcmc(steps - variant.warmup, variant.warmup)
    mcmc.run(random.key(0), init_params=chains_from_zero())
    x = mcmc.get_samples(group_by_chain=True)
    # The energies are exact, so that these are the weights of `weighted_samples`.
    log_weights = mcmc.get_extra_fields(group_by_chain=True)["log_weight"]
    theta = exact = None
    if hasattr(mcmc.last_state, "log_theta"):
        theta = np.exp(np.asarray(mcmc.last_state.log_theta, np.float64))
        exact = _exact_of_chains(mcmc.last_state.partition)
    return Results(variant, np.asarray(x), np.asarray(log_weights), theta, exact)


def _exact_of_chains(partition: EnergyPartition) -> np.ndarray:
    """The exact theta of each chain's partition, (chains, num_bins)."""
    edges = np.stack([partition.lower, partition.upper], axis=1)
    distinct, which = np.unique(edges, axis=0, return_inverse=True)
    made = [EnergyPartition(*map(float, pair), partition.num_bins) for pair in distinct]
    return np.stack([exact_theta(one) for one in made])[which.ravel()]


def positions(results: Results, steps: int) -> Path:
    """The first draws of a run without a multiplier: each is any one of its steps."""
    x = results.x[:, : steps // NUM_STEPS]
    return Path(NUM_STEPS * np.arange(1, x.shape[1] + 1), x, np.ones_like(x))


def path(variant: Variant, steps: int, thinning: int) -> Path:
    """The positions of all chains every so many steps."""
    mcmc = variant.mcmc(steps, num_steps=thinning, draw="last")
    mcmc.run(random.key(1), init_params=chains_from_zero())
    x = np.asarray(mcmc.get_samples(group_by_chain=True))
    multiplier = mcmc.get_extra_fields(group_by_chain=True)["gradient_multiplier"]
    return Path(thinning * np.arange(1, x.shape[1] + 1), x, np.asarray(multiplier))


# ---------------------------------------------------------------------------------- the figures


def figure_1(results: list[Results], times: np.ndarray) -> Figure:
    """The flattened energy, theta, and the error over iterations."""
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.2), layout="constrained")
    theta = exact_theta(PARTITION)
    x = np.linspace(-10.5, 8.5, 2001)
    colours = plt.get_cmap("viridis")
    for zeta in (0.0, 0.25, 0.5, 0.75, 1.0):
        flat = flattened_energy(x, theta, PARTITION, replace(PAPERS_PSI, zeta=zeta))
        axes[0].plot(x, flat - flat.min(), color=colours(0.9 * zeta), label=f"zeta {zeta:g}")
    flat = flattened_energy(x, theta, PARTITION, OUR_PSI)
    axes[0].plot(x, flat - flat.min(), "k:", label=f"{ZETA:g}, our Psi")
    axes[0].set(xlabel="x", ylabel="energy, nats", title="(a) energy of the flattened density")
    axes[0].set_ylim(-0.5, 16)
    axes[0].legend(frameon=False, fontsize="small", ncols=2)

    edges = np.asarray(PARTITION.edges)
    axes[1].stairs(theta, edges, color="k", label="exact")
    learnt = [r for r in results if r.theta is not None and "theta" not in r.variant.settings]
    learnt = [r for r in learnt if r.variant.settings.get("partition") is PARTITION]
    for shift, result in zip((0.35, 0.65), learnt):
        mean, sd = result.theta.mean(0), result.theta.std(0, ddof=1)
        low = np.minimum(sd, 0.9 * mean)
        centre = edges[:-1] + shift
        style = {"fmt": ".", "color": result.variant.colour, "label": result.variant.name}
        axes[1].errorbar(centre, mean, (low, sd), **style)
    axes[1].set(
        yscale="log",
        xlim=(1, 19),
        ylim=(theta[17] / 30, 2),
        xlabel="energy, nats",
        ylabel="theta",
        title="(b) probability of each bin",
    )
    axes[1].legend(frameon=False, fontsize="small")

    for result in results:
        errors = np.abs(result.errors(times))
        mean, sd = errors.mean(0), errors.std(0, ddof=1)
        variant = result.variant
        style = {"color": variant.colour, "linestyle": variant.line, "label": variant.name}
        axes[2].plot(times, mean, **style)
        low = np.maximum(mean - sd, 0.1 * mean)
        axes[2].fill_between(times, low, mean + sd, color=variant.colour, alpha=0.12, lw=0)
    axes[2].set(
        xscale="log",
        yscale="log",
        xlabel="iterations",
        ylabel="mean |error| of E[x]",
        title="(c) error, with the sd over runs",
    )
    handles = axes[2].get_legend_handles_labels()[0]
    figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize="small")
    return figure


def figure_2(sgld: Path, early: Path, late: Path) -> Figure:
    """Sample paths and learning rates of the first chain."""
    figure, axes = plt.subplots(2, 2, figsize=(12, 7), layout="constrained")
    titles = ("(a) SGLD", "(b) early CSGLD", "(c) late CSGLD")
    for ax, stretch, title in zip(axes.flat, (sgld, early, late), titles):
        iterations, x, bouncy = stretch.iterations, stretch.x[0], stretch.multiplier[0] < 0
        ax.plot(iterations, x, color="0.6", linewidth=0.5)
        ax.plot(iterations[~bouncy], x[~bouncy], ".", color="tab:blue", markersize=2)
        if bouncy.any():
            name = "bouncy: multiplier below 0"
            ax.plot(iterations[bouncy], x[bouncy], ".", color="tab:red", markersize=4, label=name)
            ax.legend(loc="upper right", frameon=False, fontsize="small")
        ax.set(xlabel="iterations", ylabel="x", title=title, ylim=(-14, 14))
        ax.ticklabel_format(axis="x", style="plain", useOffset=False)
    ax = axes[1, 1]
    for stretch, colour, name in ((early, "tab:orange", "early"), (late, "tab:blue", "late")):
        rates = STEP_SIZE * stretch.multiplier[0]
        ax.plot(stretch.x[0], rates, ".", color=colour, markersize=3, label=name)
    low, high = ax.get_ylim()
    low = min(low, -0.02)
    ax.axhspan(low, 0, color="tab:red", alpha=0.1, lw=0)
    ax.axhline(STEP_SIZE, color="k", linestyle=":", linewidth=1, label="SGLD")
    ax.set(
        xlabel="x",
        ylabel="step size x multiplier",
        title="(d) learning rate; below 0: bouncy zone",
        ylim=(low, high + 0.15 * (high - low)),
    )
    ax.legend(frameon=False, fontsize="small", markerscale=3, ncols=3, loc="upper center")
    return figure


# ------------------------------------------------------------------------------------- in words


def _mean_and_sd(values: np.ndarray) -> str:
    if np.isnan(values).any():
        return ""
    return f"{values.mean():.3f} +- {values.std(ddof=1):.3f}"


def table(results: list[Results], decades: np.ndarray) -> str:
    """The error of E[x] at some times, and what else can be told of each run."""
    rows = []
    for result in results:
        errors = result.errors(decades)
        final = result.final
        variation = ""
        if result.theta is not None and "theta" not in result.variant.settings:
            variation = _mean_and_sd(total_variation(result.theta, result.exact))
        rows.append(
            [
                result.variant.name,
                *(_mean_and_sd(np.abs(column)) for column in errors.T),
                f"{final.mean():.3f} +- {standard_error(final):.3f}",
                variation,
                _counts(result.crossings),
            ]
        )
    header = ["algorithm", *(f"{time:,}" for time in decades)]
    return markdown_table([*header, "mean of E[x]", "TV of theta", "crossings"], rows)


def _counts(values: np.ndarray) -> str:
    return f"{values.mean():,.1f} +- {values.std(ddof=1):,.1f}"


def standard_error(values: np.ndarray) -> np.ndarray:
    """The standard error of the mean over chains."""
    return values.std(0, ddof=1) / len(values) ** 0.5


def verdict(holds: bool) -> str:
    """A claim's verdict, in words."""
    return "Holds" if holds else "Does not hold"


def catches_up(learnt: Results, known: Results, times: np.ndarray) -> tuple[int | None, float]:
    """From when on the errors of two algorithms cannot be told apart, and their last ratio."""
    times = times[times > learnt.variant.warmup]
    a, b = np.abs(learnt.errors(times)), np.abs(known.errors(times))
    apart = a.mean(0) - b.mean(0) > SIGNIFICANT * np.hypot(standard_error(a), standard_error(b))
    if apart[-1]:
        since = None
    else:
        later = np.flatnonzero(apart)
        since = int(times[later[-1] + 1 if len(later) else 0])
    return since, float(a[:, -1].mean() / b[:, -1].mean())


def as_efficient(learnt: Results, known: Results, times: np.ndarray) -> str:
    """The paper's claim on CSGLD and KSGLD, of one pair of them."""
    times = times[times <= learnt.iterations]
    since, ratio = catches_up(learnt, known, times)
    rate = learnt.crossings.mean() / learnt.iterations
    jumps = rate / max(known.crossings.mean() / known.iterations, 1e-9)
    names = f"{learnt.variant.name}, beside {known.variant.name}"
    if since is None:
        found = f"the error is still larger after {times[-1]:,} iterations"
    else:
        found = f"from {since:,} iterations on the errors cannot be told apart"
    return (
        f"- {names}: {verdict(since is not None).lower()}; {found}; at the end it is "
        f"{ratio:.2f} times that with known theta, with {jumps:.2f} times as many crossings an "
        "iteration.\n"
    )


def is_biased(result: Results) -> bool:
    """Whether the mean over runs at the end is more than two standard errors from the truth."""
    final = result.final
    return bool(abs(final.mean()) > SIGNIFICANT * standard_error(final))


def biases(results: list[Results]) -> str:
    """The bias of each algorithm at the end."""
    text = ""
    for result in results:
        final = result.final
        found = "biased" if is_biased(result) else "no bias seen"
        text += f"- {result.variant.name}: {final.mean():.3f} +- {standard_error(final):.3f}, "
        text += f"{found}.\n"
    return text


def claims(results: list[Results], times: np.ndarray) -> str:
    """Which of the paper's claims hold, and ours."""
    sgld, known, learnt, our_known, ours, *others = results
    pairs = [(learnt, known), (ours, our_known)]
    pairs += list(zip(others, (known, our_known)))
    errors = [np.abs(r.final) for r in (sgld, known)]
    stuck, free = (e.mean() for e in errors)
    slow = stuck - free > SIGNIFICANT * np.hypot(*map(standard_error, errors))
    papers = all(is_biased(r) for r in (known, learnt))
    removed = papers and not any(is_biased(r) for r in (our_known, ours))
    return (
        "'CSGLD soon becomes as efficient as KSGLD':\n\n"
        + "".join(as_efficient(a, b, times) for a, b in pairs)
        + f"\n'SGLD rarely converges' (its error still two standard errors above that of "
        "KSGLD): "
        f"{verdict(slow).lower()}. Its error after {times[-1]:,} iterations is {stuck:.2f}, "
        f"{stuck / free:.0f} times that of KSGLD; a chain crosses {sgld.crossings.mean():.1f} "
        "times.\n\n"
        "This package's Psi and weights remove the bias that the paper's leave (both of the "
        "paper's are biased, neither of ours is): "
        f"{verdict(removed).lower()}. Mean of E[x] at the end (truth {mixture.MEAN:g}), with its "
        "standard error over runs:\n\n"
        + biases(results[1:])
        + "\nWeights by bin beside the paper's continuous Psi give "
        f"{mean_by_bin_weights(PARTITION):.3f} at the exact theta by integration; what differs "
        "from that is owed to the step size, to theta and to chance.\n"
    )


def bouncy(stretch: Path) -> str:
    """The share of bouncy positions and the lowest multiplier."""
    multiplier = stretch.multiplier
    return f"{(multiplier < 0).mean():.1%} of the positions ({multiplier.min():.2f} at the least)"


def flattening_in_words() -> str:
    """The barriers of Figure 1(a)."""
    x = fine_grid()
    x = x[(x > -10) & (x < 8)]
    theta = exact_theta(PARTITION)
    flat = barrier(x, flattened_energy(x, theta, PARTITION, PAPERS_PSI))
    ours = barrier(x, flattened_energy(x, theta, PARTITION, OUR_PSI))
    empty = exact_theta(EMPTY_FIRST)
    multiplier = 1 + ZETA * (math.log(empty[1]) - math.log(max(empty[0], math.exp(-40))))
    return (
        f"The barrier of {barrier(x, energy(x)):.1f} nats becomes {flat:.1f} with zeta {ZETA:g} "
        f"by the paper's Psi ('from 12 to as small as 2') and {ours:.1f} by ours. The paper does "
        "not say what u_1 is. The lowest energy is "
        f"{energy(x).min():.2f}: with u_1 = {PARTITION.lower + 1:g} the first subregion is the "
        "first that holds anything, and theta falls from it on as in the paper's figure. With u_1 "
        f"= {EMPTY_FIRST.lower + 1:g} it holds nothing, and with its theta at the floor the "
        f"multiplier in the second would be {multiplier:.0f}.\n\n"
    )


def main(experiment: Experiment) -> str:
    """The section of the page."""
    plt.switch_backend("Agg")
    steps = experiment.choose(10_000_000, 10_000)
    decades = experiment.choose(np.array([10**4, 10**5, 10**6, 10**7]), np.array([10**3, 10**4]))
    times = np.unique(np.geomspace(1_000, steps, 81).astype(int) // NUM_STEPS * NUM_STEPS)
    results = [measure(one, int(min(steps, one.most))) for one in variants(experiment)]

    stretch = experiment.choose(100_000, 10_000)
    calm = positions(results[0], stretch)
    whole = path(results[2].variant, experiment.choose(5 * stretch, stretch), 10)
    early = whole.part(None, stretch // 100)
    late = whole.part(-experiment.choose(stretch // 10, stretch // 20), None, 10)

    one = experiment.save(figure_1(results, times), "csgld_figure_1", "Figure 1 of CSGLD")
    two = experiment.save(figure_2(calm, early, late), "csgld_figure_2", "Figure 2 of CSGLD")
    plt.close("all")
    return (
        "## A mixture of two Gaussians (CSGLD, section 4.1, Figures 1 and 2)\n\n"
        f"0.4 N(-6, 1) + 0.6 N(4, 1), temperature 1, step size {STEP_SIZE:g}, gains 1 / (k^0.6 + "
        f"100), {PARTITION.num_bins} subregions of 1 nat, gradient noise N(0, 0.01), zeta "
        f"{ZETA:g}, {steps:,} iterations, {CHAINS} runs from x = 0. KSGLD is given the exact "
        "theta. 'The paper's' are its Psi, random field and weights, and independent noise; ours "
        "the defaults at the same numbers. Each draw stands for "
        f"{NUM_STEPS} steps, of which a reservoir picks one, "
        "with their mean weight; weights are by the theta of their own time. 'Nothing given' "
        f"begins with a warm-up of {WARMUP:,} iterations and is run for {MOST:,}.\n\n"
        + flattening_in_words()
        + one
        + "\nThe absolute error of E[x] after so many iterations, mean +- standard deviation over "
        "the runs; the mean of E[x] at the end +- its standard error; the total variation of theta "
        "from the exact one; and how often successive draws are in different modes.\n\n"
        + table(results, decades)
        + "\n"
        + claims(results, times)
        + "\n"
        + two
        + "\nSample paths of the first chain, CSGLD by the paper's rule: one position "
        f"of every 100 steps, early of every 10. Multipliers below 0, of all chains: "
        f"{bouncy(early)} in the first {early.iterations[-1]:,} iterations, "
        f"{bouncy(late)} after {late.iterations[0]:,}.\n"
    )
