"""Minibatches of several steps, drawn and read from disk before the steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from numpyro_contour.models.disk.on_disk import IN_MEMORY
from numpyro_contour.models.disk.read_ahead import ReadAhead
from numpyro_contour.models.handlers import model_trace, record_reads, subsample_rows
from numpyro_contour.models.model_potential import HELD, ModelPotential


def check_stored(potential: ModelPotential) -> None:
    """Refuse to read more of an array on disk in each step than memory may hold.

    Raises:
        ValueError: the model reads all of a large array, as no plate around it is subsampled.
    """
    first = potential.plates.first_rows()
    recorder = record_reads(subsample_rows(potential.model, first), first)
    model_trace(recorder, potential.model_args, potential.model_kwargs)
    for array, rows in recorder.most.items():
        if rows * (array.nbytes // len(array)) >= IN_MEMORY:
            raise ValueError(
                f"The model reads {rows:,} rows at once of an array on disk, {array!r}. Subsample "
                "its plate: give `minibatch_size`, or `subsample_size` in the model."
            )


class RowsAhead(NamedTuple):
    """How minibatches are drawn before their steps."""

    #: `(keys, keys after them or None) -> minibatches`, each by a key as `SubsamplePlates.draw`
    #: draws it, with the rows of arrays on disk; those of the keys after begin to be read
    draw: Callable[[jax.Array, jax.Array | None], Any]
    #: bytes that a minibatch has on disk
    size: int


def rows_ahead(potential: ModelPotential) -> RowsAhead | None:
    """Minibatches drawn ahead for a model with data on disk; None for others.

    The rows of a minibatch depend on its key only, not on where the chain is. So one call of the
    host reads those of many steps, for all chains at once, and a thread reads the next ones
    meanwhile. A call in each step would cost several steps.

    Args:
        potential: the potential energy of a model.
    """
    plates, reads = potential.plates, potential.reads
    if not reads:
        return None
    names = list(dict.fromkeys(plate for plate, _ in reads))
    reader = ReadAhead([array for _, array in reads], [names.index(plate) for plate, _ in reads])

    def draw(keys: jax.Array, after: jax.Array | None = None) -> Any:
        now = jax.vmap(plates.drawn)(keys)
        then = () if after is None else jax.vmap(plates.drawn)(after)
        numbers = [now[name] for name in names], [then[name] for name in names if then]
        shapes = [
            jax.ShapeDtypeStruct(now[plate].shape + array.row.shape, array.row.dtype)
            for plate, array in reads
        ]
        rows = jax.pure_callback(reader, shapes, *numbers, vmap_method="broadcast_all")
        return now | {HELD: tuple(rows)}

    size = sum(
        plates.sizes[plate][1] * math.prod(array.row.shape) * array.row.dtype.itemsize
        for plate, array in reads
    )
    return RowsAhead(draw, size)
