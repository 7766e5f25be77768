"""Where the rows of a plate are in arrays that were computed from some or all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def axes_of_rows(some: Mapping[str, Any], whole: Mapping[str, Any]) -> dict[str, int]:
    """The axis of each array along which rows are, by its shapes for some rows and for all.

    Args:
        some: arrays or shapes by name, of some rows.
        whole: those of all rows.

    Returns:
        Axes by name, without the arrays that do not depend on the number of rows.
    """
    return {
        name: axis
        for name, site in whole.items()
        for axis, (n, size) in enumerate(zip(some[name].shape, site.shape))
        if n != size
    }
