"""Replica exchange for any kernel without theta; placed before it among the bases of a class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from numpyro_contour import checks
from numpyro_contour.core.samplers.chain import PotentialAndGrad, Sampler
from numpyro_contour.core.samplers.replica_exchange import (
    SWAPS,
    ReplicaExchangeSamplerState,
    reevaluate,
    replica_exchange,
    shift_energies,
)
from numpyro_contour.core.samplers.window import Window
from numpyro_contour.kernels.sgld import SGLD, SGLDState
from numpyro_contour.schedules import Constant, ScalarOrSchedule, Schedule, as_schedule, first_value


class ReplicaExchangeState(SGLDState):
    """State of the replica exchange kernels: an `SGLDState`, whose draws are the coldest's."""

    @property
    def swap_rates(self) -> jax.Array:
        """Share of the swaps offered to each pair of neighbours that was made, (R - 1,)."""
        return self.sampler.swap_rates

    @property
    def energy_variance(self) -> jax.Array:
        """Estimated variance of the noise of each replica's energies, (R,)."""
        return self.sampler.energy_variance


def check_temperatures(temperatures: Any) -> tuple[Schedule, ...]:
    """The argument `temperatures`: a ladder of two or more, the coldest first."""
    takes = "two or more numbers above 0, or schedules, in ascending order"
    if not isinstance(temperatures, Sequence | np.ndarray) or len(temperatures) < 2:
        raise checks.fail("temperatures", temperatures, takes)
    try:
        ladder = tuple(as_schedule("temperatures", tau, checks.positive) for tau in temperatures)
    except ValueError:
        raise checks.fail("temperatures", temperatures, takes) from None
    first = [first_value(tau) for tau in ladder]
    if not all(colder < hotter for colder, hotter in zip([0.0, *first], first)):
        raise checks.fail("temperatures", temperatures, takes)
    return ladder


class ReplicaExchange(SGLD):
    """Base of kernels whose chain is the coldest of several, `samplers.replica_exchange`.

    It comes before another kernel without theta among the bases of a class.

    Args:
        temperatures, swap_every, swap, correction_factor: as for `ReplicaExchangeSGLD`.
        model, potential_fn, step_size, preconditioner, num_steps, draw: as for `SGLD`.
        curvature_correction, minibatch_size, energy, noise: as for `SGLD`.
        init_strategy, chunk_bytes: as for `SGLD`.

    Raises:
        ValueError: an argument is missing, unknown or out of its range; the message names it.

    Example:
        >>> from numpyro_contour import SGNHT
        >>> from numpyro_contour.kernels.replica_exchange import ReplicaExchange
        >>> class ReplicaExchangeSGNHT(ReplicaExchange, SGNHT):
        ...     pass
        >>> kernel = ReplicaExchangeSGNHT(potential_fn=lambda x: x**2 / 2)
        >>> kernel.settings["temperatures"]
        (1.0, 3.0)
    """

    # Hot replicas leave the place where tuning has ended, and the variance of energies is learnt.
    _adapts = True

    def __init__(
        self,
        model: Callable | None = None,
        potential_fn: Callable | None = None,
        *,
        temperatures: Sequence[ScalarOrSchedule] = (1.0, 3.0),
        swap_every: int = 1,
        swap: str = "corrected",
        correction_factor: float = 1.0,
        **arguments: Any,
    ):
        if "temperature" in arguments:
            got = arguments["temperature"]
            raise checks.fail("temperature", got, "nothing: `temperatures` takes all of them")
        ladder = check_temperatures(temperatures)
        super().__init__(model, potential_fn, temperature=ladder[0], **arguments)
        self._temperatures = ladder
        self._swap_every = checks.integer("swap_every", swap_every, at_least=1)
        self._swap = checks.one_of("swap", swap, SWAPS)
        self._correction_factor = checks.positive("correction_factor", correction_factor)

    @property
    def default_fields(self) -> tuple[str, ...]:
        """The state fields that are collected for each draw."""
        return (*super().default_fields, "swap_rates", "energy_variance")

    @property
    def settings(self) -> dict[str, Any]:
        """The kernel's settings by the names of its arguments, without its model."""
        ladder = (tau.value if isinstance(tau, Constant) else tau for tau in self._temperatures)
        return super().settings | {
            "temperatures": tuple(ladder),
            "swap_every": self._swap_every,
            "swap": self._swap,
            "correction_factor": self._correction_factor,
        }

    def _sampler(self, warmup: Any, z: Any, noisy: bool = False) -> Sampler:
        diffusion, step_size = self._diffusion(warmup, z)
        return replica_exchange(
            diffusion,
            step_size,
            self._temperatures,
            self._swap_every,
            self._swap,
            self._correction_factor,
            noisy=noisy,
        )

    def _state(
        self,
        z: Any,
        window: Window,
        sampler_state: Any,
        rng_key: jax.Array,
        warmup: Any,
        unconstrained: jax.Array,
    ) -> Any:
        plain = super()._state(z, window, sampler_state, rng_key, warmup, unconstrained)
        return ReplicaExchangeState(*plain)

    def _evaluated_anew(
        self, key: jax.Array, sampler: ReplicaExchangeSamplerState, energy: PotentialAndGrad
    ) -> ReplicaExchangeSamplerState:
        return reevaluate(key, sampler, energy)

    def _shifted(
        self, sampler: ReplicaExchangeSamplerState, rise: jax.Array
    ) -> ReplicaExchangeSamplerState:
        # The coldest replica's is raised already.
        return shift_energies(sampler, rise)._replace(chain=sampler.chain)

    def get_diagnostics_str(self, state: Any) -> str:
        """The text of the progress bar."""
        rates = ", ".join(f"{float(rate):.0%}" for rate in state.swap_rates)
        return f"{super().get_diagnostics_str(state)}, swaps {rates}"
