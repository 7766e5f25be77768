"""How many steps a draw takes, as many as make it nearly independent of the one before."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from numpyro_contour.warmup.stages.tuning import TINY

#: Relaxation times of the slowest coordinate in the window of a draw. Draws that are chosen from
#: windows of this length have a correlation of .40, and three of seven count as independent ones:
#: of 4 x 1,000 more than 1,700, in the coordinate that has the fewest.
TIMES = 1.0
#: draws of NumPyro's warm-up from which the correlation is found
DRAWS = 200
# The fewest of all chains together from which it is believed, and the most coordinates.
_FEWEST, _MOST_COORDINATES = 100, 256
# Windows of these lengths, in relaxation times, by the correlation of the draws from them.
_TIMES = np.geomspace(1e-3, 30.0, 200)


class DrawLength(NamedTuple):
    """The steps of a draw of one chain, and what they are found from."""

    #: steps of a draw
    number: jax.Array
    #: the draws of NumPyro's warm-up, each with some of its coordinates and its energy,
    #: (DRAWS, n); () before it
    draws: Any = ()


class Limits(NamedTuple):
    """What a number of steps has to be."""

    #: it is a multiple of this
    unit: int
    #: the fewest, and the most
    least: int
    most: int


def by_relaxation(relaxation: jax.Array, limits: Limits) -> jax.Array:
    """The steps of a draw by the relaxation time of the slowest coordinate, in steps."""
    unit, least, most = limits
    time = jnp.nan_to_num(relaxation, nan=jnp.inf, posinf=1.0 * most)
    units = jnp.clip(jnp.ceil(TIMES * time / unit), math.ceil(least / unit), most // unit)
    return (unit * units).astype(jnp.int32)


def no_draws(size: int) -> np.ndarray:
    """Room for the draws of d coordinates."""
    return np.zeros((DRAWS, min(size, _MOST_COORDINATES) + 1), jnp.result_type(float))


def with_draw(
    draws: jax.Array, number: jax.Array, position: jax.Array, energy: jax.Array
) -> jax.Array:
    """The draws with one more.

    Args:
        draws: those before.
        number: of the draw, from 0.
        position: the draw, (d,).
        energy: its potential energy.
    """
    some = np.linspace(0, position.shape[0] - 1, draws.shape[1] - 1).round().astype(int)
    return draws.at[number].set(jnp.append(position[some], energy).astype(draws.dtype))


def by_correlation(found: DrawLength, number: jax.Array, limits: Limits, draw: str) -> jax.Array:
    r"""The steps of a draw by the correlation of successive ones, the same for all chains.

    A coordinate that forgets its place at a rate :math:`1 / T` has a correlation of

    .. math:: \rho = \Bigl(\frac{1 - e^{-k}}{k}\Bigr)^2, \quad k = K / T

    between draws from successive windows of K steps, and :math:`e^{-k}` between their last
    positions. It is that of the slowest of the coordinates and the energy, each clipped at a
    standard deviation from its mean over all chains: an excursion into a long tail is slow, and no
    reason to make all draws longer. On eight schools :math:`\log\tau` has .64 in draws of 30 steps,
    .47 clipped, and .44 by ranks.

    Args:
        found: of all chains, with a leading axis.
        number: how many draws there are of each chain.
        limits: what the steps have to be.
        draw: "reservoir" or "last", as for `run_window`.

    Returns:
        The steps, (chains,).
    """
    made = (jnp.arange(DRAWS) < number)[:, None]
    count = jnp.maximum(number * found.draws.shape[0], 1)

    def mean(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.where(made, x, 0.0), (0, 1)) / count

    apart = found.draws - mean(found.draws)
    clipped = jnp.clip(apart / jnp.sqrt(jnp.maximum(mean(apart**2), TINY)), -1.0, 1.0)
    clipped -= mean(clipped)
    variance = mean(clipped**2)
    changes = jnp.where(made[1:], jnp.diff(clipped, axis=1) ** 2, 0.0)
    half = jnp.sum(changes, (0, 1)) / (2 * jnp.maximum(count - found.draws.shape[0], 1))
    correlation = jnp.max(jnp.where(variance > TINY, 1 - half / jnp.maximum(variance, TINY), 0.0))
    chosen = -np.expm1(-_TIMES) / _TIMES
    of_windows = np.exp(-_TIMES) if draw == "last" else chosen**2
    times = jnp.interp(correlation, of_windows[::-1], _TIMES[::-1])
    measured = by_relaxation(jnp.max(found.number) / times, limits)
    return jnp.where(count >= _FEWEST, measured, found.number)


def steps_of(most: int, warmup: Any) -> Any:
    """The steps of a draw: those that were found, else an int that was given.

    Args:
        most: the steps that were given, or the most.
        warmup: the warm-up of a state, () where there is none.
    """
    return warmup.draw_length.number if warmup and warmup.draw_length else most
