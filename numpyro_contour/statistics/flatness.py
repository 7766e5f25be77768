"""Statistics of what a contour run has flattened and where it went: arrays in, arrays out.

The chain is the first axis, the draw the second.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from numpyro_contour import checks


def histogram_flatness(visits: Any) -> np.ndarray:
    r"""How evenly the energy bins between the lowest and the highest visited one were visited.

    .. math:: F = \frac{1}{m} \exp\Bigl(-\sum_i h_i \log h_i\Bigr), \qquad
              h_i = n_i / \textstyle\sum_j n_j

    with m the number of bins in that range: 1 for a flat histogram, one of a single bin included,
    and near 1 / m where nearly all visits are in one bin of many.

    Args:
        visits: counts of each bin, (chains, bins).

    Returns:
        F of each chain, (chains,), in (0, 1]; NaN without visits.

    Raises:
        ValueError: the shape is not (chains, bins), or a count is below 0 or not finite.

    Source: the exponential of the entropy, a Hill number of order 1, over the range.

    Example:
        >>> from numpyro_contour.diagnostics import histogram_flatness
        >>> histogram_flatness([[0, 5, 5, 5], [0, 9, 0, 0]]).round(2).tolist()
        [1.0, 1.0]
    """
    counts = _array("visits", visits, "chains", "bins")
    wrong = counts[~(np.isfinite(counts) & (counts >= 0))]
    if wrong.size:
        raise checks.fail("visits", float(wrong[0]), "finite counts of at least 0")
    flatness = np.full(len(counts), np.nan)
    for chain, of_chain in enumerate(counts):
        seen = np.flatnonzero(of_chain)
        if seen.size:
            share = of_chain[seen] / of_chain.sum()
            span = seen[-1] - seen[0] + 1
            flatness[chain] = np.exp(-(share * np.log(share)).sum()) / span
    return flatness


def round_trips(lowest: Any, highest: Any, low: float, high: float) -> np.ndarray:
    """How often each chain went from low energies up to high ones and back.

    Counting begins when a chain is first low. A draw that stands for a window of positions may have
    been at both in it, in an unknown order; it then counts as one way, so that the number is never
    too large.

    Args:
        lowest: lowest energy in nats, or bin, of the positions of each draw, (chains, draws).
        highest: the highest, (chains, draws); the same array where a draw is one position.
        low: energy, or bin, up to which a chain is low.
        high: energy, or bin, from which it is high, above `low`.

    Returns:
        Whole round trips of each chain, (chains,).

    Raises:
        ValueError: the shapes differ, or `high` is not above `low`.

    Example:
        >>> from numpyro_contour.diagnostics import round_trips
        >>> energy_bin = [[0, 3, 9, 4, 1, 8, 0], [9, 9, 8, 9, 9, 9, 9]]
        >>> round_trips(energy_bin, energy_bin, low=1, high=8).tolist()
        [2, 0]
    """
    down, up = (
        _array("lowest", lowest, "chains", "draws"),
        _array("highest", highest, "chains", "draws"),
    )
    if down.shape != up.shape:
        raise checks.fail("highest", up.shape, f"an array of the shape of `lowest`, {down.shape}")
    if not high > low:
        raise checks.fail("high", float(high), f"a number above `low`, {float(low)}")
    trips = np.zeros(len(down), int)
    for chain, (is_low, is_high) in enumerate(zip(down <= low, up >= high)):
        if not is_low.any():
            continue
        # Of the first window at low energies only what comes after it counts.
        begin = int(is_low.argmax()) + 1
        ways, rising = 0, True
        for at in begin + np.flatnonzero((is_low | is_high)[begin:]):
            if (is_high if rising else is_low)[at]:
                ways, rising = ways + 1, not rising
        trips[chain] = ways // 2
    return trips


def theta_drift(theta: Any) -> np.ndarray:
    r"""How far theta moved over the last half of a run.

    .. math:: D = \max_i \Bigl|\sum_{j \le i} \bar\theta_3(j) - \bar\theta_4(j)\Bigr|

    with the means of theta over the third and the fourth quarter of the draws.

    Args:
        theta: theta at each draw, (chains, draws, bins).

    Returns:
        D of each chain, (chains,), in [0, 1]; NaN with fewer than 4 draws.

    Raises:
        ValueError: the shape is not (chains, draws, bins).

    Source: the distance of Kolmogorov, which the number of bins does not enter.

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.diagnostics import theta_drift
        >>> theta = np.linspace([0.5, 0.5], [0.9, 0.1], 100)[None]
        >>> theta_drift(theta).round(2).tolist()
        [0.1]
    """
    trace = _array("theta", theta, "chains", "draws", "bins")
    quarter = trace.shape[1] // 4
    if quarter == 0:
        return np.full(len(trace), np.nan)
    before = trace[:, -2 * quarter : -quarter].mean(1)
    return distance(before, trace[:, -quarter:].mean(1))


def theta_spread(theta: Any, lower: Any, upper: Any) -> np.ndarray:
    r"""How far the thetas of chains are from their mean, as distributions of the energy.

    .. math:: D_c = \sup_u \bigl|F_c(u) - \bar F(u)\bigr|

    with :math:`F_c(u)` the probability below u by the theta of chain c, linear within a bin, and
    the mean over all chains, c among them. Chains may have different bins. The first bin takes all
    that is below it and the last all that is above: there :math:`F_c` is known up to bounds, and
    the difference is the least that they allow.

    Args:
        theta: the last theta, (chains, bins).
        lower: lower edges of the bins in nats, (chains, bins).
        upper: upper edges in nats, (chains, bins), each the lower one of the next bin.

    Returns:
        D of each chain, (chains,), in [0, 1]; NaN for a single chain.

    Raises:
        ValueError: the shapes differ.

    Source: the distance of Kolmogorov, which the number of bins does not enter.

    Example:
        >>> from numpyro_contour.diagnostics import theta_spread
        >>> lower, upper = [[0, 1], [0, 1]], [[1, 2], [1, 2]]
        >>> theta_spread([[0.5, 0.5], [0.9, 0.1]], lower, upper).round(2).tolist()
        [0.2, 0.2]
    """
    masses = _array("theta", theta, "chains", "bins")
    left, right = _array("lower", lower, "chains", "bins"), _array("upper", upper, "chains", "bins")
    for name, edges in (("lower", left), ("upper", right)):
        if edges.shape != masses.shape:
            raise checks.fail(name, edges.shape, f"edges of the shape of `theta`, {masses.shape}")
    if len(masses) == 1:
        return np.full(1, np.nan)
    # The largest difference of lines with corners is at a corner of one of them.
    places = np.unique(right[:, :-1])
    least, most = (np.empty((len(masses), len(places))) for _ in range(2))
    for c, mass in enumerate(masses / masses.sum(1, keepdims=True)):
        inner = np.cumsum(mass)[:-1]
        known = np.interp(places, right[c, :-1], inner)
        least[c] = np.where(places < right[c, 0], 0.0, known)
        most[c] = np.where(places > right[c, -2], 1.0, known)
    apart = np.maximum(least - most.mean(0), least.mean(0) - most)
    return np.maximum(apart, 0.0).max(1)


def distance(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The largest difference of cumulated probabilities, over the last axis."""
    return np.abs(np.cumsum(one - other, axis=-1)).max(-1)


def counted_share(counts: Any, steps: Any) -> np.ndarray:
    r"""The share of the steps in which something happened while draws were collected.

    .. math:: (n_D - n_1) / (k_D - k_1)

    with n the count and k the steps at the first and at the last of D draws.

    Args:
        counts: how often it had happened up to each draw, (chains, draws).
        steps: steps attempted up to each draw, (chains, draws).

    Returns:
        The share from the first draw to the last, (chains,); of a single draw, since the start.

    Raises:
        ValueError: the shapes differ.

    Example:
        >>> from numpyro_contour.diagnostics import counted_share
        >>> counted_share([[50, 50, 60]], [[100, 200, 300]]).tolist()
        [0.05]
    """
    happened, made = (
        _array("counts", counts, "chains", "draws"),
        _array("steps", steps, "chains", "draws"),
    )
    if happened.shape != made.shape:
        raise checks.fail(
            "steps", made.shape, f"an array of the shape of `counts`, {happened.shape}"
        )
    if made.shape[1] == 1:
        return happened[:, 0] / np.maximum(made[:, 0], 1)
    return (happened[:, -1] - happened[:, 0]) / np.maximum(made[:, -1] - made[:, 0], 1)


def end_masses(theta: Any) -> np.ndarray:
    r"""The probabilities of the first and of the last energy bin, which have no outer edge.

    .. math:: \theta(i) / \textstyle\sum_j \theta(j), \qquad i \in \{0, m - 1\}

    Args:
        theta: probabilities of the bins, (..., bins); or visits.

    Returns:
        An array (..., 2); NaN without visits.

    Raises:
        ValueError: there are no bins.

    Example:
        >>> from numpyro_contour.diagnostics import end_masses
        >>> end_masses([[2, 6, 2, 0]]).tolist()
        [[0.2, 0.0]]
    """
    masses = _array("theta", theta, "...", "bins")
    total = masses.sum(-1, keepdims=True)
    return masses[..., [0, -1]] / np.where(total > 0, total, np.nan)


def noise_in_bins(noise: Any, width: Any) -> np.ndarray:
    r"""The noise of the potential energy over the width of a bin, the median of each chain.

    .. math:: \operatorname{med}_d\, \sigma_{cd} / \Delta u_c

    Args:
        noise: standard deviation of the energy's estimate at each draw in nats, (chains, draws).
        width: width of a bin in nats, (chains,).

    Returns:
        The noise in bin widths, (chains,).

    Raises:
        ValueError: a shape is another one.

    Example:
        >>> from numpyro_contour.diagnostics import noise_in_bins
        >>> noise_in_bins([[1.0, 2.0, 9.0]], [0.5]).tolist()
        [4.0]
    """
    sd, widths = _array("noise", noise, "chains", "draws"), _array("width", width, "chains")
    if len(widths) != len(sd):
        raise checks.fail("width", widths.shape, f"a width for each of {len(sd)} chains")
    return np.median(sd, axis=1) / widths


def share_above(energy: Any, typical: float) -> np.ndarray:
    r"""The share of the draws whose potential energy is above the typical one, weights not counted.

    .. math:: \frac1D \sum_d 1\{U_{cd} > u\}

    With weights counted it is a half at the weighted median; what it is more than that without
    them went into climbing.

    Args:
        energy: potential energies of the draws in nats, (chains, draws).
        typical: u, an energy in nats, for instance the weighted median.

    Returns:
        The share of each chain, (chains,), in [0, 1].

    Raises:
        ValueError: the shape is not (chains, draws).

    Example:
        >>> from numpyro_contour.diagnostics import share_above
        >>> share_above([[1.0, 2.0, 9.0, 12.0]], typical=1.5).tolist()
        [0.75]
    """
    return (_array("energy", energy, "chains", "draws") > typical).mean(1)


def _array(name: str, values: Any, *axes: str) -> np.ndarray:
    """An array in float64 with these axes; "..." for any number."""
    takes = f"an array ({axes[0]},)" if len(axes) == 1 else f"an array ({', '.join(axes)})"
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise checks.fail(name, values, f"{takes} of numbers") from None
    fits = array.ndim >= 1 if axes[0] == "..." else array.ndim == len(axes)
    if not fits or 0 in array.shape:
        raise checks.fail(name, array.shape, takes)
    return array


#: shares of the draws, ordered by their energies, around which noise is looked at
QUANTILES = (0.05, 0.5, 0.95)
_AROUND = 0.05


def noise_at_energies(noise: np.ndarray, energies: np.ndarray) -> np.ndarray:
    """The median noise of the draws around quantiles of their energies, in nats, (3,).

    Args:
        noise: standard deviations of the noise in nats, (chains, draws).
        energies: potential energies of the draws in nats, (chains, draws).
    """
    ordered = np.ravel(noise)[np.argsort(energies, axis=None)]
    bounds = [(q - _AROUND, q + _AROUND) for q in QUANTILES]
    parts = [ordered[int(a * ordered.size) : int(np.ceil(b * ordered.size))] for a, b in bounds]
    return np.array([np.median(part) for part in parts])


def noise_at_energies_text(levels: np.ndarray) -> str:
    """A sentence on `noise_at_energies`."""
    low, typical, high = (f"{level:.2g}" for level in levels)
    return (
        f"Noise of the energy is {low} nats at low, {typical} at typical, {high} at high energies."
    )
