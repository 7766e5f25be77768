"""Errors that name the argument, and warnings that point to the user's own line."""

from __future__ import annotations

import difflib
import math
import operator
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any


def fail(name: str, got: Any, takes: str) -> ValueError:
    """The error for an argument out of range, to be raised by the caller."""
    return ValueError(f"`{name}` takes {takes}, but got {got!r}.")


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence with the known name that is most like a misspelt one, "" if none is."""
    found = difflib.get_close_matches(name, list(known), n=1)
    return f" Do you mean `{found[0]}`?" if found else ""


def number(name: str, value: Any) -> float:
    """`value` as a finite float."""
    try:
        result = float(value)
    except (TypeError, ValueError):
        raise fail(name, value, "a finite number") from None
    if not math.isfinite(result):
        raise fail(name, value, "a finite number")
    return result


def positive(name: str, value: Any) -> float:
    """`value` as a finite float above zero."""
    result = number(name, value)
    if result <= 0:
        raise fail(name, value, "a number above 0")
    return result


def non_negative(name: str, value: Any) -> float:
    """`value` as a finite float of at least zero."""
    result = number(name, value)
    if result < 0:
        raise fail(name, value, "a number of at least 0")
    return result


def integer(name: str, value: Any, at_least: int) -> int:
    """`value` as an int of at least `at_least`."""
    try:
        if isinstance(value, bool):
            raise TypeError
        result = operator.index(value)
    except TypeError:  # an array of several has an index too, which fails
        raise fail(name, value, f"an integer of at least {at_least}") from None
    if result < at_least:
        raise fail(name, value, f"an integer of at least {at_least}")
    return int(result)


def one_of(name: str, value: Any, choices: Sequence[str]) -> str:
    """`value` if it is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise fail(name, value, "one of " + ", ".join(repr(choice) for choice in choices))
    return value


def boolean(name: str, value: Any) -> bool:
    """`value` if it is True or False."""
    if not isinstance(value, bool):
        raise fail(name, value, "True or False")
    return value


def function(name: str, value: Any) -> Callable:
    """`value` if it can be called."""
    if not callable(value):
        raise fail(name, value, "a function")
    return value


def warn_user(message: str) -> None:
    """A warning that points to the user's line, outside this package and NumPyro."""
    level = 2  # the line that calls this function
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals["__name__"].startswith(("numpyro_contour.", "numpyro.")):
        frame = frame.f_back
        level += 1
    warnings.warn(message, stacklevel=level)
