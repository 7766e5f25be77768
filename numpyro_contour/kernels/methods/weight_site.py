"""The log weight of a draw among its sites, where NumPyro's own table shows it.

NumPyro's table, and all that takes `mcmc.get_samples()`, know nothing of weights. A row for them
says that the other rows are not the posterior's.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import jax

from numpyro_contour.core.arrays.decentred import in_coordinates_of

NAME = "log_weight"


def with_weight(z: Any, log_weight: jax.Array) -> Any:
    """The draw, with its log weight beside its sites where it is a dictionary without one."""
    if not isinstance(z, dict) or NAME in z:
        return z
    return in_coordinates_of(z, {**z, NAME: log_weight})


def of_sites(constrain: Callable[[dict], dict], latent: Container[str], z: dict) -> dict:
    """Constrained values of a draw, with its log weight unless a site has that name.

    Args:
        constrain: from unconstrained values of the latent sites to the values of all sites.
        latent: the names of the latent sites.
        z: the draw as it was collected.
    """
    weight = {name: z[name] for name in z if name == NAME and name not in latent}
    sites = {name: x for name, x in z.items() if name not in weight}
    return {**weight, **constrain(in_coordinates_of(z, sites))}
