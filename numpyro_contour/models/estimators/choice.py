"""The argument `energy`: which estimator of the potential energy a run uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpyro_contour import checks
from numpyro_contour.models.differentiation import lacking_derivative
from numpyro_contour.models.estimators.callable import of_callable
from numpyro_contour.models.estimators.control_variate import control_variate
from numpyro_contour.models.estimators.estimator import Estimator
from numpyro_contour.models.estimators.exact import of_all_rows, of_model_at_once
from numpyro_contour.models.estimators.expansions import CONTROL_VARIATES, Expansions
from numpyro_contour.models.estimators.minibatch import plain
from numpyro_contour.models.model_potential import ModelPotential

ESTIMATORS = ("minibatch", *CONTROL_VARIATES, "full")


def check_energy(value: Any) -> str | Callable | None:
    """The argument `energy`."""
    if value is None or callable(value):
        return value
    if not isinstance(value, str) or value not in ESTIMATORS:
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
        ValueError: minibatches are asked for where no plate is subsampled, or a control variate of
            rows that cannot be differentiated.
    """
    if callable(energy):
        return energy
    subsampled = potential is not None and bool(potential.plates)
    trains = potential is not None and subsampled and potential.asks
    if trains and energy not in (None, "minibatch"):
        raise ValueError(
            f"`energy` takes None or 'minibatch' for a model that asks whether it is in training "
            f"or has modules with a state, but got {energy!r}: the energy of a row depends on its "
            "minibatch or on a random key."
        )
    if energy is None:
        if not subsampled:
            return "full"
        assert potential is not None
        if trains:
            return "minibatch"
        return "control_variate" if descends and not lacking_derivative(potential) else "minibatch"
    if subsampled and energy in CONTROL_VARIATES:
        assert potential is not None
        lacking = lacking_derivative(potential)
        if lacking:
            raise ValueError(
                f"`energy` takes {energy!r} only where the energies of the rows can be "
                f"differentiated twice, also in forward mode, but got a model that cannot "
                f"({lacking}). Use 'minibatch' or 'full'."
            )
        return "control_variate"
    if energy == "full" or subsampled:
        return energy
    if potential is None:
        raise ValueError(
            f"`energy` takes None, 'full' or a callable with `potential_fn`, but got {energy!r}."
        )
    raise ValueError(
        f"`energy` takes {energy!r} only where a plate is subsampled, but no plate of the model "
        "is. Give `minibatch_size`, or `subsample_size` in the model."
    )


def of_model(
    energy: str | Callable,
    potential: ModelPotential,
    like: Any,
    chunk_bytes: int,
    expansions: Expansions | None,
    order: Any,
    tells_noise: Any,
) -> Estimator:
    """The estimator of a model's potential energy.

    Args:
        energy: what `chosen` returned.
        potential: the potential energy of the model.
        like: an unconstrained position.
        chunk_bytes: memory that a pass over all data may take.
        expansions: those of a control variate that may come, None where there will be none.
        order: the one in use, 0 where no chain has an anchor.
        tells_noise: whether it tells the variance of the energy's noise.
    """
    if callable(energy):
        return of_callable(energy, like)
    if energy == "control_variate":
        assert expansions is not None
        return control_variate(potential, like, expansions, order, tells_noise)
    if energy == "minibatch":
        return plain(potential, like)
    if not potential.plates:
        return of_model_at_once(potential, like)
    return of_all_rows(potential, like, chunk_bytes)
