"""Which coordinates of a model are logarithms of scales."""

from __future__ import annotations

import jax
import numpy as np
from numpyro.distributions import constraints
from numpyro.distributions.constraints import Constraint

from numpyro_contour.models.model_potential import ModelPotential

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
