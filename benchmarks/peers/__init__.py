"""What a user would pick instead: peers on the same posteriors, at equal work and equal time."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from benchmarks.papers.harness import Experiment
from benchmarks.peers import by_blackjax, by_others
from benchmarks.peers.measure import REFERENCE, compare
from benchmarks.peers.ours import NUTS_METHODS, OURS, WARMUP
from benchmarks.peers.targets import targets
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


def main(experiment: Experiment) -> str:
    """The section of the page."""
    others, missing = by_others.available()
    methods = (*OURS, *by_blackjax.METHODS, *NUTS_METHODS, *others)
    chosen = targets()
    if experiment.quick:
        keep = ("ContourSGLD", "csgld, documented")
        methods = tuple(method for method in methods if method.name in keep)
        chosen = chosen[:1]
    found: Found = {}
    for target in chosen:
        gradients = experiment.choose(target.gradients, 2000)
        report = (lambda text: None) if experiment.quick else (lambda text: print(text, flush=True))
        found[target] = compare(target, methods, gradients, report)
    figure = experiment.save(
        overview(found), "peers", "Errors of all methods on all posteriors, as colours"
    )
    tables = "\n".join(
        f"### {target.name}\n\n{target_table(target, row)}" for target, row in found.items()
    )
    absent = "".join(f"- {package}: {reason}\n" for package, reason in missing.items())
    left_out = f"Not run here:\n\n{absent}\n" if missing else ""
    return (
        f"## Peers on posteriors of known answers\n\n{how(WARMUP)}\n\n{versions()}. blackjax's "
        "csgld has the settings of its Sampling Book (zeta 2, bins of 0.25 nats from 0, learning "
        "rate 0.001, 10 min(0.01, (k + 100)^-0.8) for theta) at temperature 1 and with 10,000 of "
        "its 100,000 bins, all of which each step updates; its sgld "
        "and sghmc those of their examples (0.001, ten leapfrogs); 'our step' gives them the step "
        "size and the scale of each coordinate that our warm-up finds. SMC moves by HMC scaled by "
        "the particles' spread. SGMCMCJax and flowMC have our step and its quickstart's settings."
        f"\n\n{left_out}{figure}\n### What holds at equal gradients\n\n{claims(found)}\n"
        f"### Where we lose\n\nOur {REFERENCE} against every peer that has a smaller error at "
        f"equal gradients or at equal seconds (both in brackets):\n\n{losses(found)}\n{tables}"
    )
