"""All benchmarks: the question that each answers, and the page of the docs that it writes."""

from __future__ import annotations

from typing import NamedTuple


class Benchmark(NamedTuple):
    """A benchmark, whose module is `benchmarks.` and its name in the table."""

    #: page of the docs that has its section; None where it only writes figures
    page: str | None
    question: str


#: in the order in which they run, and of their sections
BENCHMARKS = {
    name: Benchmark(page, question)
    for page, rows in {
        "benchmarks.md": {
            "accuracy.mixture": "Are theta, means and masses of the paper's mixture right?",
            "accuracy.nine_modes": "Which kernel finds nine modes, at which step size?",
            "accuracy.family": "What does every kernel reach with nothing given?",
            "accuracy.defaults": "Does the warm-up find settings that give right answers?",
            "accuracy.sensitivity": "How much depends on what the warm-up finds?",
            "minibatches.subsampling": "Are posteriors from minibatches right, at what cost?",
            "minibatches.modes_of_rows": "Does subsampling leave a way between two modes?",
            "accuracy.crossings": "What do the partition and the noise do to crossings?",
            "accuracy.moving_theta": "What bias has a theta that still moves?",
            "accuracy.coverage": "Are reported Monte Carlo errors those that replicate runs show?",
            "accuracy.diagnose": "Does `diagnose` find broken runs, and pass those that are right?",
            "cost.step_cost": "What does a step cost beside a bare loop and beside blackjax?",
        },
        None: {"figures": "What do the pictures of the docs look like?"},
        "papers.md": {
            "papers.mixture": "Figures 1 and 2 of CSGLD: does it learn theta as the paper says?",
            "papers.nine_modes": "Figure 3 of CSGLD: who finds nine modes?",
            "papers.uci": "Table 1 of CSGLD: how large are held-out errors on UCI data?",
            "papers.replica_exchange": "Slides of reSGLD: what does correcting swaps buy?",
            "papers.peaks": "Figure 4 of CSGLD: where are the bizarre peaks?",
        },
        "peers.md": {
            "peers.posteriors": "Who is nearer the truth at equal gradients and at equal seconds?",
            "peers.flights": "What do minibatches buy on three million rows?",
        },
        "barriers.md": {
            "barriers.two_normals": "Are two labellings found that lie 386 nats apart?",
            "barriers.unequal": "Is a mode mass right that is not a half?",
            "barriers.gaussians": "How far does `barrier` go in height and dimension?",
            "barriers.gain": "Does the gain of theta move the answers?",
            "barriers.time": "Where are the steps of a climb spent?",
            "barriers.step": "What does a step of a climb cost?",
        },
        "cost.md": {
            "cost.steps": "How does the cost of a step grow with data, model and partition?",
            "cost.chains": "What do many vectorised chains cost beside one?",
            "cost.numpy_rule": "How much faster is a step than the authors' rule in NumPy?",
            "cost.compiling": "How long does the first draw take, and how much is compiling?",
            "cost.memory": "What does a run keep in memory?",
        },
    }.items()
    for name, question in rows.items()
}

#: what stands before the sections of a page
HEADS = {
    "benchmarks.md": """\
# Benchmarks

Made by `make benchmark`.

""",
    "papers.md": """\
# The papers' experiments

Made by `make benchmark`; `python -m benchmarks papers.NAME ...` makes single sections, with
`--quick` in short form. Every number is printed by the scripts in `benchmarks/papers`.

""",
    "peers.md": """\
# Peers at equal work

Made by `make benchmark`; `python -m benchmarks peers.NAME ...` makes single sections, with
`--quick` in short form. Every number is printed by the scripts in `benchmarks/peers`; the errors
of all runs are kept in `docs/peers`, and `python -m benchmarks peers.posteriors --only NAME ...`
measures single posteriors anew.

""",
    "barriers.md": """\
# Barriers of hundreds of nats

Made by `make benchmark`; `python -m benchmarks barriers.NAME ...` makes single sections, with
`--quick` in short form. Every number is printed by the scripts in `benchmarks/barriers`.
[Which sampler?](which.md) says when to state a `barrier`, [Warm-up](choosing.md) what it decides.

A crossing is a change of mode from a draw to the next, so that crossings within the steps of one
draw are not seen. Half of the gradients are warm-up, and only the draws after it count.

""",
    "cost.md": """\
# What a step costs

Made by `make benchmark`; `python -m benchmarks cost.NAME ...` makes single sections, with
`--quick` in short form. Every number is printed by the scripts in `benchmarks/cost`. Methods that
are compared take turns in one process, so that a busy machine slows all of them.

""",
}
