"""Momentum for any kernel: what its diffusion, its arguments and its tuned step size become.

Placed before a kernel among the bases of a class, for instance `class SGHMC(Underdamped, SGLD)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from numpyro_contour import checks
from numpyro_contour.adaptation.tuning import Tuning, least_noisy_step_size
from numpyro_contour.core.diffusions import Diffusion, nose_hoover, underdamped
from numpyro_contour.core.diffusions.underdamped import check_momentum, momentum_coefficient
from numpyro_contour.kernels.base import SGMCMCKernel
from numpyro_contour.schedules import check_positive_temperature


class Underdamped(SGMCMCKernel):
    """Base of kernels whose diffusion is `diffusions.underdamped`.

    It comes before another kernel among the bases of a class.

    Args:
        momentum, friction: as for `SGHMC`.
        model, potential_fn, step_size, preconditioner, temperature, num_steps, draw: as for `SGLD`.
        curvature_correction, minibatch_size, energy, noise: as for `SGLD`.
        init_strategy, chunk_bytes: as for `SGLD`.

    Raises:
        ValueError: an argument is missing, unknown or out of its range; the message names it.

    Example:
        >>> from numpyro_contour import SGLD
        >>> from numpyro_contour.kernels.momentum import Underdamped
        >>> class MySGHMC(Underdamped, SGLD):
        ...     pass
        >>> MySGHMC(potential_fn=lambda x: x**2 / 2).settings["momentum"]
        0.9
    """

    # With a preconditioner that was found. On two modes of mass 0.6 and 0.4 contour with momentum
    # finds 0.593 +- 0.003 at this step and 0.562 +- 0.004 at twice that.
    _largest_step_size = 0.2

    def __init__(
        self,
        model: Callable | None = None,
        potential_fn: Callable | None = None,
        *,
        momentum: float | None = None,
        friction: float | None = None,
        **arguments: Any,
    ):
        super().__init__(model, potential_fn, **arguments)
        self._momentum, self._friction = check_momentum(momentum, friction)

    @property
    def settings(self) -> dict[str, Any]:
        """The kernel's settings by the names of its arguments, without its model."""
        name = "momentum" if self._friction is None else "friction"
        return super().settings | {name: getattr(self, f"_{name}")}

    def _make_diffusion(
        self, preconditioner: Any, gradient_noise: Any = None, curvature: Any = None
    ) -> Diffusion:
        return underdamped(
            self._momentum, self._friction, self._noise, preconditioner, gradient_noise, curvature
        )

    def _coefficient(self, step_size: jax.Array) -> jax.Array | float:
        """The momentum coefficient at a step size."""
        return momentum_coefficient(self._momentum, self._friction, step_size)

    def _tuned_step_size(self, tuning: Tuning, temperature: jax.Array) -> jax.Array:
        """That of the Langevin step of the same time, less where the gradient is noisy.

        The noise of 1 / (1 - c) gradients adds up before the velocity forgets the first.
        """
        langevin = super()._tuned_step_size(tuning, temperature)
        c = self._coefficient(langevin)
        cap = (1 - c) * least_noisy_step_size(tuning, temperature)
        if self._preconditioner is None:
            cap = jnp.minimum(cap, self._largest_step_size)
        return jnp.minimum((1 + c) * langevin, cap)

    def _reach(self, tuning: Tuning, temperature: jax.Array) -> tuple[jax.Array, jax.Array | float]:
        step_size = self._tuned_step_size(tuning, temperature)
        forgets = 1 - self._coefficient(step_size)
        return step_size / forgets, forgets


class NoseHoover(Underdamped):
    """Base of kernels whose diffusion is `diffusions.nose_hoover`.

    It comes before another kernel among the bases of a class.

    Args:
        momentum, temperature: as for `SGNHT`.
        model, potential_fn, step_size, preconditioner, num_steps, draw: as for `SGLD`.
        curvature_correction, minibatch_size, energy, noise: as for `SGLD`.
        init_strategy, chunk_bytes: as for `SGLD`.

    Raises:
        ValueError: an argument is missing, unknown or out of its range; the message names it.

    Example:
        >>> from numpyro_contour import SGLD
        >>> from numpyro_contour.kernels.momentum import NoseHoover
        >>> class MySGNHT(NoseHoover, SGLD):
        ...     pass
        >>> MySGNHT(potential_fn=lambda x: x**2 / 2, momentum=0.8).settings["momentum"]
        0.8
    """

    # The friction settles while it samples.
    _adapts = True

    # Its swings cost accuracy: at twice this step contour makes variances 5 % too small.
    _largest_step_size = 0.1

    def __init__(
        self,
        model: Callable | None = None,
        potential_fn: Callable | None = None,
        *,
        momentum: float | None = None,
        **arguments: Any,
    ):
        if momentum is not None:
            momentum = checks.positive("momentum", momentum)
        if "friction" in arguments:
            raise checks.fail("friction", arguments["friction"], "nothing: the friction adapts")
        check_positive_temperature(arguments.get("temperature", 1.0))
        super().__init__(model, potential_fn, momentum=momentum, **arguments)

    def _make_diffusion(
        self, preconditioner: Any, gradient_noise: Any = None, curvature: Any = None
    ) -> Diffusion:
        # The thermostat takes the noise of the gradient out.
        return nose_hoover(self._momentum, self._noise, preconditioner, curvature)
