"""Measure every method on a target, at equal gradients and again at equal seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.peers.methods import Method, Outcome, run
from benchmarks.peers.ours import tuned
from benchmarks.peers.target import Target

#: the method whose seconds the others get
REFERENCE = "ContourSGLD"
OWN = "numpyro_contour"
#: seconds that differ by at most this factor count as equal
NEAR = 1.25
#: a second run has at most this many times the gradients of the first
MOST = 8.0
#: below this share of the gradients there is no second run, since it would be too short to judge
LEAST = 0.02


@dataclass(frozen=True)
class Compared:
    """The outcomes of a method on a target."""

    equal_gradients: Outcome
    #: with as many gradients as take as long as the reference, None if these are too few; for our
    #: own kernels the same as `equal_gradients`
    equal_seconds: Outcome | None


def compare(
    target: Target,
    methods: tuple[Method, ...],
    gradients: int,
    report: Callable[[str], None] = lambda text: None,
    before: Compared | None = None,
) -> tuple[dict[str, Compared], list[str]]:
    """Results of all methods, the reference first, and the errors of those that failed.

    Args:
        target: the target.
        methods: the methods.
        gradients: gradients of each of their chains.
        report: takes a line of text about each method. Defaults to nothing.
        before: results of the reference, where it is not among the methods. Defaults to None: the
            first method takes its place.
    """
    for kernel in sorted({method.tuned_by for method in methods} - {None}):
        # The settings are found beforehand, so that no method's time includes it.
        tuned(kernel, target)
    found: dict[str, Compared] = {}
    failed = []
    for method in sorted(methods, key=lambda one: one.name != REFERENCE):
        try:
            first = run(method, target, int(method.share * gradients))
        except Exception as error:
            if method.package == OWN:
                raise
            # A peer that fails on one posterior must not stop the others.
            what = str(error).strip().splitlines()[:1]
            failed.append(f"{method.package}'s {method.name} on {target.name}: {what}")
            report(failed[-1])
            continue
        reference = found.get(REFERENCE, before or Compared(first, first)).equal_gradients
        ratio = reference.seconds / first.seconds
        second: Outcome | None = first
        if method.package != OWN and not 1 / NEAR < ratio < NEAR:
            times = method.share * min(ratio, MOST)
            second = run(method, target, int(times * gradients)) if times >= LEAST else None
        found[method.name] = Compared(first, second)
        report(
            f"{target.name}, {method.name}: TV {first.variation.mean():.3f}, a chain "
            f"{first.chain_variation.mean():.3f}, {first.seconds:.1f} s and {first.compiling:.0f} "
            f"s compiling; {ratio:.2f} times the gradients at equal seconds"
        )
    return found, failed
