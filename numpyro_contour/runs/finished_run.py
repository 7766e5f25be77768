"""What is asked of a finished run."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from numpyro.infer import MCMC

from numpyro_contour.core.arrays.vectors import leaf_names
from numpyro_contour.kernels.kernel import Kernel


def kernel_of(mcmc: Any) -> Kernel:
    """The kernel of a finished run.

    Raises:
        ValueError: `mcmc` is not an MCMC with a kernel of this package, or has not been run.
    """
    kernel = getattr(mcmc, "sampler", None)
    if not isinstance(kernel, Kernel):
        raise ValueError(
            "`mcmc` takes a numpyro.infer.MCMC with a kernel of numpyro_contour, but got "
            f"{type(kernel or mcmc).__name__}."
        )
    if mcmc.last_state is None:
        raise ValueError("`mcmc` takes an MCMC after `run`, but it has not been run.")
    return kernel


def has_full_data_weights(mcmc: MCMC) -> bool:
    """Whether the weights of a run are those at its draws' potential energies over all data."""
    kernel = kernel_of(mcmc)
    if kernel.flattening is None or kernel.settings["weight"] != "consistent":
        return False  # no weights, or the paper's own
    return not kernel.has_exact_energy(mcmc._args, mcmc._kwargs)


def named_draws(samples: Any) -> dict[str, np.ndarray]:
    """Draws of a potential function may be any pytree: name its leaves after their places."""
    return {name: np.asarray(x) for name, x in zip(leaf_names(samples), jax.tree.leaves(samples))}
