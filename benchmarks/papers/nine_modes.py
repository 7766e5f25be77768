"""Figure 3 of the paper: nine modes in two dimensions, and which methods find them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from numpyro.infer import MCMC

from benchmarks.accuracy.mixture import PAPER
from benchmarks.accuracy.nine_modes import GAIN, LOWER
from benchmarks.shared import runs
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.posteriors import of_nine
from benchmarks.shared.tables import (
    Claim,
    claims_table,
    markdown_table,
    mean_and_sd,
    total_variation,
)
from numpyro_contour import (
    SGLD,
    ContourSGLD,
    CyclicalSGLD,
    EnergyPartition,
    ReplicaExchangeSGLD,
    resample,
)
from numpyro_contour.examples import nine_modes

SEED = 0
CHAINS = 10
#: steps between the positions that are kept
THINNING = 10
# the paper's settings, section D.3 of its supplement
VARIANCE = 0.1
STEP_SIZE = 0.001
PEAK = 0.005
CYCLES = 20
LADDER = (1.0, 3.0)
PARTITION = EnergyPartition(LOWER, LOWER + 25.0, 100)
ZETA = 0.75
#: bins of the figure's densities along each coordinate
EDGES = np.linspace(-2.5, 2.5, 61)
#: a mode counts as found if it has this share of its exact mass
FOUND = 0.1
#: which of the nine modes lie in a corner
CORNERS = [0, 2, 6, 8]


@dataclass(frozen=True)
class Method:
    """A kernel and how the paper runs it."""

    kernel_class: type
    settings: dict[str, Any]
    #: share of the steps that is spent on warm-up
    warmup: float = 0.0
    #: variance of the noise of energies and gradients
    variance: float = VARIANCE

    def run(self, steps: int) -> MCMC:
        """Run all chains from the middle, for `steps` steps including warm-up."""
        kernel = self.kernel_class(
            potential_fn=nine_modes.potential,
            energy=nine_modes.noisy_energy(self.variance),
            num_steps=THINNING,
            **self.settings,
        )
        draws = steps // THINNING
        warmup = round(self.warmup * draws)
        numbers = warmup, draws - warmup, CHAINS
        return runs.run(kernel, *numbers, seed=SEED, init_params=jnp.zeros((CHAINS, 2)))


def methods(steps: int) -> dict[str, Method]:
    """The paper's four methods at its settings, and ours."""
    common = {"noise": "independent", "draw": "last", "step_size": STEP_SIZE}
    cycle = {"cycle_length": steps // CYCLES, "exploration": 0.0, "step_size": PEAK}
    contour = {"partition": PARTITION, "gain": GAIN, "zeta": ZETA}
    return {
        "SGLD": Method(SGLD, common),
        "cycSGLD": Method(CyclicalSGLD, common | cycle),
        "reSGLD": Method(ReplicaExchangeSGLD, common | {"temperatures": LADDER}),
        "CSGLD": Method(ContourSGLD, common | PAPER | contour),
        "nothing given": Method(ContourSGLD, {}, warmup=0.1),
    }


def positions(mcmc: MCMC) -> np.ndarray:
    """The draws without resampling, (chains, draws, 2)."""
    return np.asarray(mcmc.get_samples(group_by_chain=True), np.float64)


def resampled(run: Any) -> np.ndarray:
    """Draws of equal weight, (chains, draws, 2), by `resample` with all draws."""
    with runs.quiet():
        data = resample(run, seed=SEED, keep_chains=True)
    return np.asarray(data["posterior"]["z"].values, np.float64)


def exact_density() -> np.ndarray:
    """The density in the middle of each cell of the figure, (cells, cells), with integral 1."""
    middle = 0.5 * (EDGES[1:] + EDGES[:-1])
    grid = np.stack(np.meshgrid(middle, middle, indexing="ij"), -1).reshape(-1, 2)
    energy = np.asarray(jax.vmap(nine_modes.potential)(jnp.asarray(grid)), np.float64)
    density = np.exp(energy.min() - energy).reshape(len(middle), -1)
    return density / density.sum() / (EDGES[1] - EDGES[0]) ** 2


def density(x: np.ndarray) -> np.ndarray:
    """The histogram of positions (draws, 2) in the cells of the figure."""
    counts = np.histogram2d(x[:, 0], x[:, 1], [EDGES, EDGES])[0]
    return counts / len(x) / (EDGES[1] - EDGES[0]) ** 2


def modes_found(masses: np.ndarray) -> np.ndarray:
    """Which modes have at least a tenth of their exact mass, (..., 9)."""
    return masses >= FOUND * nine_modes.exact_masses().ravel()


@dataclass(frozen=True)
class Result:
    """The results of the chains of a method."""

    #: positions, (chains, draws, 2)
    x: np.ndarray
    gradients: int
    #: masses of the modes, (chains, 9)
    masses: np.ndarray = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "masses", of_nine(self.x))

    @property
    def error(self) -> np.ndarray:
        """Total variation of the masses of each chain."""
        return total_variation(self.masses, nine_modes.exact_masses().ravel())

    @property
    def number(self) -> np.ndarray:
        """Modes found by each chain."""
        return modes_found(self.masses).sum(-1)

    @property
    def corners(self) -> np.ndarray:
        """Corners found by each chain."""
        return modes_found(self.masses)[:, CORNERS].sum(-1)

    @property
    def all_nine(self) -> float:
        """Share of chains that have found all."""
        return float((self.number == 9).mean())

    def cells(self) -> list[str]:
        """A line of the table."""
        return [
            str(self.gradients),
            str(self.number[0]),
            mean_and_sd(self.number, 1),
            mean_and_sd(self.corners, 1),
            f"{self.all_nine:.1f}",
            f"{self.error[0]:.3f}",
            mean_and_sd(self.error, 3),
        ]


def larger(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether the mean of a is larger than that of b by two standard errors."""
    error = np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
    return bool(a.mean() - b.mean() > 2 * error)


def draw_figure(results: dict[str, Result]) -> Figure:
    """The exact density and that of the first chain of each method."""
    names = {
        "SGLD": "SGLD",
        "cycSGLD": "cycSGLD",
        "reSGLD": "reSGLD",
        "CSGLD, before resampling": "CSGLD, flattened",
        "CSGLD": "CSGLD, resampled",
        "nothing given, before resampling": "nothing given, flattened",
        "nothing given": "nothing given, resampled",
    }
    figure = Figure(figsize=(9.5, 5.4), layout="constrained")
    axes = figure.subplots(2, 4, sharex=True, sharey=True).ravel()
    exact = exact_density()
    panels = {"exact": exact}
    for name, title in names.items():
        result = results[name]
        text = f"{title}\nTV {result.error[0]:.2f}, found {result.number[0]}"
        panels[text] = density(result.x[0])
    norm = PowerNorm(0.5, vmin=0.0, vmax=exact.max())
    for axis, (title, values) in zip(axes, panels.items()):
        extent = (EDGES[0], EDGES[-1], EDGES[0], EDGES[-1])
        image = axis.imshow(values.T, norm=norm, origin="lower", extent=extent)
        axis.set_title(title, fontsize=10)
    for axis in axes[4:]:
        axis.set_xlabel("x(1)")
    for axis in axes[::4]:
        axis.set_ylabel("x(2)")
    figure.colorbar(image, ax=axes, label="density", shrink=0.8, extend="max")
    return figure


def claims(results: dict[str, Result], swaps: dict[str, np.ndarray]) -> list[Claim]:
    """The claims of the paper about figure 3, the measurements here, and whether they agree."""
    sgld, cyclical, replica, contour = (
        results[name] for name in ("SGLD", "cycSGLD", "reSGLD", "CSGLD")
    )
    half = results["reSGLD, half the steps"]
    noisy, quiet = swaps["noisy"], swaps["exact"]
    others = [sgld, cyclical, replica]

    def counts(result: Result) -> str:
        return f"{result.number[0]} in the figure, {mean_and_sd(result.number, 1)} in all chains"

    def error(result: Result) -> str:
        return mean_and_sd(result.error, 3)

    found = [
        (
            '"SGLD ... only identifies three modes"',
            counts(sgld),
            round(float(sgld.number.mean())) == 3,
        ),
        (
            "SGLD does not find all of them",
            f"{sgld.all_nine:.0%} of chains find nine",
            sgld.all_nine < 0.5,
        ),
        (
            '"cycSGLD has a better ability to explore"',
            f"{mean_and_sd(cyclical.number, 1)} modes a chain; SGLD {mean_and_sd(sgld.number, 1)}",
            larger(cyclical.number, sgld.number),
        ),
        (
            'cycSGLD is "still not efficient enough"',
            f"{counts(cyclical)}; TV {error(cyclical)}, CSGLD {error(contour)}",
            larger(cyclical.error, contour.error),
        ),
        (
            'reSGLD "yields a much better result" than both',
            f"TV {error(replica)}; cycSGLD {error(cyclical)}, SGLD {error(sgld)}",
            larger(cyclical.error, replica.error) and larger(sgld.error, replica.error),
        ),
        (
            'for reSGLD "it becomes difficult to estimate a few modes on the corners"',
            f"{mean_and_sd(replica.corners, 1)} of four corners found",
            bool((replica.corners < 4).mean() >= 0.5),
        ),
        (
            'there "the noisy energy estimator may hinder the swapping efficiency"',
            f"share of swaps made {noisy.mean():.3f}, with exact energies {quiet.mean():.3f}: "
            f"{1 - noisy.mean() / quiet.mean():.0%} fewer",
            larger(quiet, noisy),
        ),
        ("CSGLD identifies all nine", counts(contour), contour.all_nine == 1),
        (
            "CSGLD has the least error of the four",
            f"TV {error(contour)}; reSGLD {error(replica)}, with half the steps {error(half)}",
            all(larger(other.error, contour.error) for other in others),
        ),
    ]
    return found


def main(experiment: Experiment) -> str:
    """The section, as text."""
    steps = experiment.choose(200_000, 4_000)
    results, swaps = {}, {}
    for name, method in methods(steps).items():
        mcmc = method.run(steps)
        if method.kernel_class is ContourSGLD:
            results[f"{name}, before resampling"] = Result(positions(mcmc), 1)
            results[name] = Result(resampled(mcmc), 1)
        elif method.kernel_class is ReplicaExchangeSGLD:
            x = positions(mcmc)
            results[name] = Result(x, 2)
            half = x[:, : x.shape[1] // 2]
            results[f"{name}, half the steps"] = Result(half, 2)
            swaps["noisy"] = np.asarray(mcmc.last_state.swap_rates)[:, 0]
            quiet = replace(method, variance=0.0).run(steps)
            results[f"{name}, without noise"] = Result(positions(quiet), 2)
            swaps["exact"] = np.asarray(quiet.last_state.swap_rates)[:, 0]
        else:
            results[name] = Result(positions(mcmc), 1)
    figure = experiment.save(
        draw_figure(results),
        "papers_nine_modes",
        "Densities of nine modes, exact and by SGLD, cycSGLD, reSGLD, CSGLD and with nothing given",
    )
    verdicts = claims(results, swaps)
    held = sum(holds for _, _, holds in verdicts)
    contour, ours = results["CSGLD"], results["nothing given"]
    ours_warmup = methods(steps)["nothing given"].warmup
    return (
        "## Nine modes (figure 3 of the paper)\n\n"
        f"Chains run for {steps:,} iterations from the middle, with noise of variance {VARIANCE:g} "
        f"on energy and gradient, and with the regulariser. The learning rate is {STEP_SIZE:g} for "
        f"SGLD, reSGLD and CSGLD. cycSGLD has a cyclic cosine schedule from {PEAK:g} with {CYCLES} "
        "cycles, temperature 1, and keeps all draws. The hot replica has temperature "
        f"{LADDER[1]:g}. There are {PARTITION.num_bins} bins of {PARTITION.width:g} nats, zeta is "
        f"{ZETA:g}, and omega_k = min({GAIN.maximum:g}, {GAIN.scale:g} / (k^{GAIN.exponent:g} + "
        f"{GAIN.offset:g})). The noise is independent, and the multiplier and the weights are the "
        "paper's own. The paper does not say where the bins begin; here they begin at "
        f"{LOWER:g}. Every {THINNING}th position is kept. 'Nothing given' is `ContourSGLD` with "
        f"its defaults, with the first {ours_warmup:.0%} of the same iterations as warm-up.\n\n"
        + figure
        + "\nThe figure shows one chain of each method, with seed "
        f"{SEED}, which was fixed beforehand. TV is the total variation of the masses of the nine "
        "modes. A mode counts as found if the draws give it at least "
        f"{FOUND:g} of its exact mass.\n\n"
        + markdown_table(
            [
                "method",
                "gradients a step",
                "modes, the figure's chain",
                f"modes, {CHAINS} chains",
                "corners of 4",
                "share of chains with all nine",
                "TV, the figure's chain",
                f"TV, {CHAINS} chains",
            ],
            [[name, *result.cells()] for name, result in results.items()],
        )
        + f"\nThe table gives mean +- sd over {CHAINS} chains. The next one lists what the paper "
        "says about figure 3, where 'better' means by two standard errors; "
        f"{held} of {len(verdicts)} claims hold:\n\n"
        + claims_table(verdicts)
        + f"\nThe error of a chain is {ours.error.mean():.3f} with nothing given, and "
        f"{contour.error.mean():.3f} at the paper's settings.\n"
    )
