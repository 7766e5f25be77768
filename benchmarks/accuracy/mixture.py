"""The paper's mixture: theta, means and mode masses of each variant, compared with exact ones."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from numpyro.infer import MCMC

from benchmarks.shared import runs
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import kish_of, markdown_table, mean_and_error, total_variation
from numpyro_contour import SGLD, ContourSGLD, EnergyPartition, robbins_monro
from numpyro_contour.examples import mixture

STEPS = 1_000_000
CHAINS = 10
GAIN = robbins_monro(10, 0.8, 100, maximum=1.0)
PAPER = {
    "interpolation": "backward",
    "one_sided": False,
    "multiplier_bound": None,
    "noise": "independent",
    "random_field": "csgld",
    "weight": "piecewise",
}


def run(
    kernel_class: type = ContourSGLD,
    steps: int = STEPS,
    width: float = 1.0,
    start: float = 0.0,
    num_steps: int = 100,
    **arguments: object,
) -> MCMC:
    """One run at the paper's settings: 50 bins of width 1, zeta 0.75, step size 0.1."""
    if kernel_class is ContourSGLD:
        bins = round(50 / width)
        arguments = {
            "partition": EnergyPartition(0.0, 50.0, bins),
            "gain": GAIN,
            "collect_theta": False,
            **arguments,
        }
    kernel = kernel_class(
        potential_fn=mixture.potential,
        energy=mixture.noisy_energy(),
        step_size=0.1,
        num_steps=num_steps,
        **arguments,
    )
    return runs.run(kernel, 0, steps // num_steps, CHAINS, init_params=jnp.full((CHAINS,), start))


def chain_results(mcmc: MCMC) -> dict[str, np.ndarray]:
    """Weighted mean and mass of each chain, the Kish share, and TV of theta if there is one."""
    x, weights = runs.draws_of(mcmc)
    results = {
        "mean": (weights * x).mean(1),
        "mass": (weights * (x > mixture.DIVIDE)).mean(1),
        "kish": np.array(kish_of(weights)),
        "finite": np.array(np.isfinite(x).all() and not np.isnan(weights).any()),
    }
    if hasattr(mcmc.last_state, "log_theta"):
        theta = np.exp(np.asarray(mcmc.last_state.log_theta, dtype=np.float64))
        partition = EnergyPartition(0.0, 50.0, theta.shape[-1])
        results["theta"] = total_variation(theta, mixture.exact_theta(partition))
    return results


def _row(name: str, results: dict[str, np.ndarray]) -> list[str]:
    theta = f"{results['theta'].mean():.3f}" if "theta" in results else ""
    return [
        name,
        theta,
        f"{results['mean'].mean():.3f}",
        f"{np.abs(results['mean'] - mixture.MEAN).mean():.3f}",
        mean_and_error(results["mass"]),
        f"{results['kish']:.2f}",
        "yes" if results["finite"] else "NO",
    ]


def main(experiment: Experiment) -> str:
    """The section of the page."""
    steps = experiment.choose(STEPS, 2000)
    variants: list[tuple[str, dict]] = [
        ("ContourSGLD, width 1", {}),
        ("ContourSGLD, width 0.5", {"width": 0.5}),
        ("ContourSGLD, width 0.25", {"width": 0.25}),
        ('the same, draw="last"', {"draw": "last"}),
        ("midpoint", {"interpolation": "midpoint"}),
        ("backward", {"interpolation": "backward"}),
        ("the paper's rule, width 1", PAPER),
        ("the paper's rule, width 0.5", {**PAPER, "width": 0.5}),
        ("SGLD", {"kernel_class": SGLD}),
    ]
    trapped = {"steps": 10 * steps, "start": -6.0, "num_steps": 1000, "random_field": "csgld"}
    variants.append(('random field "csgld", 1e7 steps from x = -6', trapped))
    if experiment.quick:
        variants = [variants[number] for number in (0, 6, 8)]
    rows = [
        _row(name, chain_results(run(**{"steps": steps, **arguments})))
        for name, arguments in variants
    ]
    return (
        "## The mixture 0.4 N(-6, 1) + 0.6 N(4, 1)\n\n"
        f"The partition spans 50 nats, zeta is 0.75, the step size 0.1, and the gradient noise "
        f"N(0, 0.01). All {CHAINS} chains start at 0 and run for {steps:,} steps, with "
        "`num_steps=100`. The exact mean is 0, and the exact mass of the right mode is 0.6.\n\n"
        + markdown_table(
            [
                "kernel",
                "TV of theta a chain",
                "pooled mean",
                "mean error a chain",
                "mass of the right mode",
                "Kish share",
                "all finite",
            ],
            rows,
        )
    )
