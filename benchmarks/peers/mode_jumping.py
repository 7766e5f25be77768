"""`ModeJumping` around NUTS: posteriors, first runs, one mode, coverage, invariance, models.

`python -m benchmarks peers.mode_jumping --only START ...` measures only the rows with these
prefixes, and rewrites the section with those that are kept. A row has the name of its part, a colon
and its own: `--only "coverage: galaxies"`.
"""

from __future__ import annotations

from benchmarks.mode_jumping import (
    annealed,
    coverage,
    first_runs,
    invariance,
    narrow,
    one_mode,
    outcomes,
    posteriors,
)
from benchmarks.mode_jumping.kept import Kept
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.pages import made_with

#: parts of the section, in their order
PARTS = {
    "posteriors": posteriors,
    "models": outcomes,
    "first run": first_runs,
    "one mode": one_mode,
    "coverage": coverage,
    "invariance": invariance,
    "narrow": narrow,
    "annealed": annealed,
}
#: those of the quick form: the others start processes that import all packages again
QUICK = "annealed", "coverage"


def main(experiment: Experiment) -> str:
    """The section of the page."""
    texts = []
    for name, part in PARTS.items():
        kept = Kept(name, experiment.folder, experiment.only)
        if not experiment.quick or name in QUICK:
            part.fill(kept, experiment.quick)
        if kept.rows:
            more = (experiment.folder,) if part is posteriors else ()
            texts.append(part.text(kept.rows, *more))
    return (
        "## NUTS with jumps: `ModeJumping`\n\n`ModeJumping(NUTS(model))` finds the modes by "
        "descents before the warm-up, and tries to jump after each draw of NUTS "
        f"([NUTS with several modes](several_modes.md)). {made_with()}\n\n" + "\n".join(texts)
    )
