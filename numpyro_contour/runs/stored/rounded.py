"""Draws in the floating-point type in which a store keeps them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from numpyro_contour.checks import warn_user

#: the types that a user can ask for
TYPES = ("float16", "float32")
# Draws of a segment below which their spread is not looked at.
_FEW = 8
# Rounding is too coarse where its error is this share of the spread of the draws, in this share of
# the coordinates of a site.
_COARSE, _SOME = 0.1, 0.01


class Rounding:
    """Rounds the draws of segment after segment, and warns once where too little is left of them.

    Args:
        dtype: the name of the type; None for draws as they are.
    """

    def __init__(self, dtype: str | None):
        self._dtype = None if dtype is None else np.dtype(dtype)
        self._warned = False

    def __call__(self, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The draws of a segment, (chains, draws, ...) by name of site.

        Raises:
            ValueError: a draw is too large for the type.

        Warns:
            UserWarning: once, where rounding hides how draws differ.
        """
        return {name: self._rounded(name, np.asarray(values)) for name, values in draws.items()}

    def _rounded(self, name: str, values: np.ndarray) -> np.ndarray:
        dtype = self._dtype
        if dtype is None or values.dtype.kind != "f" or values.dtype.itemsize <= dtype.itemsize:
            return values
        with np.errstate(over="ignore"):
            rounded = values.astype(dtype)
        lost = np.isinf(rounded) & np.isfinite(values)
        if lost.any():
            raise ValueError(
                f"`draws_dtype` takes a type that holds all draws, but got {dtype.name}, whose "
                f"largest number is {float(np.finfo(dtype).max):g}, and {name!r} has a draw of "
                f"{float(np.abs(values[lost]).max()):g}. Use another store and no `draws_dtype`."
            )
        if not self._warned and values.shape[0] * values.shape[1] >= _FEW:
            self._warn_if_coarse(name, values, rounded)
        return rounded

    def _warn_if_coarse(self, name: str, values: np.ndarray, rounded: np.ndarray) -> None:
        spread = values.std((0, 1))
        error = np.sqrt(np.mean((rounded.astype(values.dtype) - values) ** 2, (0, 1)))
        coarse = (error > _COARSE * spread) & (spread > 0)
        if coarse.mean() <= _SOME:
            return
        self._warned = True
        at = np.argmax(np.where(coarse, error / np.where(spread > 0, spread, 1), 0))
        warn_user(
            f"Draws of {name!r} are stored as {rounded.dtype.name}, which hides how they differ: "
            f"their spread so far is {spread.flat[at]:.2g}, and rounding changes them by "
            f"{error.flat[at]:.2g}. Subtract their mean in the model, or store them without "
            "`draws_dtype`."
        )
