"""The plain method: the moves as they are."""

from __future__ import annotations

from dataclasses import dataclass

from numpyro_contour.core.samplers.chain import Sampler
from numpyro_contour.core.samplers.plain import plain
from numpyro_contour.kernels.methods.method import Method, Setup


@dataclass(frozen=True)
class Plain(Method):
    """The moves on the posterior as it is."""

    # It stays in the mode that decides.
    turns_from = 10.0

    def sampler(self, setup: Setup) -> Sampler:
        """The pure sampler."""
        return plain(setup.diffusion, setup.step_size, setup.temperature)
