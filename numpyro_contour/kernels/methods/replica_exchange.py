"""The method of replica exchange: chains at several temperatures that swap places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from numpyro_contour import checks
from numpyro_contour.core.samplers.chain import Chain, PotentialAndGrad, Sampler
from numpyro_contour.core.samplers.replica_exchange import (
    SWAPS,
    ReplicaExchangeSamplerState,
    reevaluate,
    replica_exchange,
    shift_energies,
    stacked,
)
from numpyro_contour.core.samplers.window import Window
from numpyro_contour.kernels.methods.method import Carried, Method, Setup
from numpyro_contour.kernels.methods.plain_state import ReplicaExchangeState
from numpyro_contour.schedules import Constant, ScalarOrSchedule, Schedule, as_schedule, first_value


def check_temperatures(temperatures: Any) -> tuple[Schedule, ...]:
    """The argument `temperatures`: a ladder of two or more, the coldest first.

    Raises:
        ValueError: it is not.
    """
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


@dataclass(frozen=True)
class ReplicaExchange(Method):
    """The coldest chain of several; the arguments are those of `ReplicaExchangeSGLD`."""

    #: the ladder, two or more numbers above 0 or schedules, in ascending order
    temperatures: Sequence[ScalarOrSchedule] = (1.0, 3.0)
    #: steps between offers of swaps
    swap_every: int = 1
    #: "corrected" for the noise of energies, or "naive"
    swap: str = "corrected"
    #: above 0; larger ones swap more often, with a bias
    correction_factor: float = 1.0
    #: rounds of offers before the other pairs have their turn; above 1 with a bias
    swap_window: int = 1

    # Hot replicas leave the place where tuning has ended, and the variance of energies is learnt.
    settles = True
    fields = (*Method.fields, "swap_rates", "energy_variance", "round_trips")

    def __post_init__(self) -> None:
        assert self.ladder
        checks.integer("swap_every", self.swap_every, at_least=1)
        checks.one_of("swap", self.swap, SWAPS)
        checks.positive("correction_factor", self.correction_factor)
        checks.integer("swap_window", self.swap_window, at_least=1)

    @cached_property
    def ladder(self) -> tuple[Schedule, ...]:
        """The temperatures as schedules."""
        return check_temperatures(self.temperatures)

    @property
    def settings(self) -> dict[str, Any]:
        """The method's arguments by name."""
        ladder = (tau.value if isinstance(tau, Constant) else tau for tau in self.ladder)
        return {
            "temperatures": tuple(ladder),
            "swap_every": int(self.swap_every),
            "swap": self.swap,
            "correction_factor": float(self.correction_factor),
            "swap_window": int(self.swap_window),
        }

    def check_temperature(self, temperature: Any, schedule: Schedule) -> Schedule:
        """The coldest of the ladder."""
        if schedule != Constant(1.0):
            takes = "nothing: `temperatures` takes all of them"
            raise checks.fail("temperature", temperature, takes)
        return self.ladder[0]

    def sampler(self, setup: Setup) -> Sampler:
        """The pure sampler."""
        return replica_exchange(
            setup.diffusion,
            setup.step_size,
            self.ladder,
            self.swap_every,
            self.swap,
            self.correction_factor,
            noisy=setup.noisy,
            swap_window=self.swap_window,
        )

    def state(self, z: Any, window: Window, carried: Carried) -> ReplicaExchangeState:
        """The public state around a window of steps."""
        return ReplicaExchangeState(*super().state(z, window, carried))

    def raise_energies(
        self, sampler: ReplicaExchangeSamplerState, rise: jax.Array
    ) -> ReplicaExchangeSamplerState:
        """The state with the hotter replicas raised too: the coldest is the chain."""
        return shift_energies(sampler, rise)._replace(chain=sampler.chain)

    def visited(self, sampler: ReplicaExchangeSamplerState) -> Chain:
        """All replicas."""
        return stacked(sampler)

    def evaluate_anew(
        self, key: jax.Array, sampler: ReplicaExchangeSamplerState, energy: PotentialAndGrad
    ) -> ReplicaExchangeSamplerState:
        """The state with all replicas evaluated anew."""
        return reevaluate(key, sampler, energy)

    def progress_text(self, state: Any) -> str:
        """The text of the progress bar, of one chain or of all that run together."""
        rates = ", ".join(f"{rate:.0%}" for rate in np.atleast_2d(state.swap_rates).mean(0))
        return f"{super().progress_text(state)}, swaps {rates}"
