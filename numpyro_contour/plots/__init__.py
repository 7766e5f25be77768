"""Figures of a run. Needs matplotlib: `pip install numpyro_contour[plots]`.

Each function draws on the axes that it is given, or on those of a new pyplot figure, and returns
them. Each function says which figures use the weights; "flattened" means draws without weights.

This room may import `output`, `diagnosis`, `runs`, `statistics` and the root's `checks`.
"""

from numpyro_contour.plots.dashboard import plot_dashboard
from numpyro_contour.plots.energy_histogram import plot_energy_histogram
from numpyro_contour.plots.energy_trace import plot_energy_trace
from numpyro_contour.plots.marginals import plot_marginals
from numpyro_contour.plots.mode_occupancy import plot_mode_occupancy
from numpyro_contour.plots.modes import plot_modes
from numpyro_contour.plots.pair import plot_pair, plot_weighted_draws
from numpyro_contour.plots.predictions import plot_predictions
from numpyro_contour.plots.theta_trace import plot_theta_trace
from numpyro_contour.plots.warmup import plot_warmup
from numpyro_contour.plots.weights import plot_weights

__all__ = [
    "plot_dashboard",
    "plot_energy_histogram",
    "plot_energy_trace",
    "plot_marginals",
    "plot_mode_occupancy",
    "plot_modes",
    "plot_pair",
    "plot_predictions",
    "plot_theta_trace",
    "plot_warmup",
    "plot_weighted_draws",
    "plot_weights",
]
