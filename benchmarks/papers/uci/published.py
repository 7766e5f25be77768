"""Table 1 of CSGLD, and the criterion."""

from __future__ import annotations

from typing import NamedTuple

ALGORITHMS = ("SGD", "SGLD", "CSGLD", "M-SGD", "SGHMC", "CSGHMC")
#: the algorithms at temperature 0
DESCENTS = ("SGD", "M-SGD")
#: the algorithms with flattening
CONTOUR = ("CSGLD", "CSGHMC")
#: the algorithms with momentum
WITH_MOMENTUM = ("M-SGD", "SGHMC", "CSGHMC")
#: a cell holds if it is at most this many times the paper's mean
TOLERANCE = 1.15
#: the aim for the number of cells that hold
WANTED = 18


class Published(NamedTuple):
    """A row of Table 1 of Deng, Lin and Liang (2020), "A contour stochastic gradient Langevin
    dynamics algorithm for simulations of multi-modal distributions", arXiv 2010.09800.
    """

    temperature: float
    zeta: float
    #: mean RMSE of each of `ALGORITHMS`
    rmse: tuple[float, ...]


PUBLISHED = {
    "energy": Published(1.0, 1.0, (1.13, 1.08, 1.02, 0.95, 0.77, 0.76)),
    "concrete": Published(5.0, 1.0, (4.60, 4.12, 3.98, 4.32, 4.25, 4.15)),
    "yacht": Published(1.0, 2.5, (0.81, 0.72, 0.69, 0.73, 0.66, 0.72)),
    "wine": Published(5.0, 10.0, (0.65, 0.63, 0.62, 0.71, 0.67, 0.65)),
}


class Task(NamedTuple):
    """A target to predict."""

    label: str
    #: its row in `PUBLISHED`
    row: str
    file: str
    target: str | None = None
    #: whether the criterion counts it; only one of the two loads of "energy" counts
    counts: bool = True

    @property
    def published(self) -> Published:
        """The paper's row."""
        return PUBLISHED[self.row]

    def rmse_of(self, algorithm: str) -> float:
        """The paper's mean RMSE."""
        return self.published.rmse[ALGORITHMS.index(algorithm)]


TASKS = (
    Task("energy, heating", "energy", "energy", "heating_load", counts=False),
    Task("energy, cooling", "energy", "energy", "cooling_load"),
    Task("concrete", "concrete", "concrete"),
    Task("yacht", "yacht", "yacht"),
    Task("wine", "wine", "wine_red"),
)


def holds(found: float, published: float) -> bool:
    """Whether a mean RMSE is at most the paper's mean times the tolerance."""
    return found <= TOLERANCE * published


def count_cells(means: dict[Task, dict[str, float]], counted: bool = True) -> tuple[int, int]:
    """The number of cells that hold, and the number of all cells.

    Args:
        means: mean RMSE by task and algorithm.
        counted: whether to use the load of "energy" that counts, or the other one.
    """
    held = [
        holds(found, task.rmse_of(name))
        for task, row in means.items()
        if task.counts is counted or task.row != "energy"
        for name, found in row.items()
    ]
    return sum(held), len(held)
