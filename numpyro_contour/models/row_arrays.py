"""The arrays of a model's arguments that follow its rows, and the model on other rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from numpyro_contour.models.disk.on_disk import stored_of
from numpyro_contour.models.handlers import model_trace, record_plates, subsample_rows
from numpyro_contour.models.local_rows import number_of_devices
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.plates import SubsamplePlates
from numpyro_contour.models.row_terms import row_energies


@dataclass(frozen=True)
class RowArrays:
    """The arguments of a model that hold its rows, along their leading axis."""

    #: the model's only subsampled plate
    plate: str
    #: its number of rows
    size: int
    #: the places of the arrays among the leaves of `(model_args, model_kwargs)`
    places: tuple[int, ...]

    def of(self, potential: ModelPotential) -> list[Any]:
        """The arrays, (N, ...) each."""
        leaves = jax.tree.leaves((potential.model_args, potential.model_kwargs))
        return [leaves[place] for place in self.places]

    def at(self, potential: ModelPotential, indices: jax.Array) -> list[jax.Array]:
        """Some rows of the arrays, (n, ...) each."""
        return [jnp.asarray(array)[indices] for array in self.of(potential)]

    def energies(
        self, potential: ModelPotential, position: dict, rows: Sequence[jax.Array]
    ) -> jax.Array:
        """The energies of any rows, those of the data or others, in nats, (n,).

        Args:
            potential: the potential energy of the model.
            position: unconstrained values of the latent sites, by name.
            rows: what takes the place of the arrays, (n, ...) each.
        """
        leaves, structure = jax.tree.flatten((potential.model_args, potential.model_kwargs))
        for place, array in zip(self.places, rows):
            leaves[place] = array
        args, kwargs = jax.tree.unflatten(structure, leaves)
        count = len(rows[0])
        indices = {self.plate: jnp.arange(count)}
        whole = potential.plates.first_rows()
        recorder = record_plates(subsample_rows(potential.model, whole | indices))
        model_trace(recorder, args, kwargs)
        # A plate of `len(y)` rows is now as large as its minibatch, one of a fixed size is not.
        sizes = {self.plate: (recorder.plates[self.plate][0], count)}
        plates = SubsamplePlates(sizes, potential.plates.whole)
        other = replace(potential, model_args=args, model_kwargs=kwargs, plates=plates)
        return row_energies(other, position, (self.plate,), whole | indices)


def find_row_arrays(potential: ModelPotential) -> RowArrays | str:
    """The arrays whose leading axis is as long as the only subsampled plate, or why there are none.

    Args:
        potential: the potential energy of a model.
    """
    plates = potential.plates.sizes
    if len(plates) != 1:
        names = ", ".join(map(repr, plates)) or "none"
        return f"it takes one subsampled plate, and the model has {len(plates)} ({names})"
    ((plate, (size, _)),) = plates.items()
    if (plate,) not in potential.groups:
        return f"the subsampled plate {plate!r} has no observations"
    leaves = jax.tree.leaves((potential.model_args, potential.model_kwargs))
    if stored_of(leaves):
        return "its rows stay on disk, and clusters of them take all rows in memory"
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return "the values of the data are not known while JAX traces them (`jit_model_args=True`)"
    if any(number_of_devices(leaf) > 1 for leaf in leaves if isinstance(leaf, jax.Array)):
        return "its rows lie on several devices, and their values are looked at on one"
    places = tuple(
        place
        for place, leaf in enumerate(leaves)
        if isinstance(leaf, np.ndarray | jax.Array)
        and leaf.ndim
        and leaf.shape[0] == size
        and (jnp.issubdtype(leaf.dtype, np.number) or leaf.dtype == bool)
    )
    if not places:
        return (
            f"no array among the model's arguments has the {size} rows of the plate {plate!r} "
            f"along its leading axis"
        )
    return RowArrays(plate, size, places)
