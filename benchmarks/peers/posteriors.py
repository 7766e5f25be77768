"""Alternatives that a user could pick: peers on the same posteriors, at equal work and equal time.

`python -m benchmarks peers.posteriors --only START ...` measures only the posteriors whose names
have these prefixes, and rewrites the section from these and from the stored results of the others.
With `--methods START ...` only the methods with these prefixes are run, in the same way.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path

from benchmarks.peers import by_blackjax, by_others
from benchmarks.peers.measure import REFERENCE, compare
from benchmarks.peers.ours import NUTS_METHODS, OURS, WARMUP
from benchmarks.peers.results import Kept, keep, kept_of
from benchmarks.peers.targets import targets
from benchmarks.peers.text import Found, claims, how, losses, overview, target_table
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.pages import made_with

PACKAGES = ("blackjax", "numpyro", "flowMC", "sgmcmcjax", "jaxns")
#: methods of the quick form
QUICK = ("ContourSGLD", "csgld, documented")


def versions() -> str:
    """The versions of the peers."""
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} is not installed")
    return ", ".join(found)


def compare_on(number: int, folder: Path, quick: bool, names: tuple[str, ...] = ("",)) -> None:
    """Run methods (two in the quick form) on a target, and keep the results in a folder.

    Args:
        number: number of the target.
        folder: where results are kept.
        quick: whether to run the quick form.
        names: prefixes of the methods that are run. Defaults to those of all; the kept results of
            the others stay.
    """
    target = targets()[number]
    methods = (*OURS, *by_blackjax.METHODS, *NUTS_METHODS, *by_others.available()[0])
    methods = tuple(method for method in methods if method.name.startswith(names))
    if quick:
        methods = tuple(method for method in methods if method.name in QUICK)
    kept = None if names == ("",) else kept_of(target, folder)
    before = {} if kept is None else kept.found
    gradients = 2000 if quick else target.gradients
    found, failed = compare(target, methods, gradients, say, before.get(REFERENCE))
    if kept is not None:
        again = (*kept.again, *(name for name in found if name not in kept.again))
        ran = {method.name for method in methods}
        failed += [text for text in kept.failed if not any(f"'s {name} on" in text for name in ran)]
        keep(target, Kept(before | found, failed, kept.made_with, again), folder)
    else:
        keep(target, Kept(found, failed, made_with()), folder)


def say(text: str) -> None:
    """Print at once."""
    print(text, flush=True)


def measure(names: tuple[str, ...], methods: tuple[str, ...], folder: Path) -> list[str]:
    """Run methods on targets, both given by prefixes, and return the errors of those that fail.

    Each target has its own process, two at a time: most programs keep one core busy, and the
    programs that a process has compiled are freed with it.
    """
    wanted = [n for n, target in enumerate(targets()) if target.name.startswith(names)]
    failed = []
    with ProcessPoolExecutor(2, get_context("spawn"), max_tasks_per_child=1) as pool:
        running = {n: pool.submit(compare_on, n, folder, False, methods) for n in wanted}
        for number, run in running.items():
            try:
                run.result()
            except Exception as error:
                # The results of the other targets must not be lost.
                what = str(error).strip().splitlines()[:1]
                failed.append(f"nothing new on {targets()[number].name}: {what}")
    return failed


def main(experiment: Experiment) -> str:
    """The section of the page."""
    _, missing = by_others.available()
    if experiment.quick:
        failed = []
        compare_on(0, experiment.folder, True)
    else:
        failed = measure(experiment.only, experiment.methods, experiment.folder)
    kept = {target: kept_of(target, experiment.folder) for target in targets()}
    results = {target: row for target, row in kept.items() if row is not None}
    found: Found = {target: row.found for target, row in results.items()}
    failed += [text for row in results.values() for text in row.failed]
    failed += [f"{target.name}: not measured yet" for target, row in kept.items() if row is None]
    others = {row.made_with for row in results.values()} - {made_with()}
    again = sorted({name for row in results.values() for name in row.again})
    figure = experiment.save(
        overview(found), "peers", "Errors of all methods on all posteriors, as colours"
    )
    tables = "\n".join(
        f"### {target.name}\n\n{target_table(target, row)}" for target, row in found.items()
    )
    absent = [f"{package}: {reason}" for package, reason in missing.items()] + failed
    left_out = "".join(["Not run here:\n\n", *(f"- {text}\n" for text in absent), "\n"])
    left_out = left_out if absent else ""
    left_out += "".join(f"Some of the posteriors: {text}\n\n" for text in sorted(others))
    if again:
        left_out += (
            "Some methods were run again on some posteriors after the others, on a machine that "
            "may have been busier: their seconds are not beside those of the others. They are "
            f"{', '.join(again)}.\n\n"
        )
    return (
        f"## Peers on posteriors of known answers\n\n{how(WARMUP)}\n\n{versions()}. blackjax's "
        "csgld runs with the settings of its Sampling Book (zeta 2, bins of 0.25 nats from 0, "
        "learning rate 0.001, 10 min(0.01, (k + 100)^-0.8) for theta), but at temperature 1 and "
        "with 10,000 of its 100,000 bins, since each step updates all of them. Its sgld and sghmc "
        "run with the settings of their examples (0.001, ten leapfrog steps). 'Our step' means "
        "that they are given the step size and the scale of each coordinate that our warm-up "
        "finds. SMC moves its particles by HMC, scaled by their spread. SGMCMCJax uses our step. "
        "flowMC takes as many local as global steps, as in its quickstart, and gets "
        f"{by_others.FLOW_SHARE:.0%} of the gradients, because each of them takes far longer."
        f"\n\n{left_out}{figure}\n### What holds at equal gradients\n\n{claims(found)}\n"
        f"### Where we lose\n\nFor each posterior, the error of our {REFERENCE} and the peers with "
        "a smaller error, at equal gradients or at equal seconds (both errors in "
        f"brackets):\n\n{losses(found)}\n{tables}"
    )
