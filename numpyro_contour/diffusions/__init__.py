"""Diffusions: one step of a discretised stochastic differential equation each."""

from numpyro_contour.diffusions.base import DRIFT_LIMIT, NOISES, Diffusion, Proposal, clip_drift
from numpyro_contour.diffusions.langevin import langevin
from numpyro_contour.diffusions.nose_hoover import nose_hoover
from numpyro_contour.diffusions.rmsprop import rmsprop
from numpyro_contour.diffusions.underdamped import underdamped

__all__ = [
    "DRIFT_LIMIT",
    "NOISES",
    "Diffusion",
    "Proposal",
    "clip_drift",
    "langevin",
    "nose_hoover",
    "rmsprop",
    "underdamped",
]
