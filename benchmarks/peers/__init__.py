"""What a user would pick instead: peers on the same posteriors, at equal work and equal time."""

from __future__ import annotations

from concurrent.futures import Future, ProcessPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context

from benchmarks.papers.harness import Experiment
from benchmarks.peers import by_blackjax, by_others
from benchmarks.peers.measure import REFERENCE, Compared, compare
from benchmarks.peers.ours import NUTS_METHODS, OURS, WARMUP
from benchmarks.peers.targets import Target, targets
from benchmarks.peers.text import Found, claims, how, losses, overview, target_table

PACKAGES = ("blackjax", "numpyro", "flowMC", "sgmcmcjax", "jaxns")


def versions() -> str:
    """The versions of the peers."""
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} is not installed")
    return ", ".join(found)


QUICK = ("ContourSGLD", "csgld, documented")


def compare_on(number: int, quick: bool) -> tuple[dict[str, Compared], list[str]]:
    """All methods on a target, in the quick form two."""
    target = targets()[number]
    methods = (*OURS, *by_blackjax.METHODS, *NUTS_METHODS, *by_others.available()[0])
    if quick:
        methods = tuple(method for method in methods if method.name in QUICK)
        return compare(target, methods, 2000)
    return compare(target, methods, target.gradients, lambda text: print(text, flush=True))


def finished(run: Future, target: Target) -> tuple[dict[str, Compared], list[str]]:
    """What `compare_on` found; where it failed that, so that the other targets are not lost."""
    try:
        return run.result()
    except Exception as error:
        what = str(error).strip().splitlines()[:1]
        return {}, [f"nothing on {target.name}: {what}"]


def main(experiment: Experiment) -> str:
    """The section of the page."""
    _, missing = by_others.available()
    if experiment.quick:
        results = [compare_on(0, True)]
    else:
        # A process for each target, two at a time: most programs keep one core busy, and what a
        # process has compiled is freed with it.
        with ProcessPoolExecutor(2, get_context("spawn"), max_tasks_per_child=1) as pool:
            running = [pool.submit(compare_on, n, False) for n in range(len(targets()))]
            results = [finished(run, target) for run, target in zip(running, targets())]
    found: Found = {target: row for target, (row, _) in zip(targets(), results) if row}
    failed = [text for _, failures in results for text in failures]
    figure = experiment.save(
        overview(found), "peers", "Errors of all methods on all posteriors, as colours"
    )
    tables = "\n".join(
        f"### {target.name}\n\n{target_table(target, row)}" for target, row in found.items()
    )
    absent = [f"{package}: {reason}" for package, reason in missing.items()] + failed
    left_out = "".join(["Not run here:\n\n", *(f"- {text}\n" for text in absent), "\n"])
    left_out = left_out if absent else ""
    return (
        f"## Peers on posteriors of known answers\n\n{how(WARMUP)}\n\n{versions()}. blackjax's "
        "csgld has the settings of its Sampling Book (zeta 2, bins of 0.25 nats from 0, learning "
        "rate 0.001, 10 min(0.01, (k + 100)^-0.8) for theta) at temperature 1 and with 10,000 of "
        "its 100,000 bins, all of which each step updates; its sgld "
        "and sghmc those of their examples (0.001, ten leapfrogs); 'our step' gives them the step "
        "size and the scale of each coordinate that our warm-up finds. SMC moves by HMC scaled by "
        "the particles' spread. SGMCMCJax has our step. flowMC has as many local as global "
        f"steps, as in its quickstart, and {by_others.FLOW_SHARE:.0%} of the gradients: each takes "
        "far longer."
        f"\n\n{left_out}{figure}\n### What holds at equal gradients\n\n{claims(found)}\n"
        f"### Where we lose\n\nOur {REFERENCE} against every peer that has a smaller error at "
        f"equal gradients or at equal seconds (both in brackets):\n\n{losses(found)}\n{tables}"
    )
