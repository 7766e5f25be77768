"""What does each function of ArviZ say of the draws of equal weight? The table of docs/arviz.md.

Each run fills the column of the ArviZ that is installed, and keeps the other one as it is.
"""

from __future__ import annotations

import re

import arviz as az
import matplotlib.pyplot as plt

from benchmarks.arviz_functions.calls import FAIL, RIGHT, WHAT_ELSE, calls
from benchmarks.arviz_functions.case import Case
from benchmarks.shared import runs
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.pages import DOCS
from benchmarks.shared.tables import markdown_table

BEGIN, END = "<!-- functions of ArviZ -->\n", "<!-- end of the functions -->\n"
#: draws of a chain
DRAWS = 1000
#: the columns, by the first number of the version
COLUMNS = {"0": "arviz 0.23", "1": "arviz 1.x"}
COLUMN = COLUMNS[az.__version__.split(".")[0]]


def tried(case: Case, name: str) -> str:
    """What a function is found to do: right, or what to do instead, or what goes wrong."""
    note = WHAT_ELSE[COLUMN].get(name)
    try:
        calls(case)[name]()
    except Exception as error:  # of whatever kind: that is what the table is to tell
        failed = f"{type(error).__name__}: {error}"
        return note if note is not None and name in FAIL else failed
    finally:
        plt.close("all")
    return note or RIGHT[name.startswith("plot_")]


def column(draws: int) -> dict[str, str]:
    """What each function does with the ArviZ that is installed, by name."""
    case = Case.of_run(draws)
    with runs.quiet():
        return {name: tried(case, name) for name in calls(case)}


def read(page: str) -> dict[str, dict[str, str]]:
    """The columns of the table on a page."""
    _, _, after = page.partition(BEGIN)
    lines = after.partition(END)[0].strip().splitlines()[2:]
    if not lines:
        return {version: {} for version in COLUMNS.values()}
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    columns = zip(*[cells[1:] for cells in rows])
    names = [re.sub(r"^`az\.|`$", "", cells[0]) for cells in rows]
    return {
        version: {name: cell for name, cell in zip(names, cells) if cell != "-"}
        for version, cells in zip(COLUMNS.values(), columns)
    }


def table(columns: dict[str, dict[str, str]]) -> str:
    """The table of both versions, statistics first."""
    names = sorted({n for of in columns.values() for n in of}, key=lambda n: ("plot_" in n, n))
    rows = [[f"`az.{n}`", *(columns[v].get(n, "-") for v in COLUMNS.values())] for n in names]
    return markdown_table(["function", *COLUMNS.values()], rows)


def main(experiment: Experiment) -> str:
    """The table, which is also written into docs/arviz.md where this is the full form."""
    path = DOCS / "arviz.md"
    page = path.read_text(encoding="utf-8")
    columns = read(page) | {COLUMN: column(experiment.choose(DRAWS, 300))}
    text = table(columns)
    if not experiment.quick and BEGIN in page:
        before, after = page.split(BEGIN)[0], page.split(END)[1]
        path.write_text(before + BEGIN + text + END + after, encoding="utf-8")
    return text
