"""The paper's mixture: theta, means and mode masses of each variant beside the exact ones."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer import MCMC

from benchmarks.tables import markdown_table, total_variation
from numpyro_contour import SGLD, ContourSGLD, EnergyPartition, robbins_monro, weighted_samples
from numpyro_contour.diagnostics import kish_share
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
    chains: int = CHAINS,
    width: float = 1.0,
    seed: int = 0,
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
    mcmc = MCMC(
        kernel,
        num_warmup=0,
        num_samples=steps // num_steps,
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(seed), init_params=jnp.full((chains,), start))
    return mcmc


def chain_results(mcmc: MCMC) -> dict[str, np.ndarray]:
    """Weighted mean and mass of each chain, the Kish share, and TV of theta if there is one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the paper's variant has its multiplier unbounded
        x, log_weights = weighted_samples(mcmc)
    weights = np.exp(log_weights)
    x = np.asarray(x)
    results = {
        "mean": (weights * x).mean(1),
        "mass": (weights * (x > mixture.DIVIDE)).mean(1),
        "kish": np.array(kish_share(log_weights)),
        "finite": np.array(np.isfinite(x).all() and not np.isnan(log_weights).any()),
    }
    if hasattr(mcmc.last_state, "log_theta"):
        theta = np.exp(np.asarray(mcmc.last_state.log_theta, dtype=np.float64))
        partition = mcmc.sampler._partition
        results["theta"] = total_variation(theta, mixture.exact_theta(partition))
    return results


def _row(name: str, results: dict[str, np.ndarray]) -> list[str]:
    theta = f"{results['theta'].mean():.3f}" if "theta" in results else ""
    return [
        name,
        theta,
        f"{results['mean'].mean():.3f}",
        f"{np.abs(results['mean'] - mixture.MEAN).mean():.3f}",
        f"{results['mass'].mean():.3f} +- {results['mass'].std(ddof=1) / CHAINS**0.5:.3f}",
        f"{results['kish']:.2f}",
        "yes" if results["finite"] else "NO",
    ]


def main() -> str:
    """The tables, as text."""
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
    rows = [_row(name, chain_results(run(**arguments))) for name, arguments in variants]
    trapped = chain_results(run(steps=10_000_000, start=-6.0, num_steps=1000, random_field="csgld"))
    rows.append(_row('random field "csgld", 1e7 steps from x = -6', trapped))
    return (
        "## The mixture 0.4 N(-6, 1) + 0.6 N(4, 1)\n\n"
        f"50 nats of energy, zeta 0.75, step size 0.1, gradient noise N(0, 0.01), {STEPS:,} steps, "
        f"{CHAINS} chains from 0, `num_steps` 100. Exact: mean 0, mass of the right mode 0.6.\n\n"
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


if __name__ == "__main__":
    print(main())
