"""Diffusions: each proposes one step of a discretised stochastic differential equation.

It may import `core.arrays` and the root's `checks`.
"""

from numpyro_contour.core.diffusions.diffusion import (
    DRIFT_LIMIT,
    NOISES,
    Diffusion,
    Proposal,
    Step,
    clip_drift,
)
from numpyro_contour.core.diffusions.langevin import langevin
from numpyro_contour.core.diffusions.leapfrog import leapfrog
from numpyro_contour.core.diffusions.nose_hoover import nose_hoover
from numpyro_contour.core.diffusions.rmsprop import rmsprop
from numpyro_contour.core.diffusions.underdamped import underdamped
from numpyro_contour.core.diffusions.whitened import whitened

__all__ = [
    "DRIFT_LIMIT",
    "NOISES",
    "Diffusion",
    "Proposal",
    "Step",
    "clip_drift",
    "langevin",
    "leapfrog",
    "nose_hoover",
    "rmsprop",
    "underdamped",
    "whitened",
]
