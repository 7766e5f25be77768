"""The cyclical method: step sizes that fall in cycles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpyro_contour import checks
from numpyro_contour.core.samplers.chain import Sampler
from numpyro_contour.core.samplers.cyclical import check_exploration, cyclical
from numpyro_contour.kernels.methods.method import Method, Setup

# A step size that is found is the largest of the sampling stage by default: half of the peak.
_PEAK = 2.0


@dataclass(frozen=True)
class Cyclical(Method):
    """Steps that follow `samplers.cyclical`; the arguments are those of `CyclicalSGLD`."""

    #: steps of a cycle
    cycle_length: int = 1000
    #: share of a cycle that explores, in [0, 1)
    exploration: float = 0.5

    # A cycle's steps are not those of one law.
    jumps = False

    def __post_init__(self) -> None:
        checks.integer("cycle_length", self.cycle_length, at_least=1)
        check_exploration(self.exploration)

    @property
    def settings(self) -> dict[str, Any]:
        """The method's arguments by name."""
        return {"cycle_length": self.cycle_length, "exploration": float(self.exploration)}

    def sampler(self, setup: Setup) -> Sampler:
        """The pure sampler."""
        step_size = setup.step_size
        if setup.finds_step_size:
            step_size = lambda count: _PEAK * setup.step_size(count)
        return cyclical(
            setup.diffusion,
            step_size,
            setup.temperature,
            self.cycle_length,
            self.exploration,
            # The first cycle begins where the tuning has ended.
            origin=0 if setup.plan is None else setup.warmup.gain_origin,
        )
