"""The arguments that named kernels share, for editors and type checkers, and full signatures."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypedDict, TypeVar, get_type_hints

from numpyro.infer import MCMC

from numpyro_contour import checks
from numpyro_contour.core.flattening.energy_partition import EnergyPartition
from numpyro_contour.models.plates import MinibatchSize
from numpyro_contour.schedules import ScalarOrSchedule, Schedule

Named = TypeVar("Named", bound=type)


class SharedArguments(TypedDict, total=False):
    """What all kernels take beside the temperature; described at `SGLD`."""

    step_size: ScalarOrSchedule | None
    preconditioner: Any
    curvature_correction: bool
    num_steps: int | None
    draw: str
    minibatch_size: MinibatchSize
    energy: str | Callable | None
    init_strategy: Callable
    chunk_bytes: int
    jumps: bool | float | None


class OneTemperature(SharedArguments, total=False):
    """What kernels of one temperature take."""

    temperature: ScalarOrSchedule


class FlatteningArguments(OneTemperature, total=False):
    """What contour kernels take beside `num_bins` and `zeta`; described at `ContourSGLD`."""

    partition: EnergyPartition | None
    gain: Schedule | None
    interpolation: str
    one_sided: bool
    multiplier_bound: float | None
    random_field: str
    rho: float
    weight: str
    theta: Any
    collect_theta: bool


class ContourArguments(FlatteningArguments, total=False):
    """What contour kernels of one method take."""

    num_bins: int
    zeta: float


def unknown(kernel: str, name: str, known: Iterable[str]) -> TypeError:
    """The error for an argument that a kernel does not have, to be raised by the caller."""
    if name in inspect.signature(MCMC).parameters:
        return TypeError(
            f"{kernel} takes no `{name}`: it belongs to `MCMC({kernel}(...), {name}=)`."
        )
    return TypeError(f"{kernel} takes no `{name}`.{checks.nearest(name, known)}")


def refuse(arguments: Any, name: str, why: str) -> None:
    """Refuse an argument that other kernels take.

    Raises:
        ValueError: it was given.
    """
    if name in arguments:
        raise checks.fail(name, arguments[name], f"nothing: {why}")


def split(arguments: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of the contour method, and those of the kernel."""
    shared = get_type_hints(OneTemperature)
    own = {name for name in get_type_hints(ContourArguments) if name not in shared}
    contour = {name: value for name, value in arguments.items() if name in own}
    return contour, {name: value for name, value in arguments.items() if name not in own}


def with_signature(*parts: Any) -> Callable[[Named], Named]:
    """A class decorator that makes `inspect.signature` show every argument with its default.

    Arguments that `__init__` takes as `**arguments: Unpack[...]` are listed after its own, with the
    defaults that the parts which take them have.

    Args:
        *parts: what takes the arguments, for instance `Kernel` and `Contour`.
    """
    defaults: dict[str, inspect.Parameter] = {}
    for part in parts:
        defaults = {**inspect.signature(part).parameters, **defaults}

    def decorate(kernel: Named) -> Named:
        hints = get_type_hints(kernel.__init__)  # type: ignore[misc]
        *own, rest = inspect.signature(kernel.__init__).parameters.values()  # type: ignore[misc]
        (unpacked,) = hints[rest.name].__args__
        own = [p.replace(annotation=hints.get(p.name, p.annotation)) for p in own[1:]]
        shared = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults[name].default,
                annotation=annotation,
            )
            for name, annotation in get_type_hints(unpacked).items()
            if name not in {p.name for p in own}
        ]
        signature = inspect.Signature([*own, *shared])
        kernel.__signature__ = signature  # type: ignore[attr-defined]
        checked = kernel.__init__  # type: ignore[misc]

        @functools.wraps(checked)
        def init(self: Any, *args: Any, **arguments: Any) -> None:
            try:
                checked(self, *args, **arguments)
            except TypeError:
                # Not before: an argument that other kernels take is refused with the reason.
                for name in arguments:
                    if name not in signature.parameters:
                        raise unknown(kernel.__name__, name, signature.parameters) from None
                raise

        kernel.__init__ = init  # type: ignore[misc]
        return kernel

    return decorate
