r"""Whether the gradient of the potential energy is its slope, along lines between draws.

A threshold, a rounding, an argmax or a table makes the energy jump where the gradient says nothing.
Dynamics that follow the gradient then sample another density, and nothing in the draws shows it.
The energies do: along a smooth line the gradient adds up to their difference.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import lax

from numpyro_contour.checks import warn_user
from numpyro_contour.core.arrays.compensated_sums import Sum
from numpyro_contour.runs.at_draws import AtDraws, EnergyAndGradient
from numpyro_contour.runs.draw_weights import final_temperature
from numpyro_contour.runs.finished_run import FinishedRun

# The most lines that are looked at, the fewest that tell anything, and the elementary operations,
# a few seconds' worth, that they may take together.
_LINES, _FEWEST = 32, 8
_OPERATIONS = 1e10
# Evaluations on a line: at the ends of equal parts, and then where a part does not add up.
_PARTS, _HALVINGS = 8, 40
# A part is not halved further: positions in float32 would be the same.
_SHORTEST = 2.0**-14


def gradient_along_lines(run: FinishedRun, log_weights: np.ndarray) -> xr.Dataset | None:
    """The energy's jumps along lines between distant draws of a chain.

    Args:
        run: a finished run.
        log_weights: the log weights of its draws, (chains, draws).

    Returns:
        The variables `rise`, the difference of the potential energies at the ends in nats, and
        `jump`, how much of its way the gradient does not explain, both (line,). None where there
        are too few draws, no temperature, or so much data that it would take long; and, with a
        warning, where an evaluation failed.
    """
    if final_temperature(run) <= 0:
        return None
    try:
        lines = AtDraws(run, _line, ends=2)
        at_most = int(min(_LINES, _OPERATIONS // lines.operations))
        begins, ends = _ends(np.isfinite(log_weights), at_most)
        if begins[0].size < _FEWEST:
            return None
        shares, energy, slopes = lines.at(begins, ends)
    except Exception as error:  # the user did not ask for this pass over the model
        warn_user(
            "The gradient was not compared with the potential energy, which failed: "
            f"{type(error).__name__}: {error}."
        )
        return None
    # Differences first: the energies themselves may be too large for the digits that matter.
    values = energy.high - energy.high[:, :1] + (energy.low - energy.low[:, :1])
    largest = np.abs(energy.high).max(1)
    usable = np.isfinite(values).all(1) & np.isfinite(slopes).all(1)
    if usable.sum() < _FEWEST:
        return None
    order = np.argsort(shares, 1)
    shares, values, slopes = (np.take_along_axis(x, order, 1) for x in (shares, values, slopes))
    found = [jumps(shares[i], values[i], slopes[i], largest[i]) for i in np.flatnonzero(usable)]
    rise = values[usable, -1]
    return xr.Dataset({"rise": (("line",), rise), "jump": (("line",), np.array(found))})


def _ends(has_weight: np.ndarray, at_most: int) -> tuple[tuple, tuple]:
    """Draws with weight and others half a run later: (chains, draws) of both ends of each line."""
    begins, ends = [], []
    for chain, of_chain in enumerate(has_weight):
        places = np.flatnonzero(of_chain)
        half = places.size // 2
        begins += [(chain, place) for place in places[:half]]
        ends += [(chain, place) for place in places[half : 2 * half]]
    chosen = np.linspace(0, len(begins) - 1, min(len(begins), max(at_most, 0)))
    chosen = chosen.round().astype(int)
    as_places = lambda pairs: tuple(np.array([pairs[i] for i in chosen], int).reshape(-1, 2).T)
    return as_places(begins), as_places(ends)


def _line(
    energy_and_gradient: EnergyAndGradient, begin: jax.Array, end: jax.Array
) -> tuple[jax.Array, Sum, jax.Array]:
    """Shares of the way, energies and slopes along it, halved where they do not add up."""
    away = end - begin
    blank = jnp.zeros(_PARTS + 1 + _HALVINGS, begin.dtype)

    def evaluate(carry: tuple, number: jax.Array) -> tuple[tuple, None]:
        (shares, energy, slopes), lefts, rights = carry
        length = shares[rights] - shares[lefts]
        rise = energy.high[rights] - energy.high[lefts] + (energy.low[rights] - energy.low[lefts])
        error = jnp.abs(rise - 0.5 * length * (slopes[lefts] + slopes[rights]))
        worst = jnp.argmax(jnp.where(length > _SHORTEST, jnp.nan_to_num(error), -1.0))
        middle = 0.5 * (shares[lefts[worst]] + shares[rights[worst]])
        is_part = number <= _PARTS
        share = jnp.where(is_part, number / _PARTS, middle).astype(blank.dtype)
        found, gradient = energy_and_gradient(begin + share * away)
        new = (share, found, jnp.sum(gradient * away))
        points = jax.tree.map(lambda x, y: x.at[number].set(y), (shares, energy, slopes), new)
        # A new part ends where the one that was halved ended: that one ends here now.
        part = number - 1
        left, right = (
            jnp.where(is_part, part, number),
            jnp.where(is_part, number, rights[worst]),
        )
        rights = rights.at[worst].set(jnp.where(is_part, rights[worst], number))
        # At the first point there is no part yet.
        lefts = lefts.at[part].set(jnp.where(number > 0, left, 0))
        rights = rights.at[part].set(jnp.where(number > 0, right, 0))
        return (points, lefts, rights), None

    none = jnp.zeros(blank.size, int)
    carry = ((blank, Sum(blank, blank), blank), none, none)
    (points, _, _), _ = lax.scan(evaluate, carry, jnp.arange(blank.size))
    return points


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
        >>> from numpyro_contour.runs.gradient_along_lines import jumps
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
