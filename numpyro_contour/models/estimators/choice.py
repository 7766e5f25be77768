"""The argument `energy`: which estimator of the potential energy a run uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpyro_contour import checks
from numpyro_contour.models.estimators.anchors import MOST_OF_SECOND_ORDER
from numpyro_contour.models.estimators.callable import of_callable
from numpyro_contour.models.estimators.control_variate import control_variate
from numpyro_contour.models.estimators.estimator import Estimator
from numpyro_contour.models.estimators.exact import of_all_rows, of_function
from numpyro_contour.models.estimators.minibatch import plain
from numpyro_contour.models.model_potential import ModelPotential

#: Names of control variates, and the orders of the expansion among which the noise decides.
CONTROL_VARIATES = {"control_variate": (1, 2), "first_order": (1,), "second_order": (2,)}
ESTIMATORS = ("minibatch", *CONTROL_VARIATES, "full")


def check_energy(value: Any) -> str | Callable | None:
    """The argument `energy`."""
    if value is None or callable(value):
        return value
    if value not in ESTIMATORS:
        takes = f"None, {', '.join(map(repr, ESTIMATORS))} or a callable"
        raise checks.fail("energy", value, takes)
    return value


def chosen(
    energy: str | Callable | None, potential: ModelPotential | None, descends: bool
) -> str | Callable:
    """What the argument `energy` means for a model's potential, or for a function's (None).

    It is "control_variate" for every kind of it.

    Args:
        energy: the argument.
        potential: the potential energy of the model.
        descends: whether the warm-up descends to a point where an anchor can be.

    Raises:
        ValueError: minibatches are asked for where no plate is subsampled.
    """
    if callable(energy):
        return energy
    subsampled = potential is not None and bool(potential.plates)
    if energy is None:
        if not subsampled:
            return "full"
        return "control_variate" if descends else "minibatch"
    if energy == "full" or subsampled:
        return "control_variate" if energy in CONTROL_VARIATES else energy
    if potential is None:
        raise ValueError(
            f"`energy` takes None, 'full' or a callable with `potential_fn`, but got {energy!r}."
        )
    raise ValueError(
        f"`energy` takes {energy!r} only where a plate is subsampled, but no plate of the model "
        "is. Give `minibatch_size`, or `subsample_size` in the model."
    )


def orders_of(energy: str | None, size: int) -> tuple[int, ...]:
    """The orders of a control variate among which the noise decides.

    Args:
        energy: the argument, None or one of `CONTROL_VARIATES`.
        size: number of coordinates.

    Raises:
        ValueError: a second order is asked for, but there are too many coordinates.
    """
    orders = CONTROL_VARIATES[energy or "control_variate"]
    if size <= MOST_OF_SECOND_ORDER:
        return orders
    if orders == (2,):
        raise ValueError(
            f"`energy` takes 'second_order' for at most {MOST_OF_SECOND_ORDER} parameters, since "
            f"an anchor's Hessian costs a gradient over all rows for each, but the model has "
            f"{size}. Use 'first_order'."
        )
    return (1,)


def of_model(
    energy: str | Callable,
    potential: ModelPotential,
    like: Any,
    chunk_bytes: int,
    orders: tuple[int, ...],
    order: Any,
    tells_noise: Any,
) -> Estimator:
    """The estimator of a model's potential energy.

    Args:
        energy: what `chosen` returned.
        potential: the potential energy of the model.
        like: an unconstrained position.
        chunk_bytes: memory that a pass over all data may take.
        orders: the orders of a control variate that may come.
        order: the one in use, 0 where no chain has an anchor.
        tells_noise: whether it tells the variance of the energy's noise.
    """
    if callable(energy):
        return of_callable(energy, like)
    if energy == "control_variate":
        return control_variate(potential, like, orders, order, tells_noise)
    if energy == "minibatch":
        return plain(potential, like)
    if not potential.plates:
        return of_function(potential.full, like)
    return of_all_rows(potential, like, chunk_bytes)
