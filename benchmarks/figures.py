"""The figures of docs/diagnose.md: `python -m benchmarks.figures`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from jax import random
from numpyro.infer import MCMC

from numpyro_contour import ContourSGLD, plots, to_inference_data
from numpyro_contour.examples import nine_modes

FOLDER = Path(__file__).parent.parent / "docs" / "figures"


def run() -> Any:
    """Four chains on the nine modes, with nothing given."""
    kernel = ContourSGLD(potential_fn=nine_modes.potential, num_steps=100)
    mcmc = MCMC(
        kernel,
        num_warmup=200,
        num_samples=1000,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(
        random.key(0), init_params=jnp.array([[0.0, 0.0], [1.7, 0.0], [0.0, -1.7], [1.7, 1.7]])
    )
    return to_inference_data(mcmc)


def mode(posterior: xr.Dataset) -> np.ndarray:
    """Which of the nine modes each draw is in: those on an axis, in a corner, or in the middle."""
    nearest = np.abs(posterior["z"].values[..., None] - np.array(nine_modes.MODE_GRID)).argmin(-1)
    return (nearest != 1).sum(-1)  # 0 in the middle, 1 at an edge, 2 in a corner


def main() -> None:
    """Write them all."""
    plt.switch_backend("Agg")
    FOLDER.mkdir(exist_ok=True)
    idata = run()
    drawn = {
        "energy_histogram": plots.plot_energy_histogram(idata, figsize=(6, 4)),
        "theta_trace": plots.plot_theta_trace(idata, figsize=(7, 4)),
        "energy_trace": plots.plot_energy_trace(idata, chains=[0, 1], figsize=(8, 4)),
        "weights": plots.plot_weights(idata, figsize=(8, 3.5)),
        "pair": plots.plot_pair(idata, figsize=(5, 5)),
        "mode_occupancy": plots.plot_mode_occupancy(idata, mode, figsize=(7, 4)),
        "dashboard": plots.plot_dashboard(idata, modes=mode, figsize=(14, 9)),
    }
    for name, axes in drawn.items():
        figure = np.ravel(axes)[0].figure
        figure.savefig(FOLDER / f"{name}.png", dpi=70, bbox_inches="tight")
        plt.close(figure)


if __name__ == "__main__":
    main()
