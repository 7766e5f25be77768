"""The tables of the comparison, and the sentences about them."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from benchmarks.peers.measure import LEAST, MOST, OWN, REFERENCE, Compared
from benchmarks.peers.methods import CHAINS, RUNS, Outcome
from benchmarks.peers.ours import GIVEN, SEARCHES
from benchmarks.peers.target import Target
from benchmarks.shared.tables import markdown_table, standard_error
from numpyro_contour.kernels.parts import jumping

Found = dict[Target, dict[str, Compared]]
DOCUMENTED, OUR_SETTINGS = "csgld, documented", "csgld, our partition and step"
#: the aim: do better than others on this share of the multimodal targets
SHARE = 6 / 7


def error(values: np.ndarray) -> str:
    """The mean over runs and its standard error."""
    form = ".3f" if values.mean() < 1e4 else ".0e"  # of chains that have left for infinity
    return f"{values.mean():{form}} ± {standard_error(values):{form}}"


def figure_of(target: Target, outcome: Outcome) -> np.ndarray:
    """The error of each run: of mode masses, or of means if there is one mode."""
    return outcome.variation if target.multimodal else outcome.mean_error


def target_table(target: Target, found: dict[str, Compared]) -> str:
    """The table of all methods on one target."""
    rows = []
    for compared in found.values():
        first, second = compared.equal_gradients, compared.equal_seconds
        masses = [error(first.variation), f"{first.chain_variation.mean():.3f}"]
        rows.append(
            [
                first.method.name,
                first.method.package,
                f"{first.gradients / 1000:,.0f}",
                *(masses if target.multimodal else []),
                error(first.mean_error),
                f"{first.seconds:.2f}",
                f"{first.compiling:.1f}",
                "" if second is None else error(figure_of(target, second)),
                "" if second is None else f"{second.seconds:.2f}",
            ]
        )
    header = ["method", "package", "1,000 gradients"]
    header += ["TV", "TV of single chains"] if target.multimodal else []
    figure = "TV" if target.multimodal else "error of means"
    header += ["error of means", "seconds", "compiling", f"{figure}, equal seconds", "seconds used"]
    return markdown_table(header, rows)


def of_chains(outcome: Outcome) -> np.ndarray:
    """Total variation of single chains."""
    return outcome.chain_variation


def of_runs(outcome: Outcome) -> np.ndarray:
    """Total variation of whole runs."""
    return outcome.variation


def won(ours: np.ndarray, theirs: np.ndarray, factor: float) -> bool:
    """Whether our mean error is at most `factor` times theirs; for 1, up to two standard errors."""
    a, b = ours.mean(), theirs.mean()
    if factor < 1:
        return bool(a <= factor * b)
    spread = np.hypot(standard_error(ours), standard_error(theirs))
    return bool(a <= b + 2 * spread)


def claim(found: Found, reference: str, name: str, factor: float, aim: float) -> list[str]:
    """A row of the table of claims: the number of targets where our error is not larger."""
    rows = [
        (target, row[reference].equal_gradients, row[name].equal_gradients)
        for target, row in found.items()
        if target.multimodal and name in row and reference in row
    ]
    cells = []
    for figure in (of_chains, of_runs):
        held = [won(figure(ours), figure(theirs), factor) for _, ours, theirs in rows]
        lost = [
            f"{target.name} ({figure(ours).mean():.3f}, {figure(theirs).mean():.3f})"
            for (target, ours, theirs), holds in zip(rows, held)
            if not holds
        ]
        verdict = "" if not aim else ": holds" if sum(held) >= aim * len(rows) else ": fails"
        cells += [f"{sum(held)} of {len(rows)}{verdict}", "; ".join(lost)]
    method = rows[0][2].method
    size = "at most half of" if factor < 1 else "no worse than"
    text = f"{reference}: {size} {method.package}'s {name}"
    return [text, {1.0: "all", SHARE: "six of seven", 0.0: "none"}[aim], *cells]


def claims(found: Found) -> str:
    """The table of how often our error is the smaller one at equal gradients."""
    methods = {
        name: compared.equal_gradients.method
        for target, row in found.items()
        if target.multimodal
        for name, compared in row.items()
    }
    rows = []
    for name, method in methods.items():
        if method.package == OWN:
            continue
        if name == DOCUMENTED:
            rows.append(claim(found, REFERENCE, name, 0.5, 1.0))
        elif name == OUR_SETTINGS:
            rows += [claim(found, own, name, 1.0, 1.0) for own in GIVEN.values() if own in methods]
        else:
            counts = method.stochastic_gradient or method.package == "numpyro"
            rows.append(claim(found, REFERENCE, name, 1.0, SHARE if counts else 0.0))
    header = ["claim", "aim", "single chains", "exceptions", "runs", "exceptions"]
    return markdown_table(header, rows)


def losses(found: Found) -> str:
    """A line for each target with the peers that do better, at equal gradients or seconds."""
    lines = []
    for target, row in found.items():
        ours = figure_of(target, row[REFERENCE].equal_gradients).mean()
        better = []
        for name, compared in row.items():
            package = compared.equal_gradients.method.package
            both = (compared.equal_gradients, compared.equal_seconds)
            errors = [figure_of(target, o).mean() for o in both if o is not None]
            if package != OWN and min(errors) < ours:
                shown = "; ".join(f"{value:.3f}" for value in errors)
                better.append(f"{package}'s {name} ({shown})")
        if better:
            lines.append(f"- {target.name}, ours {ours:.3f}: {', '.join(better)}.\n")
    return "".join(lines) or "- nowhere.\n"


def overview(found: Found) -> Figure:
    """A figure of the errors of all methods on all targets, at equal gradients and seconds."""
    names = list(dict.fromkeys(name for row in found.values() for name in row))
    size = (0.34 * len(found) + 3.5, 0.5 * len(names) + 4.0)
    figure = Figure(figsize=size, layout="constrained")
    labels = [t.name if t.multimodal else f"{t.name} (means)" for t in found]
    for number, title in enumerate(("equal gradients", "equal seconds")):
        axis = figure.add_subplot(2, 1, number + 1)
        values = np.full((len(names), len(found)), np.nan)
        for column, (target, row) in enumerate(found.items()):
            for name, compared in row.items():
                outcome = (compared.equal_gradients, compared.equal_seconds)[number]
                if outcome is not None:
                    errors = figure_of(target, outcome)
                    values[names.index(name), column] = max(errors.mean(), 1e-3)
        shown = axis.imshow(np.log10(values), cmap="viridis_r", vmin=-2.5, vmax=0, aspect="auto")
        for (y, x), value in np.ndenumerate(values):
            if np.isfinite(value):
                style = {"color": "w" if value > 0.1 else "k", "fontsize": 8}
                axis.text(x, y, in_four_characters(value), ha="center", va="center", **style)
        axis.set_xticks(range(len(found)), labels, rotation=45, ha="right", rotation_mode="anchor")
        axis.set_yticks(range(len(names)), names)
        axis.set_title(f"TV of mode masses, or error of means, at {title}")
    figure.colorbar(shown, ax=figure.axes, label="log10 of the error", aspect=60)
    return figure


def in_four_characters(value: float) -> str:
    """An error of at least 0.001 for a cell of the figure; chains may have left for infinity."""
    if value >= 100:
        return ">99"
    digits = 0 if value >= 10 else 1 if value >= 1 else 2 if value >= 0.1 else 3
    return f"{value:.{digits}f}".removeprefix("0")


def how(fraction: float) -> str:
    """The description of a run."""
    return (
        f"A run has {CHAINS} chains; NUTS is also run with 4. Chains start as in NumPyro, "
        "uniformly within 2 of 0 in each coordinate. Because of these starts, a run whose chains "
        "never move still captures much of the truth, but its single chains do not. Samplers of "
        "populations start from the prior. TV is the total variation distance between the mode "
        f"masses and the exact ones: of all draws of a run, as the mean over {RUNS} runs with its "
        "standard error, and of single chains. The error of means is the root mean square error, "
        "in posterior standard deviations. Gradients include the warm-up; for samplers that need "
        "no gradients, evaluations of the density are counted. Seconds are those of a run without "
        f"compilation, which has its own column; {RUNS} runs are made together. At equal seconds, "
        f"a method gets as many gradients as fit into the time of {REFERENCE}, but at most "
        f"{MOST:g} times as many as before, and it is not run if they are fewer than {LEAST:.0%}. "
        f"Our kernels are given nothing except `num_steps`, and {fraction:.0%} of their steps are "
        "warm-up. A try to jump takes a gradient, and there is one every "
        f"{1 / jumping.SHARE:.0f} steps where two modes are known. They are counted wherever there "
        f"are several modes, as are the searches for modes, at most {SEARCHES:.0%} of the "
        "gradients of the warm-up."
    )
