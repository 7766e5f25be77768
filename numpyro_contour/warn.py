"""Warnings that point to the user's own line."""

from __future__ import annotations

import sys
import warnings


def warn_user(message: str) -> None:
    """A warning that points to the line outside this package that called it."""
    level = 2  # the line that calls this function
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals["__name__"].startswith("numpyro_contour."):
        frame = frame.f_back
        level += 1
    warnings.warn(message, stacklevel=level)
