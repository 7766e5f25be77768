"""Tables and the few statistics that the benchmarks share."""

from __future__ import annotations

import numpy as np

from numpyro_contour.diagnostics import kish_share

#: a claim, what was measured, and whether the claim holds
Claim = tuple[str, str, bool]


def markdown_table(header: list[str], rows: list[list[str]]) -> str:
    """A table in markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def total_variation(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Total variation between distributions along the last axis."""
    return 0.5 * np.abs(a - b).sum(-1)


def kish_of(weights: np.ndarray) -> float:
    """Kish's effective share of the draws, from weights (chains, draws)."""
    with np.errstate(divide="ignore"):  # weights of 0
        return kish_share(np.log(weights))


def crossings(inside: np.ndarray) -> np.ndarray:
    """How often successive draws of each chain, (..., draws), are on different sides."""
    return (inside[..., 1:] != inside[..., :-1]).sum(-1)


def standard_error(values: np.ndarray) -> np.ndarray:
    """The standard error of the mean along the first axis."""
    return values.std(0, ddof=1) / len(values) ** 0.5


def mean_and_error(values: np.ndarray, digits: int = 3, of_error: int | None = None) -> str:
    """The mean over chains or runs and its standard error."""
    of_error = digits if of_error is None else of_error
    return f"{values.mean():.{digits}f} +- {standard_error(values):.{of_error}f}"


def mean_and_sd(values: np.ndarray, digits: int = 3) -> str:
    """The mean and standard deviation over chains."""
    return f"{values.mean():,.{digits}f} +- {values.std(ddof=1):,.{digits}f}"


def claims_table(claims: list[Claim], source: str = "claim") -> str:
    """A table of claims, what was measured, and whether each holds."""
    rows = [[claim, measured, "yes" if holds else "no"] for claim, measured, holds in claims]
    return markdown_table([source, "measured", "holds"], rows)
