"""Contour stochastic gradient Langevin dynamics for NumPyro.

Kernels for `numpyro.infer.MCMC` that flatten the energy barriers between the modes of a posterior,
with subsampled likelihoods, and hand out weighted draws.
"""

from numpyro_contour.inference_data import to_inference_data, weighted_samples
from numpyro_contour.kernels.contour_sgld import ContourSGLD
from numpyro_contour.kernels.sgld import SGLD
from numpyro_contour.partition import EnergyPartition
from numpyro_contour.schedules import robbins_monro

__version__ = "0.1.0"

__all__ = [
    "SGLD",
    "ContourSGLD",
    "EnergyPartition",
    "robbins_monro",
    "to_inference_data",
    "weighted_samples",
]
