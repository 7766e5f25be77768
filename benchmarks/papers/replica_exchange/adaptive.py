"""Naive and adaptive swaps: the slides' figure of a mixture."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from numpyro.infer import MCMC

from benchmarks.papers.nine_modes import larger
from benchmarks.papers.replica_exchange.target import (
    CHAINS,
    GRADIENT_SD,
    LADDER,
    SEED,
    STEP_SIZE,
    THINNING,
    Case,
    changes,
    noisy,
)
from benchmarks.shared import runs
from benchmarks.shared.tables import (
    Claim,
    mean_and_error,
    mean_and_sd,
    standard_error,
    total_variation,
)
from numpyro_contour import SGLD, ReplicaExchangeSGLD

#: steps of the paths in the figure
SHOWN = 10_000


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
    start = jnp.zeros(CHAINS)
    mcmc = runs.run(kernel, 0, steps // THINNING, CHAINS, seed=SEED, init_params=start)
    return np.asarray(mcmc.get_samples(group_by_chain=True), np.float64), mcmc


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
        mean_and_sd(errors),
        f"{total_variation(shares.mean(0), mixture.bins()):.3f}",
        mean_and_error(mass),
        rate,
        variance,
        f"{changes(x, mixture.divide).mean():.2f}",
    ]


# Colours that readers with any colour vision tell apart.
COLOURS = {"SGLD": "#0072b2", "naive reSGLD": "#d55e00", "adaptive reSGLD": "#009e73"}


def densities(cases: tuple[Case, ...], found: dict[str, dict[str, np.ndarray]]) -> Figure:
    """Densities of all chains, and the paths of the first by naive and by adaptive swaps."""
    figure = Figure(figsize=(11, 3.4 * len(cases)), layout="constrained")
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
        top.set_ylim(0, 1.9 * mixture.density(line).max())
        top.legend(fontsize=9, loc="upper left", frameon=False)
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


def first_claims(cases: tuple[Case, ...], found: dict[str, dict[str, np.ndarray]]) -> list[Claim]:
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
    return table
