"""Energies as searches for modes see them."""

import jax
import numpy as np

from numpyro_contour.modes.descent import descend
from numpyro_contour.modes.landscape import Landscape, Places


def landscape_of(potential, size, lanes=32):
    """The landscape of a potential energy of vectors."""
    energy = jax.value_and_grad(potential)
    program = jax.jit(lambda starts, most: descend(energy, starts, most))
    return Landscape(program, size, lanes)


def end_at(landscape, start):
    """Where a descent from one place ends."""
    return landscape.descend(np.atleast_2d(start)).only(0)


def places(landscape, positions):
    """Places, (n, d), that descents might have ended in."""
    energy, gradient = landscape.at(positions)
    count = len(positions)
    return Places(positions, energy, gradient, np.ones_like(positions), np.ones(count, bool))


def place(landscape, x):
    """A place that a descent might have ended in."""
    return places(landscape, np.atleast_1d(np.asarray(x, float))[None]).only(0)
