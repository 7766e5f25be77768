"""Alternatives that a user could pick: peers on the same posteriors, at equal work and equal time.

`python -m benchmarks peers.posteriors --only START ...` measures only the posteriors whose names
have these prefixes, and rewrites the section from these and from the stored results of the others.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path

from benchmarks.peers import by_blackjax, by_others
from benchmarks.peers.measure import REFERENCE, compare
from benchmarks.peers.ours import NUTS_METHODS, OURS, WARMUP
from benchmarks.peers.results import keep, kept_of
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


def compare_on(number: int, folder: Path, quick: bool) -> None:
    """Run all methods (two in the quick form) on a target, and keep the results in a folder."""
    target = targets()[number]
    methods = (*OURS, *by_blackjax.METHODS, *NUTS_METHODS, *by_others.available()[0])
    if quick:
        methods = tuple(method for method in methods if method.name in QUICK)
    keep(target, *compare(target, methods, 2000 if quick else target.gradients, say), folder)


def say(text: str) -> None:
    """Print at once."""
    print(text, flush=True)


def measure(names: tuple[str, ...], folder: Path) -> list[str]:
    """Run all methods on the targets with these prefixes, and return the errors of those that fail.

    Each target has its own process, two at a time: most programs keep one core busy, and the
    programs that a process has compiled are freed with it.
    """
    wanted = [n for n, target in enumerate(targets()) if target.name.startswith(names)]
    failed = []
    with ProcessPoolExecutor(2, get_context("spawn"), max_tasks_per_child=1) as pool:
        running = {n: pool.submit(compare_on, n, folder, False) for n in wanted}
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
        failed = measure(experiment.only, experiment.folder)
    kept = {target: kept_of(target, experiment.folder) for target in targets()}
    results = {target: row for target, row in kept.items() if row is not None}
    found: Found = {target: row for target, (row, _, _) in results.items()}
    failed += [text for _, failures, _ in results.values() for text in failures]
    failed += [f"{target.name}: not measured yet" for target, row in kept.items() if row is None]
    others = {text for _, _, text in results.values()} - {made_with()}
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
