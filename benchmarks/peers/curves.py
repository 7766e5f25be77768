"""How errors fall as the work grows: against gradients, or rows where these make the modes.

`python -m benchmarks peers.curves --only START ...` measures only the posteriors whose names have
these prefixes, and draws the figure with the points that are kept of the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import jax
import numpy as np
from matplotlib.figure import Figure

from benchmarks.minibatches.modes_of_rows.runs import on_minibatches
from benchmarks.minibatches.modes_of_rows.target import Length
from benchmarks.minibatches.modes_of_rows.targets import target_of
from benchmarks.minibatches.peers_on_rows.methods import Found, Peers
from benchmarks.peers import by_blackjax
from benchmarks.peers.methods import CHAINS, RUNS, Method, run
from benchmarks.peers.ours import NUTS_METHODS, OURS
from benchmarks.peers.targets import targets
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table, standard_error

#: posteriors and methods of the panels of gradients, and parts of the usual number of gradients
BY_GRADIENTS = ("nine modes, 2-d", "two modes, 20-d", "many wells, 32-d")
METHODS = (
    *("ContourSGLD", "ReplicaExchangeSGLD", "csgld, documented", "sgld, our step"),
    *("tempered SMC", "nested slice sampling", "NUTS, 16 chains"),
)
GRADIENTS = (1 / 16, 1 / 4, 1.0, 4.0)
#: the largest part of a method whose runs would take an hour
MOST = {"nested slice sampling": 1.0}
#: the posterior of the panel of rows, and the parts of the usual number of steps
BY_ROWS = ("amplitude, N = 20,000",)
ROWS = (1 / 4, 1 / 2, 1.0)
#: errors below this are drawn here
FLOOR = 3e-4


@dataclass(frozen=True)
class Point:
    """A run's work and its error."""

    method: str
    #: gradients or rows of all chains of a run
    work: float
    #: the mean over runs and its standard error; the root mean square where the modes are of rows
    error: float
    spread: float


def against_gradients(number: int, parts: Iterable[float], names: tuple[str, ...]) -> list[Point]:
    """The total variation of runs by each method, with parts of the target's gradients."""
    target = targets()[number]
    every: tuple[Method, ...] = (*OURS, *by_blackjax.METHODS, *NUTS_METHODS)
    points = []
    for method in (one for one in every if one.name in names):
        for part in (one for one in parts if one <= MOST.get(method.name, np.inf)):
            outcome = run(method, target, int(part * target.gradients))
            error = outcome.variation if target.multimodal else outcome.mean_error
            name = method.name if method.package == "numpyro_contour" else _full(method)
            shown = (float(error.mean()), float(standard_error(error)))
            points.append(Point(name, outcome.gradients, *shown))
            print(target.name, points[-1], flush=True)
    return points


def _full(method: Method) -> str:
    return f"{method.package}'s {method.name}"


def against_rows(name: str, parts: Iterable[float], quick: bool = False) -> list[Point]:
    """The errors of a mode's mass by each method, in runs with parts of the usual steps."""
    whole = target_of(name, quick)
    points = []
    for part in parts:
        # Draws cost a pass over all rows each: both they and the steps between them become fewer.
        root = part**0.5
        usual = whole.length
        length = Length(*(round(root * n) for n in (usual.warmup, usual.draws, usual.num_steps)))
        target = replace(whole, length=length)
        runs = [on_minibatches(target, seed=seed, jumps=None) for seed in range(RUNS)]
        masses = np.concatenate([one.masses for one in runs])
        found = [Found("ContourSGLD", masses, float(np.mean([one.rows for one in runs])))]
        peers = Peers(target, runs[0])
        methods = [peers.sgld, peers.csgld] + ([] if quick else [peers.nuts, peers.smc])
        for method in methods:
            jax.clear_caches()
            found.append(method())
        for one in found:
            of_runs = (one.masses.reshape(RUNS, -1).mean(1) - target.mass) ** 2
            error = float(np.sqrt(of_runs.mean()))
            # By the delta method, as the error is a root.
            spread = float(standard_error(of_runs)) / (2 * max(error, 1e-12))
            named = one.name if one.name != "NUTS" else "numpyro's NUTS"
            points.append(Point(named, one.rows, error, spread))
            print(target.name, points[-1], flush=True)
    return points


def measure(name: str) -> list[Point]:
    """All points of a panel."""
    if name in BY_ROWS:
        return against_rows(name, ROWS)
    number = [target.name for target in targets()].index(name)
    return against_gradients(number, GRADIENTS, METHODS)


def kept_in(folder: Path) -> dict[str, list[Point]]:
    """The points that were kept, by posterior."""
    place = folder / "peers" / "curves.json"
    kept = json.loads(place.read_text()) if place.exists() else {}
    return {name: [Point(*values) for values in points] for name, points in kept.items()}


def keep(name: str, points: list[Point], folder: Path) -> None:
    """Put a posterior's points among those that are kept."""
    every = kept_in(folder) | {name: points}
    shown = []
    for key in (*BY_GRADIENTS, *BY_ROWS):
        rows = [json.dumps(_plain(point)) for point in every.get(key, [])]
        shown += [json.dumps(key) + ": [\n" + ",\n".join(rows) + "\n]"] if rows else []
    place = folder / "peers" / "curves.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("{\n" + ",\n".join(shown) + "\n}\n")


def _plain(point: Point) -> list[str | float]:
    return [point.method, *(float(f"{v:.4g}") for v in (point.work, point.error, point.spread))]


def drawn(panels: dict[str, list[Point]]) -> Figure:
    """A panel for each posterior: errors against gradients, or against rows."""
    names = list(dict.fromkeys(point.method for points in panels.values() for point in points))
    figure = Figure(figsize=(8.5, 8.0), layout="constrained")
    handles = {}
    for axis, name in zip(figure.subplots(2, 2).flat, (*BY_GRADIENTS, *BY_ROWS)):
        for method in names:
            line = [point for point in panels.get(name, []) if point.method == method]
            if line:
                _line(axis, line, names.index(method))
        of = "rows" if name in BY_ROWS else "gradients"
        axis.set(xscale="log", yscale="log", title=name, xlabel=f"{of} of a run")
        axis.set_ylabel("error of mode masses")
        axis.grid(alpha=0.3)
        handles |= dict(zip(*axis.get_legend_handles_labels()[::-1]))
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3)
    return figure


def _line(axis: object, line: list[Point], number: int) -> None:
    ours = not any(line[0].method.startswith(word) for word in ("blackjax", "numpyro"))
    line = sorted(line, key=lambda point: point.work)
    work, error, spread = np.array([[p.work, p.error, p.spread] for p in line]).T
    axis.errorbar(  # type: ignore[attr-defined]
        work,
        np.maximum(error, FLOOR),
        np.minimum(spread, 0.9 * np.maximum(error, FLOOR)),
        label=line[0].method,
        color=f"C{number}",
        marker="osD^vP*X<>"[number],
        lw=2.4 if line[0].method == "ContourSGLD" else 1.2,
        ls="-" if ours else "--",
        capsize=2,
    )


def table(panels: dict[str, list[Point]]) -> str:
    """Work and error of every point."""
    rows = []
    for name, points in panels.items():
        for method in dict.fromkeys(point.method for point in points):
            line = sorted((p for p in points if p.method == method), key=lambda p: p.work)
            cells = [f"{p.work / 1e6:,.3g}: {p.error:.3f} ± {p.spread:.3f}" for p in line]
            first = not rows or all(row[0] != name for row in rows)
            rows.append([name if first else "", method, "; ".join(cells)])
    return markdown_table(["posterior", "method", "millions of gradients or rows: error"], rows)


def main(experiment: Experiment) -> str:
    """The section of the page."""
    if experiment.quick:
        panels = {
            BY_GRADIENTS[0]: against_gradients(0, (0.02, 0.04), METHODS[:1]),
            BY_ROWS[0]: against_rows(BY_ROWS[0], (0.5, 1.0), quick=True),
        }
    else:
        # The programs that a process has compiled are freed with it.
        with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
            for name in (*BY_GRADIENTS, *BY_ROWS):
                if name.startswith(experiment.only):
                    keep(name, pool.submit(measure, name).result(), experiment.folder)
        panels = kept_in(experiment.folder)
    figure = experiment.save(
        drawn(panels), "error_against_work", "Errors of methods against gradients and rows", dpi=100
    )
    return f"""## How the error falls with the work

Three panels show errors against gradients on posteriors of the first section, with {CHAINS} chains
a run and the same settings; evaluations of the density also count as gradients. The last one shows
errors against rows where the rows make the modes, as in [Peers with as many
rows](benchmarks.md#peers-with-as-many-rows), but with jumps, as they are by default. Methods on all
rows pay N rows for a gradient. `ContourSGLD` pays for its anchors, its jumps and the passes of its
weights. Errors are those of the mode masses of whole runs: total variations, and the root mean
square of one mode's mass in the last panel. Bars are standard errors over {RUNS} runs. A line that
does not fall is one of chains that do not cross. `ContourSGLD` is given nothing but `num_steps`.
Nested sampling makes no runs of more than the usual number of gradients, which would take an hour;
on many wells it has one run, and NUTS none.

{figure}
{table(panels)}"""
