"""From unconstrained positions, partly non-centred ones too, to the values of sites, and back."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import numpyro
from jax import random
from numpyro.distributions import biject_to, constraints
from numpyro.distributions.constraints import Constraint
from numpyro.infer.util import constrain_fn

from numpyro_contour.core.arrays.decentred import Centring, Decentred
from numpyro_contour.models.handlers import initialised, subsample_rows, unconstrained_values
from numpyro_contour.models.loc_scale import LocScale, decentred_sites, record_loc_scale
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.nothing_to_sample import IDLE
from numpyro_contour.models.plates import plates_of


def unconstrained_shapes(potential: ModelPotential) -> dict[str, jax.ShapeDtypeStruct]:
    """The shapes of unconstrained values of a model's latent sites, by name."""
    rows = potential.plates.first_rows()
    started = initialised(subsample_rows(potential.model, rows), random.key(0))
    return jax.eval_shape(
        lambda: unconstrained_values(started, potential.model_args, potential.model_kwargs)
    )


def loc_scale_sites(
    potential: ModelPotential, position: dict, names: Collection[str] | None = None
) -> dict[str, tuple[LocScale, jax.Array]]:
    """Latent sites with a location and a scale at a position, with their values.

    Args:
        potential: the potential energy of a model.
        position: unconstrained values of the latent sites, by name.
        names: the names of the sites. None (default) for all.
    """
    recorder = record_loc_scale(potential.model, names)
    _run(replace(potential, model=recorder, known={}), position)
    return recorder.sites


def centred(potential: ModelPotential, position: dict) -> dict[str, jax.Array]:
    """A position in the coordinates of the model as it is written.

    Args:
        potential: the potential energy of a model.
        position: unconstrained values of the latent sites, which may be `Decentred`.
    """
    if not isinstance(position, Decentred):
        return position
    shifted = decentred_sites(potential.model, position.centring)
    _run(replace(potential, model=shifted, known={}), position)
    return {
        name: _unconstrained(potential, name, shifted.values[name])
        if name in position.centring
        else x
        for name, x in position.items()
    }


def decentred(
    potential: ModelPotential, position: dict, centring: Centring | None
) -> dict[str, jax.Array]:
    """The inverse of `centred`, for a given centring; None leaves the position as it is."""
    if centring is None or getattr(position, "centring", None) == centring:
        return position
    position = centred(potential, position)
    found = loc_scale_sites(potential, position, list(centring))
    shifted = {
        name: _unconstrained(potential, name, site.decentred_value(centring[name], x))
        for name, (site, x) in found.items()
    }
    return Decentred({**position, **shifted}, centring)


def _run(potential: ModelPotential, position: dict) -> None:
    plain = dict(position)
    model = potential.rows(potential.plates.first_rows(), plain)
    constrain_fn(model, potential.model_args, potential.model_kwargs, plain)


def _unconstrained(potential: ModelPotential, name: str, value: Any) -> jax.Array:
    # The supports of such sites have no bounds that a trace could leave behind.
    return biject_to(potential.latent[name]).inv(value)


def constrained(potential: ModelPotential, position: dict) -> dict[str, jax.Array]:
    """The values of a model's sites at an unconstrained position.

    Deterministic sites outside subsampled plates are among them.

    Args:
        potential: the potential energy of the model.
        position: unconstrained values of the latent sites, by name, which may be `Decentred`.

    Returns:
        The sites' values by name.

    Example:
        >>> import jax.numpy as jnp, numpyro, numpyro.distributions as dist
        >>> from numpyro_contour.models.coordinates import constrained
        >>> from numpyro_contour.models.model_potential import ModelPotential
        >>> def model():
        ...     numpyro.sample("scale", dist.HalfNormal(1))
        >>> constrained(ModelPotential.of(model), {"scale": jnp.array(0.0)})["scale"].tolist()
        1.0
    """
    position = centred(potential, position)
    model = potential.rows(potential.plates.first_rows())
    partial: set[str] = set()

    def note_partial_sites(*args: Any, **kwargs: Any) -> None:
        with numpyro.handlers.trace() as sites:
            model(*args, **kwargs)
        partial.update(
            name
            for name, site in sites.items()
            if site["type"] == "deterministic"
            and any(plate in potential.plates.sizes for plate in plates_of(site))
        )

    values = constrain_fn(
        note_partial_sites,
        potential.model_args,
        potential.model_kwargs,
        position,
        return_deterministic=True,
    )
    return {name: value for name, value in values.items() if name not in partial | {IDLE}}


# NumPyro names these instances, but not their classes.
_INDEPENDENT = type(constraints.independent(constraints.positive, 1))
_POSITIVE = tuple(
    type(one)
    for one in (
        constraints.positive,
        constraints.nonnegative,
        constraints.softplus_positive,
        constraints.greater_than(0.0),
        constraints.greater_than_eq(0.0),
    )
)


def scales_of(potential: ModelPotential, like: dict) -> np.ndarray | None:
    """Coordinates of sites whose values are positive, such as standard deviations.

    Args:
        potential: the potential energy of the model.
        like: an unconstrained position of the model.

    Returns:
        A mask (d,) of the coordinates of `ravel`; None where all are of that kind, or none is.
    """
    positive = {name for name, support in potential.latent.items() if _is_positive(support)}
    paths, _ = jax.tree_util.tree_flatten_with_path(like)
    masks = [np.full(np.size(leaf), path[0].key in positive) for path, leaf in paths]
    mask = np.concatenate(masks)
    return mask if mask.any() and not mask.all() else None


def _is_positive(support: Constraint) -> bool:
    # The transform of a support would do: it computes with bounds, which may be gone with a trace.
    while isinstance(support, _INDEPENDENT):
        support = support.base_constraint
    return isinstance(support, _POSITIVE)
