"""Numbers of one chain, or of all that run together, as the progress bar shows them."""

from __future__ import annotations

from typing import Any

import numpy as np


def middle(x: Any, form: str) -> str:
    """The number of a chain, or the median of several.

    Args:
        x: the number, or numbers (chains,).
        form: how it is written, for instance ".1f".
    """
    return format(float(np.median(x)), form)


def spread(x: Any, form: str) -> str:
    """As `middle`, with the lowest and the highest of several.

    Args:
        x: the number, or numbers (chains,).
        form: how it is written, for instance ".1f".
    """
    if not np.ndim(x):
        return middle(x, form)
    x = np.asarray(x)
    return f"{middle(x, form)} ({x.min():{form}} to {x.max():{form}})"
