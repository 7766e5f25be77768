"""Regression on UCI data: Table 1 of CSGLD at its settings, then the kernels with nothing given."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from benchmarks.papers.uci.network import HIDDEN, L2, MINIBATCH
from benchmarks.papers.uci.nothing_given import KERNELS, KernelLength, run_kernel
from benchmarks.papers.uci.published import ALGORITHMS, TASKS, Task
from benchmarks.papers.uci.runs import (
    AS_WRITTEN,
    BIN_WIDTH,
    BINS,
    MOMENTUM,
    OTHERS,
    STEP_SIZE,
    Length,
    Reading,
    run_task,
    splits_of,
)
from benchmarks.papers.uci.scores import Scores
from benchmarks.papers.uci.text import (
    Found,
    misses,
    reading_table,
    rmse_table,
    score_table,
    verdict,
)
from benchmarks.shared.experiment import Experiment


def run_readings(
    tasks: tuple[Task, ...], names: tuple[str, ...], readings: tuple[Reading, ...], length: Length
) -> dict[str, Found]:
    """The cells of each reading: the first for all tasks, the others for tasks that count."""
    jobs = [(AS_WRITTEN, task, names) for task in tasks]
    for reading in readings:
        changed = tuple(name for name in names if name in reading.changes)
        jobs += [(reading, task, changed) for task in tasks if task.counts]
    # Two at a time, since the steps of a run are sequential and keep one core busy.
    with ThreadPoolExecutor(2) as pool:
        cells = pool.map(lambda job: run_task(job[1], length, job[2], job[0]), jobs)
    found: dict[str, Found] = {}
    for (reading, task, _), row in zip(jobs, cells):
        as_written = found.get(AS_WRITTEN.label, {}).get(task, {})
        found.setdefault(reading.label, {})[task] = as_written | row
    return found


def main(experiment: Experiment) -> str:
    """The section of the page."""
    length = experiment.choose(Length(5000, 50, 10), Length(4, 2, 2))
    kernels = experiment.choose(KernelLength(2000, 4, 50), KernelLength(8, 2, 20, KERNELS[:1]))
    tasks = experiment.choose(TASKS, TASKS[3:4])
    names = experiment.choose(ALGORITHMS, ("SGD", "SGLD", "CSGHMC"))
    readings = run_readings(tasks, names, experiment.choose(OTHERS, OTHERS[:1]), length)
    found = readings[AS_WRITTEN.label]
    # One at a time, since NumPyro's handlers are not safe with threads.
    ours: dict[Task, dict[str, Scores]] = {
        task: {
            kernel.__name__: run_kernel(kernel, splits_of(task, 1)[0], kernels)
            for kernel in kernels.kernels
        }
        for task in tasks
        if task.counts
    }
    return f"""\
## Regression on UCI data (CSGLD, section 4.2, Table 1)

The network has one hidden layer of {HIDDEN} rectified units. It is trained for {length.epochs:,}
epochs in minibatches of {MINIBATCH} drawn with replacement, with step size {STEP_SIZE}, momentum
{MOMENTUM} where there is one, {length.seeds} seeds, and the temperature and zeta of Table 1. Inputs
are standardised and targets are centred by the training rows; targets keep their unit. U is N/n
times half the sum of squared errors, plus {L2} / 2 times the sum of squared weights. Bins are
{BIN_WIDTH:g} nats wide and reach from 0 to {BINS * BIN_WIDTH:,.0f}. SGD and M-SGD are SGLD and
SGHMC at temperature 0. The contour algorithms are Algorithm 1 as it is written, with equations (6)
and (10) and weights theta(J)^zeta, where J comes from the energies of minibatches. Predictions are
averaged over {length.models} models by their weights, from equal parts of the second half of the
epochs. A model stands for its part: it is one of its steps, drawn by the weights, and has their
mean weight. The RMSE is on held-out rows in the target's own unit, as mean and standard deviation
over runs.

On one split, fixed before any run ({length.seeds} seeds of the algorithm on split 0):

{rmse_table(found, "fixed")}
{verdict(found, "fixed")}
{misses(found, "fixed")}
On {length.seeds} random splits (seeds 0 to {length.seeds - 1}, both for split and algorithm):

{rmse_table(found, "random")}
{verdict(found, "random")}
{misses(found, "random")}
### Other readings of the paper

The paper leaves some choices open, and each row changes one of them. The table gives the number of
cells that hold, among those that count, and the mean RMSE on the fixed split. With a zeta of 10,
equation (10) hardly moves theta, since theta^10 is almost 0 in every bin; the authors' later
equation (15) does move it.

{reading_table(readings)}
### With nothing given

The model is that of `examples/concrete.py`, with standardised targets and learnt noise. Kernels
have all their defaults and run on split 0: {kernels.chains} chains of {kernels.epochs:,} epochs
each, half of them warm-up, with {kernels.draws} draws averaged. The figures are those of single
chains. For the paper's settings, the noise variance is the temperature of Table 1, and the figures
are those of the table above.

{score_table(found, ours)}"""
