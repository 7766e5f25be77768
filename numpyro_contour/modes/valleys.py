"""Walks along the valleys in which descents have come to rest, all of them side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from numpyro_contour.modes.landscape import Landscape
from numpyro_contour.modes.shape import Shape

# A walk goes this number of standard deviations along the softest directions. The evaluations that
# lead back to the floor of the valley, and the fall in energy there that shows a lower place.
_STRIDE, _RELAXED, _LOWER = 2.0, 25, 0.05
# How often it goes on, and how far: multiples of the last stride.
_STRIDES, _MULTIPLES = 20, np.array([[0.5], [1.0], [2.0]])


def lower_places(landscape: Landscape, shapes: Sequence[Shape]) -> list[np.ndarray | None]:
    """A lower place farther along the valley of each mode, (d,); None where it is at the bottom.

    Descents come to rest on the floor of a long and bent valley, where the slope along it is lost
    in rounding beside that of its walls.

    Args:
        landscape: the energies.
        shapes: modes that may be such floors, with their softest directions.

    Returns:
        For each mode the lowest place that a walk has come to, or None.

    Example:
        >>> import jax, jax.numpy as jnp, numpy as np
        >>> from numpyro_contour.modes.descent import descend
        >>> from numpyro_contour.modes.landscape import Landscape
        >>> from numpyro_contour.modes.shape import Shape
        >>> from numpyro_contour.modes.valleys import lower_places
        >>> potential = lambda x: 5e3 * (x[1] - x[0] ** 2) ** 2 + 0.5 * (x[0] - 6) ** 2
        >>> energy = jax.value_and_grad(potential)
        >>> land = Landscape(jax.jit(lambda x, most: descend(energy, x, most)), size=2, lanes=8)
        >>> along = np.array([[0.4], [0.9]])
        >>> floor = Shape(np.ones(2), np.eye(2), np.eye(2), 0.0, energy=12.5, softest=along)
        >>> lower_places(land, [floor])[0][0].round()
        np.float64(6.0)
    """
    lowest: list[np.ndarray | None] = [None] * len(shapes)
    here = [shape.mean for shape in shapes]
    energies = [shape.energy for shape in shapes]
    starts = {number: _around(shape) for number, shape in enumerate(shapes)}
    for _ in range(_STRIDES):
        if not starts:
            break
        found = landscape.descend(np.concatenate(list(starts.values())), _RELAXED)
        ends = np.cumsum([len(each) for each in starts.values()])
        going, starts = zip(starts, ends, [0, *ends]), {}
        for number, end, begin in going:
            part = found.energy[begin:end]
            best = begin + int(np.argmin(np.where(np.isfinite(part), part, np.inf)))
            least = max(_LOWER, 16 * landscape.epsilon * abs(energies[number]))
            if not found.energy[best] < energies[number] - least:
                continue
            last, place = here[number], found.position[best]
            lowest[number] = here[number] = place
            energies[number] = float(found.energy[best])
            starts[number] = place + _MULTIPLES * (place - last)
    return lowest


def _around(shape: Shape) -> np.ndarray:
    """The places where a walk begins, on either side of a bottom."""
    assert shape.softest is not None
    away = _STRIDE * shape.softest.T
    return np.concatenate([shape.mean + away, shape.mean - away])
