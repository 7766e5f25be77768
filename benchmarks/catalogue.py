"""All benchmarks: the question that each answers, and the page of the docs that it writes."""

from __future__ import annotations

from typing import NamedTuple


class Benchmark(NamedTuple):
    """A benchmark, whose module is `benchmarks.` and its name in the table."""

    #: page of the docs that has its section; None where it writes something else
    page: str | None
    question: str


#: the benchmarks, in the order in which they run and of their sections
BENCHMARKS = {
    name: Benchmark(page, question)
    for page, rows in {
        "benchmarks.md": {
            "accuracy.mixture": "Are theta, means and masses of the paper's mixture right?",
            "accuracy.nine_modes": "Which kernel finds nine modes, at which step size?",
            "accuracy.family": "How accurate is every kernel with nothing given?",
            "accuracy.defaults": "Does the warm-up find settings that give right answers?",
            "accuracy.sensitivity": "How much depends on what the warm-up finds?",
            "posteriordb": "Are posteriors with reference draws right?",
            "accuracy.kinds": "Are ordinary models right, or called bad, from default starts?",
            "accuracy.correlation": "What does each form of preconditioner gain on correlations?",
            "minibatches.subsampling": "Are posteriors from minibatches right, at what cost?",
            "minibatches.modes_of_rows": "Can chains cross between two modes with subsampling?",
            "minibatches.peers_on_rows": "Which sampler weighs such modes best in as many rows?",
            "accuracy.crossings": "What do the partition and the noise do to crossings?",
            "accuracy.moving_theta": "What bias comes from a theta that still moves?",
            "accuracy.shared_theta": "What is gained by chains that share theta?",
            "accuracy.jumps": "Are energies that jump answered right, or called bad?",
            "accuracy.curvature": "What is gained by Metropolis-Hastings where curvature varies?",
            "accuracy.coverage": "Do reported Monte Carlo errors agree with replicate runs?",
            "calibration": "Are posteriors calibrated over data that the prior makes?",
            "accuracy.one_chain": "Are wrong answers of one chain, or of four, called faultless?",
            "accuracy.diagnose": "Does `diagnose` find broken runs, and pass correct ones?",
            "cost.step_cost": "What does a step cost, compared with a bare loop and blackjax?",
            "networks.table2": "Table 2 of CSGLD: how good are averages of networks?",
            "networks.reference": "Which kernel predicts as NUTS does on a small network?",
            "networks.step": "What does a step on a residual network cost, beside optax?",
            "stored_runs.kills": "Is a stored run that was killed again and again the same run?",
            "stored_runs.soak": "Does anything grow, drift or break in 1,000 million steps?",
        },
        None: {
            "figures": "What do the pictures of the docs look like?",
            "arviz_functions": "Which functions of ArviZ are right? (the table of docs/arviz.md)",
        },
        "papers.md": {
            "papers.mixture": "Figures 1 and 2 of CSGLD: does it learn theta as the paper says?",
            "papers.nine_modes": "Figure 3 of CSGLD: which methods find nine modes?",
            "papers.uci": "Table 1 of CSGLD: how large are held-out errors on UCI data?",
            "papers.replica_exchange": "Slides of reSGLD: what is gained by correcting swaps?",
            "papers.peaks": "Figure 4 of CSGLD: where are the bizarre peaks?",
        },
        "peers.md": {
            "peers.posteriors": "Which sampler has less error at equal gradients or seconds?",
            "peers.curves": "How does the error fall with gradients, and with rows?",
            "peers.known_modes": "What is gained by jumps between modes that are known?",
            "peers.coverage": "Are the reported errors right, and the verdicts?",
            "peers.mode_jumping": "What is gained by NUTS with jumps between modes?",
            "peers.by_the_clock": "Which sampler is first to know the masses of modes?",
            "peers.flights": "What is gained by minibatches on three million rows?",
        },
        "barriers.md": {
            "barriers.two_normals": "Are two labellings found that are 386 nats apart?",
            "barriers.unequal": "Is a mode mass right if it is not one half?",
            "barriers.gaussians": "How high a barrier can be crossed, and in which dimension?",
            "barriers.gain": "Does the gain of theta move the answers?",
            "barriers.time": "Where are the steps of a climb spent?",
            "barriers.step": "What does a step of a climb cost?",
        },
        "cost.md": {
            "cost.steps": "How does the cost of a step grow with data, model and partition?",
            "cost.preconditioners": "What does each form of preconditioner cost by dimension?",
            "cost.chains": "What do many vectorised chains cost, compared with one?",
            "cost.numpy_rule": "How much faster is a step than the authors' rule in NumPy?",
            "cost.first_answer": "How long does a first run of a small model take, beside NUTS?",
            "cost.small_models": "What does a step on a small model cost, beside a bare loop?",
            "cost.compiling": "How long does the first draw take, and how much is compiling?",
            "cost.memory": "What does a run keep in memory?",
            "cost.large_data": "Are rows larger than memory right, and what does a step cost?",
            "cost.after_run": "What do tables and the InferenceData cost after a run?",
            "cost.devices": "Do several devices change answers, and what do they send?",
            "cost.accelerator": "What does a step cost on a GPU, beside a bare loop?",
        },
    }.items()
    for name, question in rows.items()
}

#: the text before the sections of a page
HEADS = {
    "benchmarks.md": """\
# Benchmarks

`make benchmark` writes this page.

""",
    "papers.md": """\
# The papers' experiments

`make benchmark` writes this page, and `python -m benchmarks papers.NAME ...` writes single
sections, with `--quick` in a short form. Every number is printed by the scripts in
`benchmarks/papers`.

""",
    "peers.md": """\
# Peers at equal work

`make benchmark` writes this page, and `python -m benchmarks peers.NAME ...` writes single
sections, with `--quick` in a short form. Every number is printed by the scripts in
`benchmarks/peers`. The errors of all runs are kept in `docs/peers`, and
`python -m benchmarks peers.posteriors --only NAME ...` measures single posteriors again.

""",
    "barriers.md": """\
# Barriers of hundreds of nats

`make benchmark` writes this page, and `python -m benchmarks barriers.NAME ...` writes single
sections, with `--quick` in a short form. Every number is printed by the scripts in
`benchmarks/barriers`.
[Which sampler?](which.md) says when to state a `barrier`, and [Warm-up](choosing.md) says what it
decides.

All runs here are with `jumps=False`, but where a row says so: they show what climbs reach by
themselves. A crossing is a change of mode from one draw to the next. Crossings within the steps of
one draw are not seen. Half of the gradients are warm-up, and only the draws after it count.

""",
    "cost.md": """\
# What a step costs

`make benchmark` writes this page, and `python -m benchmarks cost.NAME ...` writes single
sections, with `--quick` in a short form. Every number is printed by the scripts in
`benchmarks/cost`. Methods that are compared take turns in one process, so that a busy machine slows
all of them alike.

""",
}
