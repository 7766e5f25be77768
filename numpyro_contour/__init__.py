"""Contour stochastic gradient Langevin dynamics for NumPyro.

Kernels for `numpyro.infer.MCMC` that flatten the energy barriers between the modes of a posterior,
with subsampled likelihoods, and hand out weighted draws.
"""

import importlib
from typing import TYPE_CHECKING, Any

from numpyro_contour._version import __version__ as __version__
from numpyro_contour.core.flattening.energy_partition import EnergyPartition
from numpyro_contour.kernels.contour_sghmc import ContourSGHMC
from numpyro_contour.kernels.contour_sgld import ContourSGLD
from numpyro_contour.kernels.contour_sgnht import ContourSGNHT
from numpyro_contour.kernels.cyclical_sghmc import CyclicalSGHMC
from numpyro_contour.kernels.cyclical_sgld import CyclicalSGLD
from numpyro_contour.kernels.interacting_contour_sgld import InteractingContourSGLD
from numpyro_contour.kernels.mode_jumping import ModeJumping
from numpyro_contour.kernels.replica_exchange_sghmc import ReplicaExchangeSGHMC
from numpyro_contour.kernels.replica_exchange_sgld import ReplicaExchangeSGLD
from numpyro_contour.kernels.sghmc import SGHMC
from numpyro_contour.kernels.sgld import SGLD
from numpyro_contour.kernels.sgnht import SGNHT
from numpyro_contour.models.disk.on_disk import on_disk
from numpyro_contour.models.module_state import step_key, training
from numpyro_contour.modes.mode_list import ModeList
from numpyro_contour.output.lazy_numpyro import attach_submodules
from numpyro_contour.schedules import epoch_schedule, robbins_monro

if TYPE_CHECKING:
    from numpyro_contour.diagnosis.report import Report
    from numpyro_contour.output.diagnose import diagnose
    from numpyro_contour.output.expectation import Expectation, expectation
    from numpyro_contour.output.inference_data import to_inference_data
    from numpyro_contour.output.predictive import predictive, predictive_mean
    from numpyro_contour.output.resample import resample
    from numpyro_contour.output.run_stored import run_stored
    from numpyro_contour.output.summary import print_summary, summary
    from numpyro_contour.output.weighted_samples import weighted_samples

attach_submodules()

# What is done with a run takes ArviZ, xarray and SciPy, which take longer to import than all else:
# they are imported when the first of these names is used.
_OF_RUNS = {
    "Report": "diagnosis.report",
    "diagnose": "output.diagnose",
    "Expectation": "output.expectation",
    "expectation": "output.expectation",
    "to_inference_data": "output.inference_data",
    "predictive": "output.predictive",
    "predictive_mean": "output.predictive",
    "resample": "output.resample",
    "run_stored": "output.run_stored",
    "print_summary": "output.summary",
    "summary": "output.summary",
    "weighted_samples": "output.weighted_samples",
}

__all__ = [
    "SGHMC",
    "SGLD",
    "SGNHT",
    "ContourSGHMC",
    "ContourSGLD",
    "ContourSGNHT",
    "CyclicalSGHMC",
    "CyclicalSGLD",
    "EnergyPartition",
    "Expectation",
    "InteractingContourSGLD",
    "ModeJumping",
    "ModeList",
    "ReplicaExchangeSGHMC",
    "ReplicaExchangeSGLD",
    "Report",
    "diagnose",
    "epoch_schedule",
    "expectation",
    "on_disk",
    "predictive",
    "predictive_mean",
    "print_summary",
    "resample",
    "robbins_monro",
    "run_stored",
    "step_key",
    "summary",
    "to_inference_data",
    "training",
    "weighted_samples",
]


def __getattr__(name: str) -> Any:
    """A name that is imported when it is used."""
    if name not in _OF_RUNS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{_OF_RUNS[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """The public names, and the modules of more."""
    return sorted([*__all__, "__version__", "diagnostics", "examples", "plots", "schedules"])
