"""The methods of Table 2 and their neighbours, at the paper's settings for any number of images.

The paper's step sizes, temperatures and bins are for 50,000 images. Energies are sums over images,
so that step sizes are in proportion to one over their number, and bins and zeta to the number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax.numpy as jnp

import numpyro_contour as nc
from benchmarks.networks.model import ROWS
from numpyro_contour.kernels import Kernel, underdamped_moves
from numpyro_contour.kernels.methods.contour import Contour
from numpyro_contour.kernels.methods.cyclical import Cyclical
from numpyro_contour.kernels.methods.plain import Plain
from numpyro_contour.kernels.methods.replica_exchange import ReplicaExchange

#: of the paper: the step size with and without annealing, the temperature, the bins
ANNEALED, FIXED, TEMPERATURE = 2e-6, 2e-7, 0.01
BINS, BIN_WIDTH, ZETA = 200, 1000.0, 1e6
EPOCHS = 1000
# Annealing begins after this share of the epochs, and divides by 1.01 for each of the paper's.
_CONSTANT, _DIVIDED_BY = 0.4, 1.01
#: members of a deep ensemble, each with its share of the gradients; cycles of step sizes
MEMBERS, CYCLES = 4, 4
# The share of a cycle that explores, and the hotter one of two temperatures.
_EXPLORATION, _HOT = 0.5, 0.05
# Deng et al. (2020) correct swaps by a variance that is divided by a factor of this order, without
# which two replicas of a network never swap.
_CORRECTION = 3e5


@dataclass(frozen=True)
class Length:
    """The length of a run, and the images that it takes."""

    rows: int
    minibatch: int
    epochs: float

    @property
    def steps(self) -> int:
        """The gradients of the run."""
        return max(1, round(self.epochs * self.rows / self.minibatch))

    def annealed(self, value: float) -> Callable:
        """A schedule over steps: constant, and then divided by 1.01 for each of 1000 epochs."""
        steps = self.steps

        def at(step: Any) -> Any:
            share = jnp.maximum(step / steps - _CONSTANT, 0.0)
            return value * _DIVIDED_BY ** (-EPOCHS * share)

        return at


@dataclass(frozen=True)
class Method:
    """How a row of the table is made."""

    #: `(model, length, arguments of every kernel) -> kernel`
    kernel: Callable[[Any, Length, dict], Any]
    #: chains that share the gradients
    chains: int = 1
    #: gradients that a step of a chain takes
    gradients: int = 1

    def share(self, length: Length) -> Length:
        """The length of each chain at equal gradients."""
        return Length(length.rows, length.minibatch, length.epochs / self.chains / self.gradients)


def _kernel(model: Any, method: Any, given: dict, **schedules: Any) -> Kernel:
    """The method around steps with momentum.

    The package's own kernels clip drifts to three standard deviations of the noise. At such low
    temperatures this would be nearly every drift, so that another algorithm would run.
    """
    moves = underdamped_moves(momentum=0.9, noise="independent")
    moves = replace(moves, diffusion=partial(moves.diffusion, drift_limit=math.inf))
    return Kernel(model, moves=moves, method=method, **schedules, **given)


def _schedules(annealed: bool, temperature: float, length: Length) -> dict[str, Any]:
    step_size = (ANNEALED if annealed else FIXED) * ROWS / length.rows
    if not annealed:
        return {"step_size": step_size, "temperature": temperature}
    cools = length.annealed(temperature) if temperature > 0 else temperature
    return {"step_size": length.annealed(step_size), "temperature": cools}


def _plain(annealed: bool, temperature: float) -> Callable:
    def kernel(model: Any, length: Length, given: dict) -> Kernel:
        return _kernel(model, Plain(), given, **_schedules(annealed, temperature, length))

    return kernel


def _contour(annealed: bool) -> Callable:
    def kernel(model: Any, length: Length, given: dict) -> Kernel:
        width = BIN_WIDTH * length.rows / ROWS
        method = Contour(
            partition=nc.EnergyPartition(0.0, width * BINS, BINS),
            # The multiplier has zeta over the width of a bin.
            zeta=ZETA * length.rows / ROWS,
            random_field="penalized",
            rho=1.0,
            gain=nc.robbins_monro(10.0, 0.75, 1000.0),
            interpolation="backward",
            one_sided=False,
            multiplier_bound=None,
            weight="piecewise",
        )
        return _kernel(model, method, given, **_schedules(annealed, TEMPERATURE, length))

    return kernel


def _cyclical(model: Any, length: Length, given: dict) -> Kernel:
    method = Cyclical(max(1, length.steps // CYCLES), _EXPLORATION)
    step_size = ANNEALED * ROWS / length.rows
    return _kernel(model, method, given, step_size=step_size, temperature=TEMPERATURE)


def _replicas(model: Any, length: Length, given: dict) -> Kernel:
    temperatures = tuple(length.annealed(value) for value in (TEMPERATURE, _HOT))
    method = ReplicaExchange(temperatures, correction_factor=_CORRECTION)
    step_size = length.annealed(ANNEALED * ROWS / length.rows)
    return _kernel(model, method, given, step_size=step_size)


METHODS: dict[str, Method] = {
    "M-SGD": Method(_plain(False, 0.0)),
    "SGHMC": Method(_plain(False, TEMPERATURE)),
    "CSGHMC": Method(_contour(False)),
    "saM-SGD": Method(_plain(True, 0.0)),
    "saSGHMC": Method(_plain(True, TEMPERATURE)),
    "saCSGHMC": Method(_contour(True)),
    "cycSGHMC": Method(_cyclical),
    "reSGHMC": Method(_replicas, gradients=2),
    "ensemble": Method(_plain(True, 0.0), chains=MEMBERS),
}
