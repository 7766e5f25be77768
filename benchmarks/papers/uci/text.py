"""The tables of the UCI experiment, and the text about cells that miss the limit."""

from __future__ import annotations

import numpy as np

from benchmarks.papers.uci.published import (
    ALGORITHMS,
    CONTOUR,
    PUBLISHED,
    TOLERANCE,
    WANTED,
    Task,
    count_cells,
    holds,
)
from benchmarks.papers.uci.runs import BIN_WIDTH, Cell, Runs
from benchmarks.papers.uci.scores import Scores
from benchmarks.shared.tables import markdown_table

Found = dict[Task, dict[str, Cell]]


def spread(values: np.ndarray) -> str:
    """Mean and sd over runs."""
    return f"{values.mean():.2f} ± {values.std(ddof=1):.2f}"


def names_of(found: Found) -> list[str]:
    """The algorithms that were run, in the paper's order."""
    return [name for name in ALGORITHMS if name in next(iter(found.values()))]


def rmse_table(found: Found, kind: str) -> str:
    """RMSE of the runs of one kind, "fixed" or "random", above the figures of the paper."""
    rows = []
    for task, cells in found.items():
        row = []
        for name in names_of(found):
            values = getattr(cells[name], kind).scores.rmse
            mark = "" if holds(values.mean(), task.rmse_of(name)) else " (missed)"
            row.append(f"{spread(values)}{mark}")
        rows.append([task.label, *row])
        published = [f"{task.rmse_of(name):.2f}" for name in names_of(found)]
        rows.append([f"{task.row} in the paper", *published])
    return markdown_table(["data", *names_of(found)], rows)


def _means(found: Found, kind: str) -> dict[Task, dict[str, float]]:
    return {
        task: {name: getattr(cell, kind).scores.rmse.mean() for name, cell in cells.items()}
        for task, cells in found.items()
    }


def verdict(found: Found, kind: str) -> str:
    """The sentence on the criterion."""
    held, of = count_cells(_means(found, kind))
    text = f"**{held} of {of} cells are at most {TOLERANCE} times the paper's mean**"
    loads = {task.counts: task.label for task in found if task.row == "energy"}
    if loads:
        other, _ = count_cells(_means(found, kind), counted=False)
        text += f", with '{loads[True]}' as the paper's energy ({other} with '{loads[False]}')"
    wanted = f"; the aim is {WANTED}" if of == len(PUBLISHED) * len(ALGORITHMS) else ""
    return f"{text}{wanted}.\n"


def reasons(runs: Runs, limit: float, plain: Runs | None) -> str:
    """The measurements of a cell that misses the limit.

    Args:
        runs: the runs of the cell.
        limit: what its mean RMSE should not exceed.
        plain: the runs of the same algorithm without flattening.
    """
    rmse = runs.scores.rmse
    fall = 1 - rmse.mean() / runs.earlier.mean()
    known = [
        f"{rmse.mean():.2f} ± {rmse.std(ddof=1) / len(rmse) ** 0.5:.2f} (standard error), limit "
        f"{limit:.2f}",
        f"median {np.median(rmse):.2f}, worst {rmse.max():.2f}",
        f"{runs.training.mean():.2f} on the training rows",
    ]
    if fall > 0.03:
        known.append(f"still falling, by {fall:.0%} from the previous quarter of the run")
    else:
        known.append(f"no longer falling ({runs.earlier.mean():.2f} in the previous quarter)")
    if plain is not None:
        known.append(f"{plain.scores.rmse.mean():.2f} without flattening")
        known.append(
            f"the noise of an energy is {runs.energy_noise.mean() / BIN_WIDTH:.1f} bins, and the "
            f"weights leave an effective {runs.kish.mean():.0%} of the models"
        )
    return "; ".join(known)


def misses(found: Found, kind: str) -> str:
    """A line for each cell that misses the limit."""
    plain = dict(zip(CONTOUR, ("SGLD", "SGHMC")))
    lines = []
    for task, cells in found.items():
        for name in names_of(found):
            runs = getattr(cells[name], kind)
            if not holds(runs.scores.rmse.mean(), task.rmse_of(name)):
                beside = cells.get(plain.get(name, ""))
                text = reasons(
                    runs,
                    TOLERANCE * task.rmse_of(name),
                    beside and getattr(beside, kind),
                )
                lines.append(f"- {task.label}, {name}: {text}.\n")
    return "".join(["Cells that miss the limit, with measurements:\n\n", *lines]) if lines else ""


def reading_table(readings: dict[str, Found]) -> str:
    """For each reading, the number of cells that hold and the contour algorithms' means."""
    rows, tasks = [], [task for task in next(iter(readings.values())) if task.counts]
    for label, all_found in readings.items():
        found = {task: all_found[task] for task in tasks}
        held = [count_cells(_means(found, kind)) for kind in ("fixed", "random")]
        means = _means(found, "fixed")
        contour = [
            " / ".join(f"{row[name]:.2f}" for name in CONTOUR if name in row)
            for row in means.values()
        ]
        rows.append([label, *(f"{part} of {of}" for part, of in held), *contour])
    labels = [f"{task.label}, {' / '.join(CONTOUR)}" for task in tasks]
    return markdown_table(["reading", "fixed split", "random splits", *labels], rows)


def score_table(found: Found, ours: dict[Task, dict[str, Scores]]) -> str:
    """Figures of the kernels with nothing given, and of the paper's settings."""
    rows = []
    for task, kernels in ours.items():
        paper = {
            f"{name}, paper's settings": found[task][name].fixed.scores for name in ("SGD", "SGLD")
        }
        for name, scores in (paper | kernels).items():
            rows.append([task.label, name, *(spread(values) for values in scores)])
    header = ["data", "algorithm", "RMSE", "log likelihood a row", "coverage of 90 % intervals"]
    return markdown_table(header, rows)
