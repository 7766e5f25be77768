"""Every method on a target: at equal gradients, and again at equal seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.peers.methods import Method, Outcome, run
from benchmarks.peers.targets import Target

#: whose seconds the others get
REFERENCE = "ContourSGLD"
OWN = "numpyro_contour"
#: seconds this near count as equal
NEAR = 1.25
#: a second run has at most so many times the gradients of the first
MOST = 8.0
#: with fewer there is no second run: nothing can be told of so short a one
LEAST = 0.02


@dataclass(frozen=True)
class Compared:
    """The outcomes of a method on a target."""

    equal_gradients: Outcome
    #: with the gradients that take as long as the reference, None where these are too few; of our
    #: own kernels the same
    equal_seconds: Outcome | None


def compare(
    target: Target,
    methods: tuple[Method, ...],
    gradients: int,
    report: Callable[[str], None] = lambda text: None,
) -> dict[str, Compared]:
    """All methods, the reference first."""
    found: dict[str, Compared] = {}
    for method in sorted(methods, key=lambda one: one.name != REFERENCE):
        first = run(method, target, gradients)
        reference = found[REFERENCE].equal_gradients if found else first
        ratio = reference.seconds / first.seconds
        second: Outcome | None = first
        if method.package != OWN and not 1 / NEAR < ratio < NEAR:
            enough = ratio >= LEAST
            second = run(method, target, int(gradients * min(ratio, MOST))) if enough else None
        found[method.name] = Compared(first, second)
        report(
            f"{target.name}, {method.name}: TV {first.variation.mean():.3f}, a chain "
            f"{first.chain_variation.mean():.3f}, {first.seconds:.1f} s and {first.compiling:.0f} "
            f"s compiling; {ratio:.2f} times the gradients at equal seconds"
        )
    return found
