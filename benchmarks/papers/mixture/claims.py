"""Results on the paper's claims, in words and numbers."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.papers.mixture.exact import (
    EMPTY_FIRST,
    OUR_PSI,
    PAPERS_PSI,
    PARTITION,
    ZETA,
    barrier,
    energy,
    exact_theta,
    fine_grid,
    flattened_energy,
    mean_by_bin_weights,
)
from benchmarks.papers.mixture.runs import Path, Results
from benchmarks.shared.tables import (
    markdown_table,
    mean_and_error,
    mean_and_sd,
    standard_error,
    total_variation,
)
from numpyro_contour.examples import mixture

#: figures count as different if they are more than this many standard errors apart
SIGNIFICANT = 2.0


def _mean_and_sd(values: np.ndarray) -> str:
    return "" if np.isnan(values).any() else mean_and_sd(values)


def table(results: list[Results], decades: np.ndarray) -> str:
    """The table of the error of E[x] at some times, and of the other figures of each run."""
    rows = []
    for result in results:
        errors = result.errors(decades)
        final = result.final
        variation = ""
        if result.theta is not None and "theta" not in result.variant.settings:
            variation = _mean_and_sd(total_variation(result.theta, result.exact))
        rows.append(
            [
                result.variant.name,
                *(_mean_and_sd(np.abs(column)) for column in errors.T),
                mean_and_error(final),
                variation,
                mean_and_sd(result.crossings, 1),
            ]
        )
    header = ["algorithm", *(f"{time:,}" for time in decades)]
    return markdown_table([*header, "mean of E[x]", "TV of theta", "crossings"], rows)


def verdict(holds: bool) -> str:
    """A claim's verdict, in words."""
    return "Holds" if holds else "Does not hold"


def catches_up(learnt: Results, known: Results, times: np.ndarray) -> tuple[int | None, float]:
    """The time from which two algorithms' errors cannot be told apart, and their last ratio."""
    times = times[times > learnt.variant.warmup]
    a, b = np.abs(learnt.errors(times)), np.abs(known.errors(times))
    apart = a.mean(0) - b.mean(0) > SIGNIFICANT * np.hypot(standard_error(a), standard_error(b))
    if apart[-1]:
        since = None
    else:
        later = np.flatnonzero(apart)
        since = int(times[later[-1] + 1 if len(later) else 0])
    return since, float(a[:, -1].mean() / b[:, -1].mean())


def as_efficient(learnt: Results, known: Results, times: np.ndarray) -> str:
    """The paper's claim on CSGLD and KSGLD, for one pair of variants."""
    since, ratio = catches_up(learnt, known, times)
    rate = learnt.crossings.mean() / learnt.iterations
    jumps = rate / max(known.crossings.mean() / known.iterations, 1e-9)
    names = f"{learnt.variant.name}, compared with {known.variant.name}"
    if since is None:
        found = f"the error is still larger after {times[-1]:,} iterations"
    else:
        found = f"from {since:,} iterations on, the errors cannot be told apart"
    return (
        f"- {names}: {verdict(since is not None).lower()}; {found}; at the end the error is "
        f"{ratio:.2f} times that with known theta, with {jumps:.2f} times as many crossings per "
        "iteration.\n"
    )


def is_biased(result: Results) -> bool:
    """Whether the mean over runs at the end is more than two standard errors from the truth."""
    final = result.final
    return bool(abs(final.mean()) > SIGNIFICANT * standard_error(final))


def biases(results: list[Results]) -> str:
    """The bias of each algorithm at the end."""
    text = ""
    for result in results:
        final = result.final
        found = "biased" if is_biased(result) else "no bias seen"
        text += f"- {result.variant.name}: {mean_and_error(final)}, "
        text += f"{found}.\n"
    return text


def claims(results: list[Results], times: np.ndarray) -> str:
    """Whether the paper's claims hold, and whether ours does."""
    sgld, known, learnt, our_known, ours, *others = results
    pairs = [(learnt, known), (ours, our_known)]
    pairs += list(zip(others, (known, our_known)))
    errors = [np.abs(r.final) for r in (sgld, known)]
    stuck, free = (e.mean() for e in errors)
    slow = stuck - free > SIGNIFICANT * np.hypot(*map(standard_error, errors))
    papers = all(is_biased(r) for r in (known, learnt))
    removed = papers and not any(is_biased(r) for r in (our_known, ours))
    return (
        "'CSGLD soon becomes as efficient as KSGLD':\n\n"
        + "".join(as_efficient(a, b, times) for a, b in pairs)
        + "\n'SGLD rarely converges' (at the end its error is still two standard errors above "
        f"that of KSGLD): {verdict(slow).lower()}. Its error after {times[-1]:,} iterations is "
        f"{stuck:.2f}, {stuck / free:.0f} times that of KSGLD; a chain crosses "
        f"{sgld.crossings.mean():.1f} times.\n\n"
        "This package's Psi and weights remove the bias that those of the paper leave (both of "
        "the paper's variants are biased, and neither of ours is): "
        f"{verdict(removed).lower()}. The mean of E[x] at the end (truth {mixture.MEAN:g}), with "
        "its standard error over runs:\n\n"
        + biases(results[1:])
        + "\nWith weights by bin and the paper's continuous Psi, integration at the exact theta "
        f"gives a mean of {mean_by_bin_weights(PARTITION):.3f}. Differences from that are due to "
        "the step size, to theta and to chance.\n"
    )


def bouncy(stretch: Path) -> str:
    """The share of bouncy positions and the lowest multiplier."""
    multiplier = stretch.multiplier
    return f"{(multiplier < 0).mean():.1%} of the positions (lowest: {multiplier.min():.2f})"


def flattening_in_words() -> str:
    """The barriers of Figure 1(a)."""
    x = fine_grid()
    x = x[(x > -10) & (x < 8)]
    theta = exact_theta(PARTITION)
    flat = barrier(x, flattened_energy(x, theta, PARTITION, PAPERS_PSI))
    ours = barrier(x, flattened_energy(x, theta, PARTITION, OUR_PSI))
    empty = exact_theta(EMPTY_FIRST)
    multiplier = 1 + ZETA * (math.log(empty[1]) - math.log(max(empty[0], math.exp(-40))))
    return (
        f"With zeta {ZETA:g}, the barrier of {barrier(x, energy(x)):.1f} nats becomes {flat:.1f} "
        f"by the paper's Psi ('from 12 to as small as 2') and {ours:.1f} by ours. The paper does "
        "not say what u_1 is. The lowest energy is "
        f"{energy(x).min():.2f}. With u_1 = {PARTITION.lower + 1:g}, the first subregion is the "
        "first that holds any energy, and theta falls from there on, as in the paper's figure. "
        f"With u_1 = {EMPTY_FIRST.lower + 1:g}, the first subregion is empty. With its theta at "
        f"the floor, the multiplier in the second would be {multiplier:.0f}.\n\n"
    )
