"""The table of the section, and the sentences about it, which follow from its figures."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import numpy as np

from benchmarks.peers.clock.exact import masses_of
from benchmarks.peers.clock.methods import CHAINS, DRAWS, LIVE, METHODS, PARTICLES
from benchmarks.peers.clock.posteriors import POSTERIORS
from benchmarks.peers.clock.results import YARDSTICK, Rows, Summary, variation_of
from benchmarks.peers.clock.start import LIMIT
from benchmarks.shared.tables import markdown_table

OURS = "ContourSGLD"
#: the error that a method is asked for
AIM = 0.02
#: the seconds that a run of ours may take where the first run of NUTS on eight schools takes 7
SECONDS, OF_NUTS = 12.0, 7.0
WORDS = "none", "one", "two", "three", "four", "five", "six", "seven"
Summaries = dict[str, dict[str, Summary]]


def summaries(rows: Rows) -> Summaries:
    """What all runs found together, by posterior and method."""
    return {
        name: {method: Summary(name, runs) for method, runs in rows[name].items()}
        for name in POSTERIORS
        if name in rows
    }


def _count(number: int) -> str:
    return WORDS[number] if number < len(WORDS) else str(number)


def _posteriors(number: int) -> str:
    return f"{_count(number)} posterior{'' if number == 1 else 's'}"


def _listed(parts: list[str]) -> str:
    return ", ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else "".join(parts)


def _peers_to_the_aim(found: dict[str, Summary]) -> list[tuple[str, Summary]]:
    """The methods of other packages that reach the aim, the fastest first."""
    reach = [
        (name, one)
        for name, one in found.items()
        if not METHODS[name].ours and one.failed is None and one.error <= AIM
    ]
    return sorted(reach, key=lambda pair: pair[1].seconds)


def faster(found: dict[str, Summary], ours: str = OURS) -> list[tuple[str, Summary]] | None:
    """The peers that reach the aim sooner than ours; None where ours does not reach it."""
    mine = found.get(ours)
    if mine is None or mine.failed is not None or mine.error > AIM:
        return None
    return [(name, one) for name, one in _peers_to_the_aim(found) if one.seconds < mine.seconds]


def claim(each: Summaries, ours: str) -> str:
    """On how many posteriors no peer is faster to the aim than ours, and where one is."""
    judged = {name: faster(found, ours) for name, found in each.items() if ours in found}
    if not judged:
        return ""
    won = [name for name, peers in judged.items() if peers == []]
    lost = {name: peers for name, peers in judged.items() if peers}
    short = [name for name, peers in judged.items() if peers is None]
    text = (
        f"On {_count(len(won))} of the {_posteriors(len(judged))} `{ours}` reaches an error "
        f"of {AIM} and no peer reaches it in less time"
    )
    text += f" ({'; '.join(won)})." if won else "."
    for name, peers in lost.items():
        times = [f"{peer} ({one.seconds:.1f} s, {one.error:.3f})" for peer, one in peers]
        text += f" Faster on {name}: {_listed(times)}."
    if short:
        text += f" `{ours}` does not reach it on {'; '.join(short)}."
    none = [name for name in short if not _peers_to_the_aim(each[name])]
    if none:
        text += f" No peer does either on {'; '.join(none)}."
    return text


def _of_time(rows: Rows, each: Summaries) -> str:
    """Whether ours ends as soon as is aimed at."""
    runs = rows.get(YARDSTICK, {}).get("NUTS")
    if not runs:
        return ""
    unit = float(np.median([run["seconds"] for run in runs]))
    limit = SECONDS * unit / OF_NUTS
    text = (
        f"\n\nThe first run of NUTS on eight schools takes {unit:.1f} s on this machine. The aim "
        f"is {SECONDS:.0f} s where it takes {OF_NUTS:.0f} s, which is {limit:.1f} s here."
    )
    for ours in (name for name, method in METHODS.items() if method.ours):
        seconds = [
            found[ours].seconds
            for found in each.values()
            if ours in found and found[ours].failed is None
        ]
        if seconds:
            within = sum(one <= limit for one in seconds)
            text += (
                f" `{ours}` ends within it on {_count(within)} of "
                f"{_posteriors(len(seconds))}, and takes between {min(seconds):.1f} and "
                f"{max(seconds):.1f} s."
            )
    return text


def _evaluations(number: float | None) -> str:
    return "—" if number is None else f"{number / 1000:,.0f}"


def lines(each: Summaries) -> list[list[str]]:
    """The lines of the table."""
    table = []
    for name, found in each.items():
        for method, one in found.items():
            title = f"`{method}`" if METHODS[method].ours else method
            if one.failed is not None:
                table.append([name, title, one.failed.replace("|", "/"), "", "", "", ""])
                continue
            reported = "—" if one.reported is None else f"{one.reported:.3f}"
            table.append(
                [
                    *(name, title, f"{one.seconds:.1f}", f"{one.error:.3f}", reported),
                    *(_evaluations(one.evaluations), f"{one.peak / 2**30:.2f}"),
                ]
            )
    return table


def versions() -> str:
    """The versions of the packages."""
    found = []
    for package in dict.fromkeys(method.package for method in METHODS.values()):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} is not installed")
    return ", ".join(found)


def _by_chance(each: Summaries) -> str:
    """The error of independent draws."""
    number = CHAINS * DRAWS
    parts = []
    for name in each:
        masses = masses_of(name)
        error = variation_of(np.sqrt(masses * (1 - masses) / number))
        parts.append(f"{error:.3f} on {name}")
    return f"{number:,} independent draws would on average be off by {_listed(parts)}."


def section(rows: Rows, draws: int = DRAWS) -> str:
    """The section of the page."""
    each = summaries(rows)
    rounds = max((len(runs) for found in rows.values() for runs in found.values()), default=0)
    about = "; ".join(f"*{name}*: {POSTERIORS[name].about}" for name in each)
    header = ["posterior", "method", "seconds", "error", "reported error"]
    header += ["1,000 evaluations", "peak, GiB"]
    ours = [name for name, method in METHODS.items() if method.ours]
    claims = "\n\n".join(filter(None, (claim(each, name) for name in ours)))
    return (
        "## By the clock\n\n"
        "Seconds from the start of a process to the masses of the modes, with imports and "
        "compiling, and without JAX's cache of compiled programs. Methods run with the defaults of "
        f"their packages. Our kernels and NUTS have {CHAINS} vectorised chains of {draws:,} + "
        f"{draws:,} draws. blackjax has no defaults for numbers of particles: tempered SMC has "
        f"{PARTICLES:,}, moved by HMC that is scaled by their spread, and nested slice sampling "
        f"has {LIVE:,} live points. jaxns runs alone, since `numpyro.contrib.nested_sampling` "
        "imports what jaxns 3 no longer has (it takes jaxns 2.6). dynesty, nautilus, pocoMC and "
        "UltraNest call NumPy functions, vectorised except for dynesty, which evaluates one point "
        "at a time. On posteriors of this size that is faster than compiled functions of JAX with "
        "the seconds that their import and compiling take. "
        f"{versions()}.\n\n"
        f"The posteriors are {about}.\n\n"
        "The error is the total variation between the masses of the modes and the exact ones. "
        f"{_by_chance(each)} The reported error is the total variation that the package's own "
        "standard errors of the masses predict: Monte Carlo errors for our kernels, effective "
        "sample sizes for NUTS, resampled runs for dynesty, bootstrapped weights for UltraNest, "
        "simulated weights for nested slice sampling. The other packages give no error of a mass, "
        "and no error is known if no chain enters or leaves one of the modes. "
        "Evaluations are those of the density or of its gradient, of all chains, with the warm-up "
        "and, for `ModeJumping`, the search; those of `ContourSGLD` are steps and tries to jump, "
        "without the search. The peak is resident memory when the masses are known. A method that "
        f"does not end in {LIMIT} s is stopped. "
        + (
            f"Methods take turns. Errors are means over {rounds} rounds with different seeds, "
            "other figures are medians."
            if rounds > 1
            else "Figures are those of one run of each method."
        )
        + "\n\n"
        + markdown_table(header, lines(each))
        + f"\n{claims}{_of_time(rows, each)}"
    )
