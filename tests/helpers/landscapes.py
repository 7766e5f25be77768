"""Energies as searches for modes see them."""

import jax
import numpy as np

from numpyro_contour.modes.descent import descend
from numpyro_contour.modes.landscape import Landscape


def landscape_of(potential, size, lanes=32):
    """The landscape of a potential energy of vectors."""
    energy = jax.value_and_grad(potential)
    program = jax.jit(lambda starts, most: descend(energy, starts, most))
    return Landscape(program, size, lanes)


def end_at(landscape, start):
    """Where a descent from one place ends."""
    return landscape.descend(np.atleast_2d(start)).only(0)
