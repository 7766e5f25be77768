"""Cycles for any kernel without theta; placed before it among the bases of a class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpyro_contour import checks
from numpyro_contour.core.samplers.chain import Sampler
from numpyro_contour.core.samplers.cyclical import check_exploration, cyclical
from numpyro_contour.kernels.base import SGMCMCKernel

# A step size that is found is the largest of the sampling stage by default: half of the peak.
_PEAK = 2.0


class Cyclical(SGMCMCKernel):
    """Base of kernels whose steps follow `samplers.cyclical`.

    It comes before another kernel without theta among the bases of a class.

    Args:
        step_size, cycle_length, exploration: as for `CyclicalSGLD`.
        model, potential_fn, preconditioner, temperature, num_steps, draw: as for `SGLD`.
        curvature_correction, minibatch_size, energy, noise: as for `SGLD`.
        init_strategy, chunk_bytes: as for `SGLD`.

    Raises:
        ValueError: an argument is missing, unknown or out of its range; the message names it.

    Example:
        >>> from numpyro_contour import SGNHT
        >>> from numpyro_contour.kernels.cyclical import Cyclical
        >>> class CyclicalSGNHT(Cyclical, SGNHT):
        ...     pass
        >>> CyclicalSGNHT(potential_fn=lambda x: x**2 / 2).settings["cycle_length"]
        1000
    """

    def __init__(
        self,
        model: Callable | None = None,
        potential_fn: Callable | None = None,
        *,
        cycle_length: int = 1000,
        exploration: float = 0.5,
        **arguments: Any,
    ):
        super().__init__(model, potential_fn, **arguments)
        self._cycle_length = checks.integer("cycle_length", cycle_length, at_least=1)
        self._exploration = check_exploration(exploration)

    @property
    def settings(self) -> dict[str, Any]:
        """The kernel's settings by the names of its arguments, without its model."""
        cycles = {"cycle_length": self._cycle_length, "exploration": self._exploration}
        return super().settings | cycles

    def _sampler(self, warmup: Any, z: Any, noisy: bool = False) -> Sampler:
        diffusion, step_size = self._diffusion(warmup, z)
        cycle = self._cycle_length, self._exploration
        if self._plan is None:
            return cyclical(diffusion, step_size, self._temperature, *cycle)
        peak = _PEAK if self._step_size is None else 1.0
        # The first cycle begins where the tuning has ended.
        return cyclical(
            diffusion,
            lambda count: peak * step_size(count),
            self._temperature,
            *cycle,
            origin=warmup.gain_origin,
        )
