"""How a step moves: the diffusion, and the size of its steps when the warm-up finds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from numpyro_contour import checks
from numpyro_contour.core.diffusions import (
    NOISES,
    Diffusion,
    langevin,
    leapfrog,
    nose_hoover,
    underdamped,
)
from numpyro_contour.core.diffusions.underdamped import check_momentum, momentum_coefficient
from numpyro_contour.warmup.stages.tuning import Tuning, least_noisy_step_size

# The mean acceptance of Langevin moves, with steps drawn as `leapfrog` draws them, that adjusted
# moves are tuned to. On normals in 1 to 50 dimensions effective draws are within a quarter of
# the most at these. With momentum a refusal turns the chain round, and costs more.
_ACCEPTANCE, _ACCEPTANCE_WITH_MOMENTUM = 0.7, 0.9


class FoundStep(NamedTuple):
    """The step size of a diffusion, from that of the Langevin moves by which it was tuned."""

    #: the step size
    step_size: jax.Array
    #: the Langevin step size that goes as far in the long run
    reach: jax.Array
    #: the largest share of its place that a chain can forget in a step
    fastest: jax.Array | float = 1.0


def langevin_step(tuning: Tuning, temperature: jax.Array, found_preconditioner: bool) -> FoundStep:
    """The step size as it was tuned.

    Args:
        tuning: what was tuned.
        temperature: tau.
        found_preconditioner: whether the preconditioner was found too.
    """
    step_size = jnp.exp(tuning.step_size.log_average)
    return FoundStep(step_size, step_size)


def stable_langevin_step(step_size: Any) -> float:
    """2, the product of step size and curvature from which on Langevin moves are unstable."""
    return 2.0


@dataclass(frozen=True)
class Moves:
    """How a step moves.

    Functions must be those of a module, or a `functools.partial` of them, for a kernel to be
    pickled.

    Example:
        >>> from functools import partial
        >>> from numpyro_contour.core.diffusions import langevin
        >>> from numpyro_contour.kernels import Kernel, Moves
        >>> unclipped = Moves(partial(langevin, "averaged", drift_limit=float("inf")))
        >>> Kernel(potential_fn=lambda x: x**2 / 2, moves=unclipped).settings["step_size"]
        'tuned'
    """

    #: `(preconditioner, gradient_noise, curvature) -> Diffusion`, with arguments as for `langevin`
    diffusion: Callable[..., Diffusion]
    #: the arguments of the moves by name, for `Kernel.settings`; none by default
    settings: Mapping[str, Any] = field(default_factory=dict)
    #: `(tuning, temperature, found_preconditioner) -> FoundStep`, the step size where the warm-up
    #: finds it; by default that of the Langevin moves of tuning
    found_step: Callable[[Tuning, jax.Array, bool], FoundStep] = langevin_step
    #: whether the moves adapt while they sample, so that a part of the warm-up is left to them
    settles: bool = False
    #: whether they have no meaning at temperature 0
    needs_temperature: bool = False
    #: where moves are accepted by Metropolis-Hastings, so that energies must be exact, the mean
    #: acceptance that the warm-up aims at; None where they are not
    aims_at: float | None = None
    #: from a step size to the product of it and a curvature from which on moves are unstable in a
    #: quadratic potential energy, where M is 1; by default that of Langevin moves
    stable_below: Callable[[Any], Any] = stable_langevin_step

    @property
    def adjusted(self) -> bool:
        """Whether moves are accepted by Metropolis-Hastings."""
        return self.aims_at is not None


def langevin_moves(noise: str = "averaged", adjusted: bool = False) -> Moves:
    """The moves of `diffusions.langevin`.

    Args:
        noise: "averaged" (default) or "independent", as for `SGLD`.
        adjusted: whether moves are accepted by Metropolis-Hastings, as for `SGLD`. They are those
            of `diffusions.leapfrog` then, with independent noise. Defaults to False.

    Returns:
        `Moves` for a `Kernel`.

    Raises:
        ValueError: `noise` or `adjusted` is none of these.

    Example:
        >>> from numpyro_contour.kernels import langevin_moves
        >>> langevin_moves("independent").settings
        {'noise': 'independent', 'adjusted': False}
    """
    noise = checks.one_of("noise", noise, NOISES)
    if checks.boolean("adjusted", adjusted):
        return _adjusted_moves({}, partial(_leapfrog, 0.0, None), _ACCEPTANCE)
    return Moves(partial(langevin, noise), {"noise": noise, "adjusted": False})


def underdamped_moves(
    momentum: float | None = None,
    friction: float | None = None,
    noise: str = "averaged",
    adjusted: bool = False,
) -> Moves:
    """The moves of `diffusions.underdamped`, which keep their direction.

    Args:
        momentum: c in [0, 1). None (default) for 0.9, or what `friction` says.
        friction: instead of c, a friction above 0, as for `SGHMC`. None (default) for c as
            `momentum` says.
        noise: "averaged" (default) or "independent", as for `SGLD`.
        adjusted: whether moves are accepted by Metropolis-Hastings, as for `SGLD`. They are those
            of `diffusions.leapfrog` then. Defaults to False.

    Returns:
        `Moves` for a `Kernel`.

    Raises:
        ValueError: an argument is out of its range, or both momentum and friction are given.

    Example:
        >>> from numpyro_contour.kernels import underdamped_moves
        >>> underdamped_moves(momentum=0.8).settings
        {'noise': 'averaged', 'adjusted': False, 'momentum': 0.8}
    """
    momentum, friction = check_momentum(momentum, friction)
    noise = checks.one_of("noise", noise, NOISES)
    given = {"momentum": momentum} if friction is None else {"friction": friction}
    if checks.boolean("adjusted", adjusted):
        leaps = partial(_leapfrog, momentum, friction)
        return _adjusted_moves(given, leaps, _ACCEPTANCE_WITH_MOMENTUM)
    # With a preconditioner that was found. On two modes of mass 0.6 and 0.4 contour with momentum
    # finds 0.593 +- 0.003 at this step and 0.562 +- 0.004 at twice that.
    largest = 0.2
    return Moves(
        partial(underdamped, momentum, friction, noise),
        {"noise": noise, "adjusted": False} | given,
        partial(_step_with_momentum, momentum, friction, largest),
        stable_below=partial(_stable_with_momentum, momentum, friction),
    )


def nose_hoover_moves(momentum: float | None = None, noise: str = "averaged") -> Moves:
    """The moves of `diffusions.nose_hoover`, whose friction adapts to the noise of the gradient.

    Args:
        momentum: c in (0, 1), as for `SGNHT`. None (default) for 0.9.
        noise: "averaged" (default) or "independent", as for `SGLD`.

    Returns:
        `Moves` for a `Kernel`.

    Raises:
        ValueError: an argument is out of its range.

    Example:
        >>> from numpyro_contour.kernels import nose_hoover_moves
        >>> nose_hoover_moves().settles
        True
    """
    if momentum is not None:
        momentum = checks.positive("momentum", momentum)
    momentum, _ = check_momentum(momentum, None)
    noise = checks.one_of("noise", noise, NOISES)
    # The swings of the friction cost accuracy: at twice this step contour makes variances 5 % too
    # small.
    largest = 0.1
    return Moves(
        partial(_thermostat, momentum, noise),
        {"noise": noise, "momentum": momentum},
        partial(_step_with_momentum, momentum, None, largest),
        settles=True,
        needs_temperature=True,
        stable_below=partial(_stable_with_momentum, momentum, None),
    )


def _adjusted_moves(
    given: dict[str, Any], diffusion: Callable[..., Diffusion], aims_at: float
) -> Moves:
    """Moves that are accepted by Metropolis-Hastings; noise of two moves has no such test."""
    settings = {"noise": "independent", "adjusted": True} | given
    return Moves(diffusion, settings, needs_temperature=True, aims_at=aims_at)


def _leapfrog(
    momentum: float | None, friction: float | None, preconditioner: Any, gradient_noise: Any = None
) -> Diffusion:
    """`leapfrog`, for gradients that have no noise."""
    return leapfrog(momentum, friction, preconditioner)


def _thermostat(
    momentum: float | None,
    noise: str,
    preconditioner: Any,
    gradient_noise: Any = None,
    curvature: Any = None,
) -> Diffusion:
    """`nose_hoover`, whose thermostat takes the noise of the gradient out by itself."""
    return nose_hoover(momentum, noise, preconditioner, curvature)


def _step_with_momentum(
    momentum: float | None,
    friction: float | None,
    largest: float,
    tuning: Tuning,
    temperature: jax.Array,
    found_preconditioner: bool,
) -> FoundStep:
    """The step of the same time as the Langevin one, smaller where the gradient is noisy.

    The noise of 1 / (1 - c) gradients adds up before the velocity forgets the first.
    """
    of_langevin = jnp.exp(tuning.step_size.log_average)
    c = momentum_coefficient(momentum, friction, of_langevin)
    limit = (1 - c) * least_noisy_step_size(tuning, temperature)
    if found_preconditioner:
        limit = jnp.minimum(limit, largest)
    step_size = jnp.minimum((1 + c) * of_langevin, limit)
    forgets = 1 - momentum_coefficient(momentum, friction, step_size)
    return FoundStep(step_size, step_size / forgets, forgets)


def _stable_with_momentum(momentum: float | None, friction: float | None, step_size: Any) -> Any:
    r"""The product :math:`2 (1 + c)` of step size and curvature, from which on moves are unstable.

    Both noises, and a thermostat at its balance, move positions by
    :math:`x_{k+1} = (1 + c - \epsilon h)\, x_k - c\, x_{k-1}` and noise where the curvature is h,
    whose larger root leaves -1 there.
    """
    return 2 * (1 + momentum_coefficient(momentum, friction, step_size))
