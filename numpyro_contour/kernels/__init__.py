"""NumPyro's `MCMCKernel`, composed of an energy, moves, a method and a warm-up.

It may import `kernels.parts`, `warmup`, `energies`, `models`, `modes`, `core`, `checks` and
`schedules`.
"""

from numpyro_contour.kernels.kernel import Kernel
from numpyro_contour.kernels.parts.moves import (
    FoundStep,
    Moves,
    langevin_moves,
    nose_hoover_moves,
    underdamped_moves,
)

__all__ = [
    "FoundStep",
    "Kernel",
    "Moves",
    "langevin_moves",
    "nose_hoover_moves",
    "underdamped_moves",
]
