"""The figures of docs/diagnose.md and of the first page."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from jax import random
from numpyro.infer import MCMC, NUTS

from benchmarks.shared.experiment import Experiment
from benchmarks.shared.runs import run
from numpyro_contour import ContourSGLD, plots, to_inference_data, weighted_samples
from numpyro_contour.examples import nine_modes


def nine(draws: int) -> Any:
    """Four chains on the nine modes, with nothing given."""
    kernel = ContourSGLD(potential_fn=nine_modes.potential, num_steps=100)
    start = jnp.array([[0.0, 0.0], [1.7, 0.0], [0.0, -1.7], [1.7, 1.7]])
    return to_inference_data(run(kernel, draws // 5, draws, 4, init_params=start))


def mode(posterior: xr.Dataset) -> np.ndarray:
    """The group of the mode that each draw is in: in the middle, on an edge, or in a corner."""
    nearest = np.abs(posterior["z"].values[..., None] - np.array(nine_modes.MODE_GRID)).argmin(-1)
    return (nearest != 1).sum(-1)  # 0 in the middle, 1 at an edge, 2 in a corner


def seven_modes(x: jax.Array) -> jax.Array:
    """The potential energy of seven normals in the plane, with barriers of about 13 nats."""
    angles = jnp.arange(6) * jnp.pi / 3
    around = 3.6 * jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1)
    places = jnp.concatenate([jnp.zeros((1, 2)), around])
    shares = jnp.array([3.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0]) / 12
    squares = jnp.sum((x - places) ** 2, axis=1) / 0.35**2
    return -jax.nn.logsumexp(jnp.log(shares) - 0.5 * squares)


def trapped(length: int) -> plt.Figure:
    """A chain of NUTS and one of ContourSGLD from the same start, at equal numbers of gradients."""
    start, kept = jnp.array([3.6, 0.0]), 2000 // length
    numbers = {"num_warmup": 1000 // length, "num_samples": 10 * kept}
    nuts = MCMC(NUTS(potential_fn=seven_modes), **numbers, progress_bar=False)
    nuts.warmup(random.key(0), init_params=start, extra_fields=("num_steps",), collect_warmup=True)
    gradients = int(nuts.get_extra_fields()["num_steps"].sum())
    nuts.run(random.key(1), extra_fields=("num_steps",))
    gradients += int(nuts.get_extra_fields()["num_steps"].sum())
    of_nuts = np.asarray(nuts.get_samples())[::10]

    warmup = kept // 4
    steps = gradients // (warmup + kept)
    contour = MCMC(
        ContourSGLD(potential_fn=seven_modes, num_steps=steps),
        num_warmup=warmup,
        num_samples=kept,
        progress_bar=False,
    )
    contour.run(random.key(0), init_params=start)
    flattened, log_weights = (np.asarray(x)[0] for x in weighted_samples(contour))
    chances = jnp.exp(jnp.asarray(log_weights))
    even = random.choice(random.key(2), jnp.asarray(flattened), (kept,), p=chances)

    axis = np.linspace(-5.2, 5.2, 200)
    points = jnp.stack(jnp.meshgrid(axis, axis), axis=-1)
    energy = np.asarray(jax.vmap(jax.vmap(seven_modes))(points))
    figure, axes = plt.subplots(1, 3, figsize=(8.4, 3.7), sharey=True, layout="constrained")
    shown = {
        "NUTS": (of_nuts, "tab:red"),
        "ContourSGLD,\ndraws as they come": (flattened, "tab:orange"),
        "ContourSGLD,\ndraws by weight": (even, "tab:blue"),
    }
    for ax, (title, (draws, color)) in zip(axes, shown.items()):
        ax.contour(axis, axis, energy, levels=np.arange(0, 40, 4), colors="0.8", linewidths=0.6)
        ax.plot(*np.asarray(draws).T, ".", ms=2, color=color, alpha=0.6)
        ax.set(title=title, aspect="equal", xlabel="$x_1$", xlim=axis[[0, -1]], ylim=axis[[0, -1]])
    axes[0].set_ylabel("$x_2$")
    figure.suptitle(
        f"Seven modes, one chain each from the rightmost, {steps * (warmup + kept):,} gradients"
    )
    return figure


def main(experiment: Experiment) -> str:
    """Write all figures, and return their lines for a page."""
    plt.switch_backend("Agg")
    alternative = "Seven modes by NUTS and by ContourSGLD"
    figure = trapped(experiment.choose(1, 20))
    lines = experiment.save(figure, "trapped", alternative, dpi=125, bbox_inches=None)
    idata = nine(experiment.choose(1000, 100))
    # As wide as a page, where letters are as large as those of the text.
    drawn = {
        "energy_histogram": plots.plot_energy_histogram(idata, figsize=(7, 4)),
        "theta_trace": plots.plot_theta_trace(idata, figsize=(7, 4)),
        "energy_trace": plots.plot_energy_trace(idata, chains=[0, 1], figsize=(7, 4.2)),
        "weights": plots.plot_weights(idata, figsize=(7, 3.4)),
        "pair": plots.plot_pair(idata, figsize=(5, 5)),
        "mode_occupancy": plots.plot_mode_occupancy(idata, mode, figsize=(7, 4.2)),
        # Three panels side by side.
        "modes": plots.plot_modes(idata, figsize=(9, 3.4)),
        "dashboard": plots.plot_dashboard(idata, modes=mode),
    }
    for name, axes in drawn.items():
        figure = np.ravel(axes)[0].figure
        lines += experiment.save(figure, name, name.replace("_", " "), dpi=100)
    plt.close("all")
    return lines
