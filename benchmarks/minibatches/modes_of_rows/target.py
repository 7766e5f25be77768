"""Posteriors whose modes come from the rows of the data, with and without subsampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro

#: values of the sites of a model by name
Sites = dict[str, Any]


@dataclass(frozen=True)
class Length:
    """How long a run is, in draws of `num_steps` steps each."""

    warmup: int
    draws: int
    num_steps: int

    @property
    def steps(self) -> int:
        """Steps of a chain, with its warm-up."""
        return (self.warmup + self.draws) * self.num_steps


#: the length of most runs
USUAL = Length(300, 600, 200)


@dataclass(frozen=True)
class Target:
    """A model of rows, the same energies from few numbers, and the mass of a mode."""

    name: str
    #: samples the latent sites
    prior: Callable[[], Sites]
    #: the distribution of the last column, `(sites, *other columns)`
    likelihood: Callable
    #: arrays whose first axis are the rows, the observed one last
    columns: tuple
    #: rows of a minibatch
    minibatch: int
    #: the energy of all rows up to a constant, `(sites, *statistics)`
    energy: Callable
    #: a few numbers that the energy needs of the rows
    statistics: tuple
    #: what these are, in words
    how: str
    #: whether draws are in the mode whose mass is known
    inside: Callable[[Sites], np.ndarray]
    #: the exact mass of that mode
    mass: float
    #: the least height in nats that a way out of the deeper mode has to climb, and its top
    barrier: float
    top: Sites
    length: Length = USUAL

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.columns[-1])

    @property
    def like(self) -> Sites:
        """Values of the sites."""
        with numpyro.handlers.seed(rng_seed=0):
            return self.prior()

    def model(self, *columns: jax.Array) -> None:
        """The model on minibatches."""
        sites = self.prior()
        # As many rows as are given: an expansion in the data evaluates other ones.
        with numpyro.plate("rows", len(columns[-1]), subsample_size=self.minibatch):
            *given, observed = (numpyro.subsample(x, event_dim=x.ndim - 1) for x in columns)
            numpyro.sample("observed", self.likelihood(sites, *given), obs=observed)

    def without_noise(self, *statistics: jax.Array) -> None:
        """The model with the exact energy of all rows."""
        numpyro.factor("rows", -self.energy(self.prior(), *statistics))


def float32(*arrays: Any) -> tuple:
    """Arrays for models."""
    return tuple(jnp.asarray(np.asarray(array, np.float32)) for array in arrays)


def mass_and_barrier(
    energy: np.ndarray, inside: np.ndarray, along: np.ndarray, ends: tuple[float, float]
) -> tuple[float, float, int]:
    """The mass of a mode, the height of the lowest pass, and its number, on an even grid.

    Args:
        energy: energies at points, in nats.
        inside: whether each point is in the mode.
        along: a coordinate that separates the modes; the pass is between its values `ends`.
        ends: where the modes are.
    """
    density = np.exp(energy.min() - energy)
    order = np.argsort(energy)
    places, first = np.unique(np.round(along, 9)[order], return_index=True)
    lowest = order[first][(places > ends[0]) & (places < ends[1])]
    top = lowest[energy[lowest].argmax()]
    mass = density[inside].sum() / density.sum()
    return float(mass), float(energy[top] - energy.min()), int(top)


def on_points(potential: Callable, prior: Callable, points: dict, statistics: tuple) -> np.ndarray:
    """Energies, prior included, at points by site, each with a leading axis."""
    evaluate = lambda point: potential(point, *statistics) + prior(point)
    return np.asarray(jax.lax.map(evaluate, points, batch_size=1024), np.float64)


def in_cells(values: np.ndarray, *cells: np.ndarray) -> tuple[np.ndarray, ...]:
    """Counts of rows and means of their values in the cells that have any.

    Args:
        values: columns along the last axis, (rows, columns).
        cells: integers, which together name the cell of a row.
    """
    _, cell = np.unique(np.stack(cells), axis=1, return_inverse=True)
    cell = cell.ravel()
    counts = np.bincount(cell).astype(float)
    means = [np.bincount(cell, column) / counts for column in np.transpose(values)]
    return (counts, *means)
