"""Independent priors of coordinates, from the unit cube and from standard normal scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Normal(NamedTuple):
    """A normal prior."""

    mean: float
    sd: float

    def from_cube(self, u: Any, special: Any) -> Any:
        """The quantile of u; `special` is `scipy.special` or that of JAX."""
        return self.mean + self.sd * special.ndtri(u)

    def from_score(self, z: Any, special: Any) -> Any:
        """The coordinate where the standard normal variable is z."""
        return self.mean + self.sd * z

    def of_scipy(self, stats: Any) -> Any:
        """The same distribution in SciPy."""
        return stats.norm(self.mean, self.sd)


class Uniform(NamedTuple):
    """A uniform prior."""

    low: float
    high: float

    def from_cube(self, u: Any, special: Any) -> Any:
        """As in `Normal`."""
        return self.low + (self.high - self.low) * u

    def from_score(self, z: Any, special: Any) -> Any:
        """As in `Normal`."""
        return self.from_cube(special.ndtr(z), special)

    def of_scipy(self, stats: Any) -> Any:
        """As in `Normal`."""
        return stats.uniform(self.low, self.high - self.low)


class HalfNormal(NamedTuple):
    """A half-normal prior."""

    sd: float

    def from_cube(self, u: Any, special: Any) -> Any:
        """As in `Normal`."""
        return -self.sd * special.ndtri(0.5 * (1 - u))

    def from_score(self, z: Any, special: Any) -> Any:
        """As in `Normal`."""
        # The upper tail, which single precision holds where 1 - ndtr(z) would be 0.
        return -self.sd * special.ndtri(0.5 * special.ndtr(-z))

    def of_scipy(self, stats: Any) -> Any:
        """As in `Normal`."""
        return stats.halfnorm(scale=self.sd)


Prior = Normal | Uniform | HalfNormal


def from_cube(priors: tuple[Prior, ...], special: Any, stack: Callable) -> Callable[[Any], Any]:
    """The prior transform of positions (..., size).

    Args:
        priors: the prior of each coordinate.
        special: `scipy.special`, or that of JAX.
        stack: `numpy.stack`, or that of JAX.
    """
    if len(set(priors)) == 1:
        return lambda u: priors[0].from_cube(u, special)
    return lambda u: stack([p.from_cube(u[..., i], special) for i, p in enumerate(priors)], -1)


def from_scores(priors: tuple[Prior, ...], special: Any, stack: Callable) -> Callable[[Any], Any]:
    """The same from standard normal variables instead of uniform ones."""
    if len(set(priors)) == 1:
        return lambda z: priors[0].from_score(z, special)
    return lambda z: stack([p.from_score(z[..., i], special) for i, p in enumerate(priors)], -1)
