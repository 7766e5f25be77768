"""`ModeList`: the modes that a search has found, for users to look at, save and hand over."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from numpyro_contour.core.arrays.factors import LowRank
from numpyro_contour.modes.blocks import Flips
from numpyro_contour.modes.search import Search

# What the file of a list says of its form.
_FORM = 1
# Modes, and coordinates of each, that the printed table has.
_ROWS, _COLUMNS = 12, 4
# What is of each mode, but for its factor.
_ARRAYS = ("mean", "energy", "gradient", "log_integral", "counts")


@dataclass(frozen=True, eq=False, repr=False)
class ModeList:
    r"""Modes of a posterior: where they are, how wide, how heavy, and how many may be missing.

    The mass of a mode is estimated by its normal (Laplace's method),

    .. math:: p_k \propto e^{-U_k} |F_k|

    It is printed as a table. `ModeJumping.find_modes` returns it, and `ModeJumping(..., modes=)`
    takes it.

    Attributes:
        coordinates: names of the unconstrained coordinates, d of them.
        shapes: shapes of the unconstrained values of the sites, by name.
        mean: the bottom of each mode, unconstrained, (K, d); the heaviest first.
        factor: roots F of the covariances, (K, d, d), or above 250 coordinates of low rank.
        energy: potential energies at the bottoms in nats, (K,).
        gradient: their gradients there, about 0, (K, d).
        log_integral: logs of the integrals of exp(-U) over the modes by their normals, (K,).
        counts: descents that ended in each mode, (K,).
        flips: moves of blocks of coordinates that lead from mode to mode, where modes are
            combinations.
        descents: how many there were.
        nowhere: those that ended in no mode, by why.
        alone: those that ended in a mode that nothing else has found.
        unseen: the mass that as many descents again would add, as a share of what is known; NaN
            where modes were given.
        gradients: evaluations of energy and gradient that the search took.
        seconds: what the search took, by part.
        data: a number of the data that it was made for.

    Source: Good and Toulmin (1956), *The number of new species, and the increase in population
    coverage, when a sample is increased*, for `unseen`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro.infer import NUTS
        >>> from numpyro_contour import ModeJumping
        >>> kernel = ModeJumping(NUTS(potential_fn=lambda x: (x**2 - 9) ** 2 / 9))
        >>> modes = kernel.find_modes(jax.random.key(0), init_params=jnp.zeros(()))
        >>> modes.mean.round(2).ravel().tolist(), modes.mass.round(2).tolist()
        ([3.0, -3.0], [0.5, 0.5])
    """

    coordinates: tuple[str, ...]
    shapes: dict[str, tuple[int, ...]]
    mean: np.ndarray
    factor: Any
    energy: np.ndarray
    gradient: np.ndarray
    log_integral: np.ndarray
    counts: np.ndarray
    flips: Flips
    descents: int
    nowhere: dict[str, int]
    alone: int
    unseen: float
    gradients: int
    seconds: dict[str, float] = field(default_factory=dict)
    data: int = 0

    @classmethod
    def of(
        cls,
        found: Search,
        coordinates: Sequence[str],
        shapes: Mapping[str, tuple[int, ...]],
        data: int,
    ) -> ModeList:
        """What a search has found, with the names of its coordinates."""
        factors = [shape.factor for shape in found.shapes]
        if factors and isinstance(factors[0], LowRank):
            parts: Any = map(np.stack, zip(*factors))
            factor: Any = LowRank(*parts)
        else:
            factor = np.array(factors)
        return cls(
            tuple(coordinates),
            dict(shapes),
            np.array([shape.mean for shape in found.shapes]).reshape(-1, len(coordinates)),
            factor,
            found.energy,
            found.gradient,
            np.asarray(found.log_mass),
            np.asarray(found.counts),
            found.flips,
            found.descents,
            found.nowhere,
            found.alone,
            found.unseen,
            found.gradients,
            data=data,
        )

    def __len__(self) -> int:
        """K, the number of modes."""
        return len(self.mean)

    @property
    def mass(self) -> np.ndarray:
        """The mass of each mode by its normal, as a share of all that are known, (K,)."""
        if not len(self):
            return np.empty(0)
        return np.exp(self.log_integral - np.logaddexp.reduce(self.log_integral))

    @property
    def sds(self) -> np.ndarray:
        """Standard deviations of the unconstrained coordinates in each mode, (K, d)."""
        if not isinstance(self.factor, LowRank):
            return np.sqrt((self.factor**2).sum(-1)).reshape(self.mean.shape)
        scales, directions, stretches = self.factor
        more = np.einsum("kdr,kr->kd", directions**2, stretches**2 - 1)
        return scales * np.sqrt(1 + more)

    @property
    def positions(self) -> dict[str, np.ndarray]:
        """The bottoms as unconstrained values by name of site, (K, ...), as `init_params` are."""
        found, begin = {}, 0
        for name, shape in self.shapes.items():
            end = begin + int(np.prod(shape))
            found[name] = self.mean[:, begin:end].reshape(len(self), *shape)
            begin = end
        return found

    def heaviest(self, most: int) -> ModeList:
        """The list without its lightest modes, if there are more than `most`."""
        if len(self) <= most:
            return self
        cut = lambda x: x[:most]
        factor = self.factor
        factor = LowRank(*map(cut, factor)) if isinstance(factor, LowRank) else cut(factor)
        arrays = {n: cut(getattr(self, n)) for n in _ARRAYS}
        return replace(self, factor=factor, **arrays)

    def save(self, path: str | os.PathLike) -> None:
        """Write the list to a file in NumPy's format `.npz`, without pickles.

        Args:
            path: the file, for instance "modes.npz".
        """
        low_rank = isinstance(self.factor, LowRank)
        factors = self.factor._asdict() if low_rank else {"dense": self.factor}
        arrays = {f"factor_{n}": x for n, x in factors.items()}
        arrays |= {f"flips_{n}": x for n, x in self.flips._asdict().items()}
        names = "coordinates", "shapes", "descents", "nowhere", "alone", "unseen", "gradients"
        known = {name: getattr(self, name) for name in (*names, "seconds", "data")}
        with open(path, "wb") as file:
            np.savez(
                file,
                about=np.array(json.dumps({"form": _FORM} | known)),
                **{n: getattr(self, n) for n in _ARRAYS},
                **arrays,
            )

    @classmethod
    def load(cls, path: str | os.PathLike) -> ModeList:
        """The list that `save` wrote.

        Args:
            path: the file.

        Returns:
            The list.

        Raises:
            ValueError: it is not the file of a list of modes.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = dict(file)
            about = json.loads(str(arrays.pop("about")))
            form = about.pop("form")
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"`path` takes the file of a ModeList, but got {path!r}.") from None
        if form != _FORM:
            raise ValueError(f"`path` takes a ModeList of form {_FORM}, but {path!r} has {form}.")
        parts = {
            prefix: {
                name.removeprefix(f"{prefix}_"): arrays.pop(name)
                for name in list(arrays)
                if name.startswith(f"{prefix}_")
            }
            for prefix in ("factor", "flips")
        }
        factor = parts["factor"]
        about["coordinates"] = tuple(about["coordinates"])
        about["shapes"] = {name: tuple(shape) for name, shape in about["shapes"].items()}
        return cls(
            **about,
            **arrays,
            factor=factor["dense"] if "dense" in factor else LowRank(**factor),
            flips=Flips(**parts["flips"]),
        )

    def __repr__(self) -> str:
        """The list as a table."""
        modes = "1 mode" if len(self) == 1 else f"{len(self)} modes"
        lines = [f"{modes} by {self.descents} descents from places that were given."]
        if not np.isnan(self.unseen):
            lines = [
                f"{modes} by {self.descents} descents, {self.alone} of which ended in a new mode; "
                f"as many again would add {self.unseen:.1%} of the mass."
            ]
        if self.nowhere:
            ends = ", ".join(f"{why} ({n})" for why, n in self.nowhere.items())
            lines.append(f"Ends that are not modes: {ends}.")
        shown = self.coordinates[:_COLUMNS]
        names = ["mode", "mass", "energy", "descents", *shown]
        rows = [
            [str(k), f"{mass:.3f}", f"{self.energy[k]:.2f}", str(self.counts[k])]
            + [f"{m:.3g} ({s:.2g})" for m, s in zip(self.mean[k], self.sds[k][:_COLUMNS])]
            for k, mass in enumerate(self.mass[:_ROWS])
        ]
        rows = [row[: len(names)] for row in rows]
        widths = [max(map(len, column)) for column in zip(names, *rows)]
        lines += ["  ".join(x.rjust(w) for x, w in zip(row, widths)) for row in (names, *rows)]
        if len(self) > _ROWS:
            lines.append(f"and {len(self) - _ROWS} lighter ones")
        if len(self.coordinates) > _COLUMNS:
            lines.append(f"and {len(self.coordinates) - _COLUMNS} further coordinates")
        return "\n".join(lines)
