"""The targets of the tables, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from benchmarks.minibatches.modes_of_rows.one_column import amplitude, sign, weak_mixture
from benchmarks.minibatches.modes_of_rows.places_and_times import drive_by, period
from benchmarks.minibatches.modes_of_rows.quadratic_forms import logistic, phase_retrieval
from benchmarks.minibatches.modes_of_rows.target import Length, Target

TARGETS: dict[str, Callable[[], Target]] = {
    "sign": sign,
    "amplitude, N = 20,000": partial(amplitude, 20_000, 200),
    "amplitude, N = 1,000,000": partial(amplitude, 1_000_000, 1000, Length(120, 240, 500)),
    "weak mixture": weak_mixture,
    "period": partial(period, length=Length(300, 300, 200)),
    "drive-by location": drive_by,
    "phase retrieval, 3-d": phase_retrieval,
    "logistic, 6-d": partial(logistic, 6, strength=25),
    "logistic, 20-d": partial(logistic, 20, strength=110, length=Length(150, 300, 200)),
}
#: the target that is drawn
DRAWN = "phase retrieval, 3-d"


def target_of(name: str, quick: bool) -> Target:
    """A target by its name, with runs of seconds in the quick form."""
    target = TARGETS[name]()
    return replace(target, length=Length(20, 20, 50)) if quick else target
