"""What a control variate may expand, and to which order; the noise decides in the warm-up."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpyro_contour.core.arrays.vectors import ravel
from numpyro_contour.models.clusters import Clusters, clusters_of
from numpyro_contour.models.estimators.anchors import Anchors, no_anchors
from numpyro_contour.models.model_potential import ModelPotential

#: Names of control variates, and the orders of the expansion among which the noise decides: 1 and 2
#: at anchors, 3 in the data.
CONTROL_VARIATES = {
    "control_variate": (1, 2, 3),
    "first_order": (1,),
    "second_order": (2,),
    "data_expansion": (3,),
}
# The most coordinates for which the second order is taken: a Hessian costs as many gradients.
_MOST_OF_SECOND_ORDER = 200
# From so many rows on an expansion in the data is considered that nobody has asked for.
_MANY_ROWS = 50_000


class Expansions(NamedTuple):
    """The expansions that may come in a run."""

    #: their orders, the first one first
    orders: tuple[int, ...]
    #: the clusters of the rows for an expansion in the data; () without one
    clusters: Clusters | tuple[()]

    def no_anchors(self, size: int) -> Anchors:
        """Empty slots for positions of so many coordinates."""
        return no_anchors(size, self.orders, len(self.clusters.counts) if self.clusters else None)


def expansions_of(energy: Any, potential: ModelPotential, like: Any) -> Expansions | None:
    """The expansions of a control variate; None for a callable or other names.

    Args:
        energy: the argument of this name.
        potential: the potential energy of the model.
        like: an unconstrained position.

    Raises:
        ValueError: what is asked for by name is not possible.
    """
    if callable(energy) or (energy is not None and energy not in CONTROL_VARIATES):
        return None
    orders, size = CONTROL_VARIATES[energy or "control_variate"], ravel(like).shape[0]
    if orders == (2,) and size > _MOST_OF_SECOND_ORDER:
        raise ValueError(
            f"`energy` takes 'second_order' for at most {_MOST_OF_SECOND_ORDER} parameters, since "
            f"an anchor's Hessian costs a gradient over all rows for each of them, but the model "
            f"has {size}. Use 'first_order'."
        )
    rows = max((size for size, _ in potential.plates.sizes.values()), default=0)
    considered = orders == (3,) or (3 in orders and rows >= _MANY_ROWS)
    clusters = clusters_of(potential) if considered else ""
    if isinstance(clusters, str):
        if orders == (3,):
            raise ValueError(f"`energy='data_expansion'` does not fit this model: {clusters}.")
        return Expansions(_without(orders, 3, size), ())
    return Expansions(_without(orders, None, size), clusters)


def _without(orders: tuple[int, ...], dropped: int | None, size: int) -> tuple[int, ...]:
    too_large = size > _MOST_OF_SECOND_ORDER
    return tuple(k for k in orders if k != dropped and not (k == 2 and too_large))
