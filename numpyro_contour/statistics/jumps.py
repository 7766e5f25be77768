"""How much of a function's change along a line its derivative does not explain."""

from __future__ import annotations

import numpy as np

# The rounding of a number in float32, of one that was itself computed in some steps.
_ROUNDING = 4 * 2.0**-23


def jumps(
    shares: np.ndarray, values: np.ndarray, slopes: np.ndarray, largest: float = 0.0
) -> float:
    r"""The sum of the sizes of a function's jumps along a line.

    The line was halved again and again where the trapezoid

    .. math:: \delta = f(b) - f(a) - (b - a) \tfrac12 (f'(a) + f'(b))

    was most in error. Where f is smooth the two halves leave a quarter of :math:`\delta` between
    them, and at a corner they differ from it by at least what they leave. A jump stays as it is.
    What counts is therefore what two halves leave, less what they took away.

    Args:
        shares: where the function was evaluated, from 0 to 1, rising, (n,): halves of halves.
        values: f there, (n,), in float64.
        slopes: its derivatives with respect to the share, (n,).
        largest: the size in float32 of what the values are differences of, whose rounding is no
            jump. Defaults to 0, for none.

    Returns:
        The sum over the shortest pairs of halves; 0 for functions without jumps, up to rounding.

    Source: the error of the trapezoidal rule, of third order in b - a; adaptive bisection as in
        quadrature (Davis and Rabinowitz 1984, section 6.2).

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.statistics.jumps import jumps
        >>> shares = np.linspace(0, 1, 17)
        >>> round(jumps(shares, shares**3, 3 * shares**2), 6)
        0.0
        >>> round(jumps(shares, shares + 2.0 * (shares > 0.3), np.ones(17)), 3)
        2.0
    """
    rounding = _ROUNDING * max(largest, np.abs(values).max())

    def error(a: int, b: int) -> float:
        return values[b] - values[a] - 0.5 * (shares[b] - shares[a]) * (slopes[a] + slopes[b])

    found, open_ones = 0.0, [(0, len(shares) - 1)]
    while open_ones:
        a, b = open_ones.pop()
        middle = int(np.searchsorted(shares, 0.5 * (shares[a] + shares[b])))
        if b - middle == middle - a == 1:
            left = error(a, middle) + error(middle, b)
            taken = error(a, b) - left
            found += max(0.0, abs(left) - abs(taken) - rounding)
        else:
            open_ones += [half for half in ((a, middle), (middle, b)) if half[1] - half[0] > 1]
    return float(found)
