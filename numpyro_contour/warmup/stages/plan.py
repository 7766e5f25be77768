"""The plan of a warm-up: its kinds of stages, and tables of them with their shares of the draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class Stage:
    """A stage of the warm-up.

    Its flags are read by the programs that make draws. All chains and all stages share these
    programs, so that a further stage costs no compilation.
    """

    #: its name in the group `warmup` and in the progress bar
    name: str
    #: whether moves are measured: both ends are evaluated on one minibatch. Else the kernel's own
    #: sampler makes the draw
    measures: bool = False
    #: whether the chain descends to a typical point instead of sampling
    descends: bool = False
    #: whether the step size is searched for
    searches: bool = False
    #: whether theta is learnt and the density flattened
    flattens: bool = False
    #: whether anchors are placed where energies are noisy
    places_anchors: bool = False
    #: whether the energy partition is renewed when the stage ends
    renews_partition: bool = False
    #: whether theta begins anew when the stage ends
    begins_theta: bool = False
    #: the steps and relaxation times after which the stage ends if it has a larger share, if the
    #: steps of a draw are found and chains have begun in modes
    enough_steps: int = 0
    enough_times: int = 0


#: to a typical point
DESCENT = Stage("descent", measures=True, descends=True)
#: the step size is searched for, and the preconditioner for it
TUNE = Stage(
    "tune",
    places_anchors=True,
    measures=True,
    searches=True,
    enough_steps=2_000,
    enough_times=50,
)
#: at the step size that was found, whose noise is measured
SETTLE = Stage("settle", places_anchors=True, measures=True, enough_steps=4_000, enough_times=100)
#: the density as it is: its energies say where bins are needed
PILOT = Stage(
    "pilot",
    places_anchors=True,
    renews_partition=True,
    begins_theta=True,
    enough_steps=4_000,
    enough_times=100,
)
#: flattened: weighted energies say better where bins are needed
WINDOW = Stage(
    "window",
    flattens=True,
    places_anchors=True,
    renews_partition=True,
    enough_steps=6_000,
    enough_times=200,
)
#: as after the warm-up, until theta has settled
LEARN = Stage("learn", flattens=True, places_anchors=True, enough_steps=12_000, enough_times=400)
#: after the warm-up
SAMPLE = Stage("sample", flattens=True)


#: stage and its share of the warm-up
Row = tuple[Stage, float]

DESCEND: tuple[Row, ...] = ((DESCENT, 0.1),)
FIND_STEP_SIZE: tuple[Row, ...] = (
    (TUNE, 0.05),
    (TUNE, 0.05),
    (TUNE, 0.1),
    (TUNE, 0.1),
    (SETTLE, 0.1),
)
# The first for an anchor nearer to the bulk, the second for the noise with it.
MEASURE_NOISE: tuple[Row, ...] = ((SETTLE, 0.05), (SETTLE, 0.05))
FIND_PARTITION: tuple[Row, ...] = (
    (PILOT, 0.1),
    (WINDOW, 0.4 / 7),
    (WINDOW, 0.8 / 7),
    (LEARN, 1.6 / 7),
)
ADAPT: tuple[Row, ...] = ((LEARN, 0.4),)
#: For barriers of a stated height: most of it goes into theta. Where a window has found a deeper
#: mode, the learning begins again, on lower bins.
CLIMB: tuple[Row, ...] = (
    (DESCENT, 0.04),
    *((TUNE, 0.02),) * 3,
    (TUNE, 0.04),
    (PILOT, 0.04),
    (WINDOW, 0.06),
    (WINDOW, 0.08),
    *((WINDOW, 0.1),) * 5,
    (LEARN, 0.18),
)


class Progress(NamedTuple):
    """Where in its plan a warm-up is, before its next draw."""

    #: number of the stage, from 0; after the warm-up the number of stages
    number: jax.Array
    #: draws since the stage began, and draws that it takes
    since: jax.Array
    total: jax.Array
    #: whether the draw that is being made ends the stage
    ends: jax.Array


@dataclass(frozen=True)
class Plan:
    """The stages of a warm-up in their order, and the shares of its draws at which they end."""

    stages: tuple[Stage, ...]
    ends: tuple[float, ...]
    #: fewest draws of warm-up: each stage needs one of its own
    least: int

    @classmethod
    def of(cls, rows: tuple[Row, ...], least: int = 20) -> Plan | None:
        """The plan of a table, None where nothing is to be found."""
        if not rows:
            return None
        total = sum(share for _, share in rows)
        ends, end = [], 0.0
        for _, share in rows:
            end += share / total
            ends.append(min(end, 1.0))
        ends[-1] = 1.0
        return cls(tuple(stage for stage, _ in rows), tuple(ends), least)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the stages."""
        return tuple(stage.name for stage in self.stages)

    @property
    def places_anchor(self) -> tuple[bool, ...]:
        """Whether an anchor is placed when a stage ends: after the descent, and nearer the bulk.

        Not after the last search: step size and noise must belong to the final anchor.
        """
        search = TUNE if TUNE in self.stages else SETTLE
        last = self.last(search)
        return tuple(
            stage is DESCENT or (stage is search and number != last)
            for number, stage in enumerate(self.stages)
        )

    def last(self, stage: Stage) -> int:
        """The number of the last stage of this kind, -1 if there is none."""
        return max((i for i, other in enumerate(self.stages) if other is stage), default=-1)

    def pace(self, number: int, draws: int) -> tuple[int, int, int]:
        """The length of a warm-up by the draws of one stage, and where that begins and ends.

        Args:
            number: of the stage.
            draws: how many it is to take.
        """
        share = self.ends[number] - (self.ends[number - 1] if number else 0.0)
        length = max(self.least, round(draws / share))
        bounds = [0, *self.bounds_of(length)]
        return length, bounds[number], bounds[number + 1]

    def bounds_of(self, length: int) -> list[int]:
        """The draws at which the stages of a warm-up on the host end."""
        ends = np.asarray(self.ends, np.float32) * np.float32(length)
        return np.round(ends).astype(int).tolist()

    def bounds(self, length: jax.Array) -> jax.Array:
        """The draws at which the stages end, (stages,)."""
        ends = jnp.asarray(self.ends, jnp.float32) * jnp.asarray(length, jnp.float32)
        return jnp.round(ends).astype(jnp.int32)

    def progress(self, draw: jax.Array, length: jax.Array) -> Progress:
        """Where in the plan a warm-up of so many draws is before a draw, from 0."""
        bounds = self.bounds(length)
        number = jnp.sum(draw >= bounds)
        start = jnp.concatenate([jnp.zeros((1,), jnp.int32), bounds])[number]
        end = bounds[jnp.minimum(number, len(self.stages) - 1)]
        return Progress(number, draw - start, end - start, draw + 1 == end)

    def flag(self, name: str, number: jax.Array) -> jax.Array:
        """A flag of the stage of this number; after the warm-up that of sampling."""
        return jnp.asarray([getattr(stage, name) for stage in (*self.stages, SAMPLE)])[number]
