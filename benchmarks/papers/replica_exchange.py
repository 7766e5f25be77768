"""The slides of reSGLD: naive against corrected swaps, and the price of a correction."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from matplotlib.figure import Figure
from numpyro.infer import MCMC
from scipy import stats

from benchmarks.papers.harness import Experiment
from benchmarks.papers.nine_modes import larger
from benchmarks.tables import markdown_table, total_variation
from numpyro_contour import SGLD, ReplicaExchangeSGLD
from numpyro_contour.diffusions import langevin
from numpyro_contour.samplers.replica_exchange import replica_exchange
from numpyro_contour.schedules import Constant
from numpyro_contour.window import run_window

SEED = 0
CHAINS = 20
#: steps between the positions that are kept
THINNING = 10
#: steps of the paths in the figure
SHOWN = 10_000
#: from the authors' script
STEP_SIZE = 0.03
LADDER = (1.0, 10.0)
GRADIENT_SD = 0.1
#: noise of energies and gradients falls as 1 / n from what the script has at this n
MINIBATCH = 100
NAIVE = math.inf

Energy = Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]


@dataclass(frozen=True)
class Mixture:
    """0.4 N(left, 0.7^2) + 0.6 N(right, 0.5^2)."""

    left: float
    right: float
    mass: float = 0.4
    left_sd: float = 0.7
    right_sd: float = 0.5

    @property
    def divide(self) -> float:
        """A point between the modes."""
        return 0.5 * (self.left + self.right)

    def __str__(self) -> str:
        return (
            f"{self.mass:g} N({self.left:g}, {self.left_sd:g}^2) + "
            f"{1 - self.mass:g} N({self.right:g}, {self.right_sd:g}^2)"
        )

    @property
    def edges(self) -> np.ndarray:
        """Bins of a fifth, far beyond the modes."""
        return np.linspace(
            self.left - 3, self.right + 3, round(5 * (self.right - self.left + 6)) + 1
        )

    @property
    def left_mass(self) -> float:
        """The exact probability left of the divide."""
        return float(self.cdf(np.array(self.divide)))

    def cdf(self, x: np.ndarray) -> np.ndarray:
        """The distribution function."""
        left = stats.norm.cdf(x, self.left, self.left_sd)
        return self.mass * left + (1 - self.mass) * stats.norm.cdf(x, self.right, self.right_sd)

    def density(self, x: np.ndarray) -> np.ndarray:
        """The density."""
        left = stats.norm.pdf(x, self.left, self.left_sd)
        return self.mass * left + (1 - self.mass) * stats.norm.pdf(x, self.right, self.right_sd)

    def bins(self) -> np.ndarray:
        """The exact probability of each bin; the outermost hold what is beyond."""
        inner = self.cdf(self.edges[1:-1])
        return np.diff(np.concatenate([[0.0], inner, [1.0]]))

    def histogram(self, x: np.ndarray) -> np.ndarray:
        """Shares of draws (..., draws) in the bins."""
        place = np.searchsorted(self.edges[1:-1], x, side="right")
        number = len(self.edges) - 1
        rows = [
            np.bincount(row, minlength=number) / row.size for row in place.reshape(-1, x.shape[-1])
        ]
        return np.stack(rows).reshape(*x.shape[:-1], number)

    def potential(self, x: jax.Array) -> jax.Array:
        """The potential energy of x, ()."""
        left = math.log(self.mass / self.left_sd) - 0.5 * ((x - self.left) / self.left_sd) ** 2
        right = math.log((1 - self.mass) / self.right_sd)
        right -= 0.5 * ((x - self.right) / self.right_sd) ** 2
        return 0.5 * math.log(2 * math.pi) - jnp.logaddexp(left, right)


def noisy(mixture: Mixture, noise: Callable[[jax.Array], jax.Array], gradient_sd: object) -> Energy:
    """Potential energy with a given noise and gradient with normal noise."""

    def energy(key: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        key_energy, key_gradient = random.split(key)
        value, gradient = jax.value_and_grad(mixture.potential)(x)
        return value + noise(key_energy), gradient + gradient_sd * random.normal(key_gradient)

    return energy


def student(key: jax.Array) -> jax.Array:
    """Student's t with 5 degrees of freedom."""
    normals = random.normal(key, (6,))
    return normals[0] / jnp.sqrt(jnp.mean(normals[1:] ** 2))


@dataclass(frozen=True)
class Case:
    """A target of the script and the noise of its energies."""

    name: str
    mixture: Mixture
    noise: Callable[[jax.Array], jax.Array]
    variance: float


CASES = (
    Case("N(0, 4)", Mixture(-3.0, 2.0), lambda key: 2.0 * random.normal(key), 4.0),
    Case("t with 5 degrees of freedom", Mixture(-4.0, 3.0), student, 5 / 3),
)
EXACT = "reSGLD, exact energies"
#: kernels, and whether their energies are noisy
METHODS = {
    "SGLD": (SGLD, {}, True),
    "naive reSGLD": (ReplicaExchangeSGLD, {"temperatures": LADDER, "swap": "naive"}, True),
    "adaptive reSGLD": (ReplicaExchangeSGLD, {"temperatures": LADDER}, True),
    EXACT: (ReplicaExchangeSGLD, {"temperatures": LADDER}, False),
}


def run(case: Case, method: str, steps: int) -> tuple[np.ndarray, MCMC]:
    """Positions (chains, draws) and the finished run."""
    kernel_class, settings, has_noise = METHODS[method]
    noise = case.noise if has_noise else lambda key: jnp.zeros(())
    kernel = kernel_class(
        potential_fn=case.mixture.potential,
        energy=noisy(case.mixture, noise, GRADIENT_SD),
        step_size=STEP_SIZE,
        num_steps=THINNING,
        noise="independent",
        draw="last",
        **settings,
    )
    mcmc = MCMC(
        kernel,
        num_warmup=0,
        num_samples=steps // THINNING,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        mcmc.run(random.key(SEED), init_params=jnp.zeros(CHAINS))
    return np.asarray(mcmc.get_samples(group_by_chain=True), np.float64), mcmc


def crossings(x: np.ndarray, divide: float) -> np.ndarray:
    """How often each chain (..., draws) is on another side than before, in 1,000 steps."""
    changes = np.diff((x < divide).astype(int), axis=-1) != 0
    return changes.mean(-1) * 1000 / THINNING


def standard_error(values: np.ndarray) -> float:
    """Of the mean over chains."""
    return float(values.std(ddof=1) / len(values) ** 0.5)


def row(case: Case, name: str, x: np.ndarray, mcmc: MCMC) -> list[str]:
    """A line of the first table."""
    mixture = case.mixture
    shares = mixture.histogram(x)
    errors = total_variation(shares, mixture.bins())
    mass = (x < mixture.divide).mean(-1)
    rate = variance = ""
    if hasattr(mcmc.last_state, "swap_rates"):
        rate = f"{np.asarray(mcmc.last_state.swap_rates).mean():.3f}"
        variance = f"{np.asarray(mcmc.last_state.energy_variance).mean():.2f}"
    return [
        case.name,
        name,
        f"{errors.mean():.3f} +- {errors.std(ddof=1):.3f}",
        f"{total_variation(shares.mean(0), mixture.bins()):.3f}",
        f"{mass.mean():.3f} +- {standard_error(mass):.3f}",
        rate,
        variance,
        f"{crossings(x, mixture.divide).mean():.2f}",
    ]


COLOURS = {"SGLD": "tab:purple", "naive reSGLD": "tab:pink", "adaptive reSGLD": "tab:green"}


def densities(cases: tuple[Case, ...], found: dict[str, dict[str, np.ndarray]]) -> Figure:
    """Densities of all chains, and the paths of the first by naive and by adaptive swaps."""
    figure = Figure(figsize=(15, 3.4 * len(cases)), layout="constrained")
    axes = figure.subplots(len(cases), 3, squeeze=False)
    for (top, *paths), case in zip(axes, cases):
        mixture = case.mixture
        line = np.linspace(mixture.edges[0], mixture.edges[-1], 400)
        width = mixture.edges[1] - mixture.edges[0]
        top.fill_between(line, mixture.density(line), color="0.85", label="exact")
        for name, colour in COLOURS.items():
            shares = mixture.histogram(found[case.name][name]).mean(0)
            label = f"{name}, TV {total_variation(shares, mixture.bins()):.2f}"
            top.stairs(shares / width, mixture.edges, color=colour, lw=1.6, label=label)
        top.set(title=f"noise of energies {case.name}", xlabel="x", ylabel="density")
        top.set_ylim(0, 1.75 * mixture.density(line).max())
        top.legend(fontsize=9, loc="upper left")
        for axis, name in zip(paths, ("naive reSGLD", "adaptive reSGLD")):
            shown = found[case.name][name][0, : SHOWN // THINNING]
            steps = np.arange(1, len(shown) + 1) * THINNING
            axis.axhline(mixture.left, color="0.6", lw=0.8)
            axis.axhline(mixture.right, color="0.6", lw=0.8)
            axis.plot(steps, shown, color="0.8", lw=0.4, zorder=0)
            axis.plot(steps, shown, ".", ms=3, color=COLOURS[name])
            axis.set(title=f"one chain, {name}", xlabel="step", ylabel="x")
            axis.set_ylim(mixture.left - 3, mixture.right + 3)
    return figure


@dataclass(frozen=True)
class Traded:
    """What chains with one correction factor have found for each minibatch size."""

    minibatch: int
    factor: float
    #: positions, (chains, draws)
    x: np.ndarray
    #: share of swaps made, (chains,)
    rate: np.ndarray
    mixture: Mixture

    def masses(self, draws: int | None = None) -> np.ndarray:
        """The mass of the left mode in the first draws, (chains,)."""
        return (self.x[:, :draws] < self.mixture.divide).mean(-1)

    @property
    def bias(self) -> float:
        """Of the left mode's mass over all chains and steps."""
        return float(self.masses().mean() - self.mixture.left_mass)

    def error(self, draws: int | None = None) -> float:
        """The root mean square error of the left mode's mass in one chain."""
        return float(np.sqrt(((self.masses(draws) - self.mixture.left_mass) ** 2).mean()))

    @property
    def variation(self) -> float:
        """The mean total variation of the chains' histograms."""
        mixture = self.mixture
        return float(total_variation(mixture.histogram(self.x), mixture.bins()).mean())

    @property
    def crossings(self) -> float:
        """Changes of the mode in 1,000 steps."""
        return float(crossings(self.x, self.mixture.divide).mean())


def trade(case: Case, minibatches: tuple[int, ...], factor: float, steps: int) -> list[Traded]:
    """Runs with noise of variance 1 / n, for each n."""
    arguments = {"swap": "naive"} if factor == NAIVE else {"correction_factor": factor}
    ladder = tuple(Constant(tau) for tau in LADDER)
    diffusion = langevin(noise="independent")
    sampler = replica_exchange(diffusion, Constant(STEP_SIZE), ladder, **arguments)

    def chain(key: jax.Array, scale: jax.Array) -> tuple[jax.Array, jax.Array]:
        noise = lambda key: scale * case.noise(key)
        energy = noisy(case.mixture, noise, scale * GRADIENT_SD)
        key_init, key_run = random.split(key)
        state = sampler.init(key_init, jnp.zeros(()), energy)

        def body(state: object, key: jax.Array) -> tuple:
            state, window = run_window(key, state, energy, sampler, THINNING, "last")
            return state, window.draw.position

        state, x = jax.lax.scan(body, state, random.split(key_run, steps // THINNING))
        return x, state.swap_rates[0]

    keys = random.split(random.key(SEED), CHAINS)
    scales = jnp.sqrt(MINIBATCH / jnp.asarray(minibatches, float))
    every = jax.jit(jax.vmap(jax.vmap(chain, (0, None)), (None, 0)))
    x, rates = (np.asarray(found, np.float64) for found in every(keys, scales))
    return [Traded(n, factor, a, rate, case.mixture) for n, a, rate in zip(minibatches, x, rates)]


def name_of(factor: float) -> str:
    """A correction factor in words."""
    return "naive" if factor == NAIVE else f"{factor:g}"


def draws_of_equal_rows(found: list[Traded]) -> dict[int, int]:
    """How many draws cost as many rows as all of those with the smallest minibatch."""
    smallest = min(result.minibatch for result in found)
    draws = found[0].x.shape[1]
    return {result.minibatch: draws * smallest // result.minibatch for result in found}


def trade_offs(found: list[Traded]) -> Figure:
    """Swaps, changes of mode and errors by minibatch size, a line for each factor."""
    draws = draws_of_equal_rows(found)
    panels = {
        "share of swaps made": lambda r: r.rate.mean(),
        "changes of mode in 1,000 steps": lambda r: r.crossings,
        "mass of the left mode: bias": lambda r: r.bias,
        "error of a chain, equal steps": lambda r: r.error(),
        "error of a chain, equal rows": lambda r: r.error(draws[r.minibatch]),
    }
    figure = Figure(figsize=(16, 3.8), layout="constrained")
    axes = figure.subplots(1, len(panels))
    factors = sorted({result.factor for result in found})
    for axis, (title, value) in zip(axes, panels.items()):
        for position, factor in enumerate(factors):
            line = [result for result in found if result.factor == factor]
            colour = f"C{position}" if factor != NAIVE else "black"
            axis.plot(
                [result.minibatch for result in line],
                [value(result) for result in line],
                "o-",
                ms=4,
                color=colour,
                label="naive" if factor == NAIVE else f"F = {factor:g}",
            )
        axis.set_xscale("log")
        axis.set(title=title, xlabel="minibatch size n")
        axis.title.set_fontsize(10)
        axis.set_xticks(list(draws), labels=[str(n) for n in draws], minor=False)
        axis.minorticks_off()
    axes[2].axhline(0, color="0.7", lw=0.8, zorder=0)
    axes[0].legend(fontsize=9)
    return figure


def slope_claims(found: list[Traded]) -> list[list[str]]:
    """What the slides say about F and n, and whether it holds."""
    by = {(result.minibatch, result.factor): result for result in found}
    sizes = sorted({result.minibatch for result in found})
    factors = sorted({result.factor for result in found})
    low, high = factors[0], factors[-1]
    small, large = sizes[0], sizes[-1]
    draws = draws_of_equal_rows(found)
    best = {n: by[n, low].error(draws[n]) for n in sizes}
    winner = min(best, key=best.get)
    most = max(found, key=lambda result: result.rate.mean())
    least = min(found, key=lambda result: result.error())

    def span(values: list[float], digits: int) -> str:
        return f"{values[0]:.{digits}f} to {values[-1]:.{digits}f}"

    changes_f = [by[small, factor].crossings for factor in factors]
    bias_f = [abs(by[small, factor].bias) for factor in factors]
    changes_n = [by[n, low].crossings for n in sizes]
    span_f = f"from F = {name_of(low)} to {name_of(high)} at n = {small}"
    table = [
        (
            "larger F: larger acceleration",
            f"{span(changes_f, 2)} changes of mode in 1,000 steps {span_f}",
            changes_f[-1] > changes_f[0],
        ),
        (
            "larger F: lower accuracy",
            f"absolute bias of the mass {span(bias_f, 3)} {span_f}",
            bias_f[-1] > bias_f[0],
        ),
        (
            "larger n: larger acceleration",
            f"{span(changes_n, 2)} changes of mode from n = {small} to {large} at F = "
            f"{name_of(low)}",
            changes_n[-1] > changes_n[0],
        ),
        (
            "larger n: slower evaluation, so that the largest is not the best for its cost",
            f"at equal rows and F = {name_of(low)} the least error is {best[winner]:.3f} at n = "
            f"{winner}; {best[large]:.3f} at n = {large}",
            winner != large,
        ),
        (
            '"More swaps don\'t necessarily lead to better performance"',
            f"most swaps, {most.rate.mean():.3f}: error {most.error():.3f}; least error "
            f"{least.error():.3f} with {least.rate.mean():.3f}",
            most.error() > least.error(),
        ),
    ]
    return [[claim, measured, "yes" if holds else "no"] for claim, measured, holds in table]


def first_claims(
    cases: tuple[Case, ...], found: dict[str, dict[str, np.ndarray]]
) -> list[list[str]]:
    """What the slides' figure says about naive and adaptive swaps, and whether it holds."""
    table = []
    for case in cases:
        exact = case.mixture.bins()
        error, bias, spread = {}, {}, {}
        for name, x in found[case.name].items():
            mass = (x < case.mixture.divide).mean(-1)
            error[name] = total_variation(case.mixture.histogram(x), exact)
            bias[name] = mass.mean() - case.mixture.left_mass
            spread[name] = standard_error(mass)
        naive, adaptive, plain = "naive reSGLD", "adaptive reSGLD", "SGLD"

        def of(name: str, bias: dict = bias, spread: dict = spread) -> str:
            return f"{bias[name]:+.3f} +- {spread[name]:.3f}"

        table += [
            (
                f"noise {case.name}: naive swaps are biased",
                f"bias of the mass {of(naive)}",
                abs(bias[naive]) > 2 * spread[naive],
            ),
            (
                f"noise {case.name}: adaptive swaps come closer",
                f"TV a chain {error[adaptive].mean():.3f}, naive {error[naive].mean():.3f}",
                larger(error[naive], error[adaptive]),
            ),
            (
                f"noise {case.name}: adaptive swaps have no bias",
                f"bias of the mass {of(adaptive)}"
                + (f", with exact energies {of(EXACT)}" if EXACT in error else ""),
                abs(bias[adaptive]) < 2 * spread[adaptive],
            ),
            (
                f"noise {case.name}: SGLD is the worst",
                f"TV a chain {error[plain].mean():.3f}",
                larger(error[plain], error[naive]) and larger(error[plain], error[adaptive]),
            ),
        ]
    return [[claim, measured, "yes" if holds else "no"] for claim, measured, holds in table]


def main(experiment: Experiment) -> str:
    """The section, as text."""
    steps = experiment.choose(100_000, 2_000)
    cases = experiment.choose(CASES, CASES[:1])
    names = experiment.choose(list(METHODS), list(METHODS)[:3])
    found, rows = {}, []
    for case in cases:
        found[case.name] = {}
        for name in names:
            found[case.name][name], mcmc = run(case, name, steps)
            rows.append(row(case, name, found[case.name][name], mcmc))
    figure = experiment.save(
        densities(cases, found),
        "papers_replica_exchange",
        "Densities and paths of SGLD, naive and adaptive reSGLD on a mixture of two normals",
    )
    sizes = experiment.choose((25, 50, 100, 200, 400, 1600), (25, 400))
    factors = experiment.choose((1.0, 2.0, 4.0, 8.0, NAIVE), (1.0, NAIVE))
    traded = [result for factor in factors for result in trade(CASES[0], sizes, factor, steps)]
    draws = draws_of_equal_rows(traded)
    second = experiment.save(
        trade_offs(traded),
        "papers_correction_factor",
        "Swaps, changes of mode and errors by minibatch size for several correction factors",
    )
    ordered = sorted(traded, key=lambda result: (result.minibatch, result.factor))
    cells = [
        [
            str(result.minibatch),
            name_of(result.factor),
            f"{result.rate.mean():.4f}",
            f"{result.crossings:.2f}",
            f"{result.variation:.3f}",
            f"{result.bias:+.3f} +- {standard_error(result.masses()):.3f}",
            f"{result.error():.3f}",
            f"{result.error(draws[result.minibatch]):.3f}",
        ]
        for result in ordered
    ]
    case, mixture = CASES[0], CASES[0].mixture
    return (
        "## Replica exchange with noisy energies (slides of reSGLD)\n\n"
        "The slides name no settings for their figure 3. These are of the authors' script "
        "(gaoliyao/Replica_Exchange_Stochastic_Gradient_MCMC, simulation): "
        + " and ".join(f"{c.mixture} with noise {c.name} on energies" for c in cases)
        + f"; noise of sd {GRADIENT_SD:g} on gradients, learning rate {STEP_SIZE:g}, temperatures "
        f"{LADDER[0]:g} and {LADDER[1]:g}, F = 1, {steps:,} steps from 0. Ours: {CHAINS} chains, "
        f"seed {SEED}; every {THINNING}th position is kept; variances are learnt from each step, "
        "where the script looks ten times at one energy every 20 steps.\n\n"
        + figure
        + f"\nDensities of all {CHAINS} chains.\n\n"
        + markdown_table(
            [
                "noise",
                "method",
                "TV a chain",
                "TV pooled",
                f"mass of the left mode, {mixture.left_mass:.1f}",
                "share of swaps",
                "variance learnt",
                "changes of mode in 1,000 steps",
            ],
            rows,
        )
        + "\nTV: total variation of a histogram with bins of "
        f"{mixture.edges[1] - mixture.edges[0]:g}; the variances are "
        + " and ".join(f"{c.variance:.2f}" for c in cases)
        + ".\n\n"
        + "Two standard errors decide:\n\n"
        + markdown_table(["the slides", "measured", "holds"], first_claims(cases, found))
        + "\n### Correction factor and minibatch size\n\n"
        f"The first of these targets with normal noise of variance {case.variance:g} x "
        f"{MINIBATCH} / n on energies and {GRADIENT_SD**2:g} x {MINIBATCH} / n on gradients, as "
        f"minibatches of n rows have it. Error: root mean square over {CHAINS} chains of the left "
        f"mode's mass; at equal rows a chain has {steps:,} x {sizes[0]} / n steps.\n\n"
        + second
        + "\n"
        + markdown_table(
            [
                "n",
                "F",
                "share of swaps",
                "changes of mode",
                "TV a chain",
                "bias of the mass",
                "error",
                "error, equal rows",
            ],
            cells,
        )
        + "\n"
        + markdown_table(["the slides", "measured", "holds"], slope_claims(traded))
    )
