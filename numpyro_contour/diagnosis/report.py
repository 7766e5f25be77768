"""What a diagnosis says: a verdict for each check, as text, HTML and numbers."""

from __future__ import annotations

import html
import math
import textwrap
from dataclasses import dataclass
from typing import Any, NamedTuple

GOOD, BAD, UNKNOWN = "good", "bad", "not checked"

_MARKS = {GOOD: "ok", BAD: "BAD", UNKNOWN: "?"}
# Legible on white and on black.
_COLOURS = {GOOD: "#388e3c", BAD: "#e53935", UNKNOWN: "#808080"}
_WIDTH = 98
# Checks without which nobody can tell whether a run is right, however good the others are.
_NEEDED = frozenset({"chains", "record"})


class Verdict(NamedTuple):
    """The outcome of one check."""

    #: name of the check
    check: str
    #: "good", "bad" or "not checked"
    outcome: str
    #: what was measured, NaN if it was not
    figure: float
    #: from where on it is bad
    limit: float
    #: what was found, in words
    finding: str
    #: what to change where it is bad, else ""
    advice: str = ""

    @property
    def text(self) -> str:
        """Finding and advice as one paragraph."""
        return f"{self.finding} {self.advice}".strip()


def verdict(
    check: str, figure: float, limit: float, is_bad: bool, finding: str, advice: str
) -> Verdict:
    """A verdict on a figure, which is not one where the figure is NaN."""
    figure, limit = float(figure), float(limit)
    if math.isnan(figure):
        return Verdict(check, UNKNOWN, figure, limit, finding)
    if is_bad:
        return Verdict(check, BAD, figure, limit, finding, advice)
    return Verdict(check, GOOD, figure, limit, finding)


def unknown(check: str, why: str) -> Verdict:
    """A check that could not be made."""
    return Verdict(check, UNKNOWN, math.nan, math.nan, why)


@dataclass(frozen=True, repr=False)
class Report:
    """All verdicts on a run; printed as text, shown as a table in notebooks.

    The verdict of a check is taken by its name, `report["weights"]`.

    Attributes:
        title: the kernel and the size of the run.
        verdicts: one `Verdict` for each check that applies, causes before their consequences.

    A run of one chain has no fault that could be found where others would disagree: it is not
    trusted, and `untold` holds the checks that could not be made for it.
    """

    title: str
    verdicts: tuple[Verdict, ...]

    @property
    def faults(self) -> tuple[Verdict, ...]:
        """The bad verdicts; the first is the cause to mend first."""
        return tuple(v for v in self.verdicts if v.outcome == BAD)

    @property
    def untold(self) -> tuple[Verdict, ...]:
        """The checks that matter and could not be made: the run cannot tell whether it is right."""
        return tuple(v for v in self.verdicts if v.outcome == UNKNOWN and v.check in _NEEDED)

    @property
    def trusted(self) -> bool:
        """Whether no verdict is bad, and no check that matters was left out."""
        return not self.faults and not self.untold

    def __getitem__(self, check: str) -> Verdict:
        """The verdict of a check by its name."""
        for found in self.verdicts:
            if found.check == check:
                return found
        raise KeyError(f"{check!r} is not among {[v.check for v in self.verdicts]}")

    @property
    def headline(self) -> str:
        """The report in one sentence."""
        if not self.faults:
            words = [v.finding for v in self.untold]
            return (
                " ".join(["No fault was found, but:", *words]) if words else "No fault was found."
            )
        names = ", ".join(v.check for v in self.faults)
        return f"{len(self.faults)} {'fault' if len(self.faults) == 1 else 'faults'}: {names}."

    def warning(self) -> str:
        """The text of a warning: the first fault in full, the others by name."""
        first, *others = self.faults
        more = f" Further: {', '.join(v.check for v in others)}." if others else ""
        return (
            f"This run cannot be trusted: {first.check}. {first.text}{more} "
            "`diagnose` has the whole report."
        )

    def to_dict(self) -> dict[str, Any]:
        """The report for programs.

        Returns:
            A dictionary of "title", "trusted" and "verdicts", a list of dictionaries of the
            verdicts' fields. Figures that were not measured are None, so that it can be written as
            JSON.
        """
        numbers = lambda x: None if math.isnan(x) else x
        return {
            "title": self.title,
            "trusted": self.trusted,
            "verdicts": [
                v._asdict() | {"figure": numbers(v.figure), "limit": numbers(v.limit)}
                for v in self.verdicts
            ],
        }

    def __repr__(self) -> str:
        """The report as text, faults first."""
        lines = [self.title, self.headline, ""]
        for v in self._ordered():
            head = f"{_MARKS[v.outcome]:>4}  {v.check}: "
            lines += textwrap.wrap(
                head + v.text, _WIDTH, subsequent_indent=" " * 6, break_on_hyphens=False
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The report as a table for notebooks, faults first."""
        header = _row("th", ("", "check", "figure", "limit", "finding"))
        rows = "".join(
            _row(
                "td",
                (
                    f'<b style="color: {_COLOURS[v.outcome]}">{v.outcome}</b>',
                    html.escape(v.check),
                    _number(v.figure),
                    _number(v.limit),
                    f"{html.escape(v.finding)} <b>{html.escape(v.advice)}</b>",
                ),
            )
            for v in self._ordered()
        )
        return (
            f"<p><b>{html.escape(self.title)}</b><br>{html.escape(self.headline)}</p>"
            f'<table class="contour-report" style="border-collapse: collapse"><thead>{header}'
            f"</thead><tbody>{rows}</tbody></table>"
        )

    def _ordered(self) -> list[Verdict]:
        order = (BAD, GOOD, UNKNOWN)
        return sorted(self.verdicts, key=lambda v: order.index(v.outcome))


# Styles of the cells, and of each column: notebooks have styles of their own, if they have any.
_CELL = "vertical-align: top; padding: 0.3em 1.2em 0.3em 0"
_TEXT = "text-align: left"
_SHORT = f"{_TEXT}; white-space: nowrap"
_FIGURE = "text-align: right; white-space: nowrap"
_COLUMNS = (_SHORT, _SHORT, _FIGURE, _FIGURE, _TEXT)


def _row(tag: str, cells: tuple[str, ...]) -> str:
    """A row of the table for notebooks."""
    inside = zip(_COLUMNS, cells, strict=True)
    made = "".join(f'<{tag} style="{_CELL}; {style}">{cell}</{tag}>' for style, cell in inside)
    return f"<tr>{made}</tr>"


def _number(x: float) -> str:
    if math.isnan(x):
        return ""
    return f"{x:,.0f}" if 1000 <= abs(x) < 1e6 else f"{x:.3g}"
