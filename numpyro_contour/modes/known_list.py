"""The list of modes that descents have ended in, and how many are likely to be missing."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from numpyro_contour.modes.blocks import Flips, fitting, flips_of, places_of
from numpyro_contour.modes.landscape import Landscape, Places
from numpyro_contour.modes.shape import MOST_DENSE, SLOPE, NoMode, Shape, shape_at
from numpyro_contour.modes.valleys import lower_places

# Two bottoms are one where neither shape has the other farther away, in standard deviations: two
# normals have two modes only where they are two apart.
_NEAR = 2.0
# An end that is no farther from a bottom, in squared standard deviations for each coordinate and at
# all, is explained by that mode if its energy is the normal's within a number of nats and a share
# of the rise.
_STOPPED_A_COORDINATE, _STOPPED = 0.5, 2.0
_EXPLAINED, _SHARE = 0.7, 0.2
# Places on the way between two bottoms, and the height in nats above both that is a barrier: lower
# ones hold no chain up, and the straight way through a bent valley has one.
_ON_THE_WAY, _LEAST_BARRIER = 14, 1.0
# A flip is used if it leads from this share of the modes to another one. If it does from nearly
# all, modes are combinations.
_FITS, _ALWAYS_FITS = 0.25, 0.9
# Known modes that an end is compared with by the way there.
_COMPARED = 3
# Modes that are lighter than the heaviest one by more nats than this do not matter. Volumes of
# shapes of low rank are less certain, by a number of nats for each coordinate.
_IRRELEVANT, _UNCERTAIN = 12.0, 0.03


@dataclass
class KnownList:
    """Modes with how many descents have ended in each."""

    landscape: Landscape
    shapes: list[Shape] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    #: descents so far, and those that ended in no mode, by why
    descents: int = 0
    nowhere: dict[str, int] = field(default_factory=dict)

    def add(self, ends: Places, last: bool = True) -> np.ndarray:
        """Count the ends of descents, and take up the modes that are new.

        Args:
            ends: where descents have ended.
            last: whether no descent goes on any more; else those go on that have not quite arrived.
                Defaults to True.

        Returns:
            Where descents are to go on that have not arrived yet, (n, d).
        """
        self.descents += len(ends.energy)
        onwards: list[np.ndarray] = []
        doubtful: list[Shape] = []
        ended: list[int] = []
        for number in np.argsort(np.where(np.isfinite(ends.energy), ends.energy, np.inf)):
            end = ends.only(number)
            if not (np.isfinite(end.energy) and np.isfinite(end.position).all()):
                self._lost("not finite")
                continue
            known = self._explaining(end, self.shapes)
            if known is not None:
                self.counts[known] += 1
                continue
            known = self._explaining(end, doubtful)
            if known is not None:
                ended[known] += 1
                continue
            scales = next((one.sds for one in (*self.shapes, *doubtful)), None)
            shape = shape_at(self.landscape, end, scales, last)
            if isinstance(shape, NoMode):
                self._lost(shape.why)
                onwards.append(shape.onwards)
            elif shape.softest is None:
                self._take_up(shape)
            else:
                doubtful.append(shape)
                ended.append(1)
        for shape, count, lower in zip(doubtful, ended, lower_places(self.landscape, doubtful)):
            if lower is None:
                self._take_up(shape, count)
            else:
                self._lost(SLOPE, count)
                onwards.append(np.repeat(lower[None], count, 0))
        return np.concatenate(onwards) if onwards else np.empty((0, self.landscape.size))

    def _lost(self, why: str, count: int = 1) -> None:
        self.nowhere[why] = self.nowhere.get(why, 0) + count

    def _explaining(self, end: Places, shapes: list[Shape]) -> int | None:
        """The mode, of these, whose normal explains an end near its bottom."""
        stopped = _STOPPED + _STOPPED_A_COORDINATE * self.landscape.size
        for number, shape in enumerate(shapes):
            square = float(shape.squares(end.position))
            rise = float(end.energy) - shape.energy
            rounding = 16 * self.landscape.epsilon * abs(shape.energy)
            margin = _EXPLAINED + _SHARE * 0.5 * square + rounding
            if square < stopped and abs(rise - 0.5 * square) < margin:
                return number
        return None

    def _take_up(self, shape: Shape, count: int = 1) -> None:
        """Count the descents that ended in a shape to a known mode, or as a new one.

        A shape may replace the known one.
        """
        there = np.array([k.squares(shape.mean) for k in self.shapes])
        here = np.array([shape.squares(k.mean) for k in self.shapes])
        same = np.flatnonzero(np.maximum(there, here) < _NEAR**2)
        number = int(same[0]) if same.size else self._without_barrier(shape, there, here)
        if number is None:
            self.shapes.append(shape)
            self.counts.append(count)
            return
        self.counts[number] += count
        # The lower bottom is the mode's; another one is where a descent has stopped early.
        if shape.energy < self.shapes[number].energy:
            self.shapes[number] = shape

    def _without_barrier(self, shape: Shape, there: np.ndarray, here: np.ndarray) -> int | None:
        """The known mode to which the straight way leads over no barrier."""
        nearest = np.argsort(np.minimum(there, here))[:_COMPARED]
        if not nearest.size:
            return None
        shares = np.linspace(0, 1, _ON_THE_WAY)[:, None]
        ways = [m + shares * (shape.mean - m) for m in (self.shapes[k].mean for k in nearest)]
        energies, _ = self.landscape.at(np.concatenate(ways))
        for number, on_way in zip(nearest, energies.reshape(len(nearest), -1)):
            rounding = 16 * self.landscape.epsilon * abs(shape.energy)
            # What is not finite on the way, as behind a wall, is a barrier too.
            if on_way.max() - max(on_way[0], on_way[-1]) <= _LEAST_BARRIER + rounding:
                return int(number)
        return None

    @property
    def log_mass(self) -> np.ndarray:
        """Log masses by the modes' normals, (K,)."""
        return np.array([shape.log_integral for shape in self.shapes])

    def flips(self) -> tuple[Flips, np.ndarray]:
        """The flips of blocks of coordinates that lead from some mode to another, and the shares.

        A share is that of the modes from which a flip leads to another one.
        """
        relevant = np.flatnonzero(self.relevant)
        shapes = [self.shapes[k] for k in relevant]
        means, sds = np.stack([k.mean for k in shapes]), np.stack([k.sds for k in shapes])
        flips = flips_of(means, sds, self.log_mass[relevant])
        energies = np.array([k.energy for k in shapes])
        share = fitting(flips, means, energies, self.landscape)
        used = share >= _FITS
        return flips.only(used), share[used]

    def alone(self, flips: Flips, share: np.ndarray) -> np.ndarray:
        """Which modes were found by a single descent, (K,).

        Where flips lead from every mode to another one, modes are combinations of places, and those
        of places that other modes have too were found by these.

        Args:
            flips: those that lead from mode to mode.
            share: from which share of the modes each does, (P,).
        """
        flips = flips.only(share >= _ALWAYS_FITS)
        once = np.array(self.counts) == 1
        if not (once.any() and len(flips.inside)):
            return once
        means, sds = (np.stack([getattr(k, name) for k in self.shapes]) for name in ("mean", "sds"))
        places = places_of(means, sds)
        shared = places[:, :, None] == places[:, None, :]
        shared &= ~np.eye(len(means), dtype=bool)
        free = flips.inside.any(0)
        by_block = np.array([shared[x].all(0).any(1) for x in np.unique(flips.inside, axis=0)])
        # All that no flip changes has to be the same in some other mode.
        rest = shared[~free].all(0).any(1) if (~free).any() else True
        return once & ~(by_block.all(0) & rest)

    def unseen(self, alone: np.ndarray) -> float:
        r"""The mass that as many descents again would add, as a share of what is known.

        .. math:: \sum_{k: n_k = 1} p_k

        with n the descents that ended in a mode and p its share of the known mass: the first term
        of the estimate of Good and Toulmin, with each mode counted by its mass.

        Args:
            alone: which modes were found by a single descent, (K,).

        Source: Good (1953), *The population frequencies of species and the estimation of population
        parameters*; Good and Toulmin (1956).
        """
        if not alone.any():
            return 0.0
        log_mass = self.log_mass
        return float(np.exp(log_mass[alone] - np.logaddexp.reduce(log_mass)).sum())

    def thin(self, alone: np.ndarray) -> float:
        """The share of the known mass in modes that at most two descents have found.

        Where this is not small yet, that no mode was seen once only may be chance.

        Args:
            alone: which modes were found by a single descent, (K,).
        """
        few = alone | (np.array(self.counts) == 2)
        log_mass = self.log_mass
        return float(np.exp(log_mass[few] - np.logaddexp.reduce(log_mass)).sum())

    @property
    def relevant(self) -> np.ndarray:
        """Which modes have mass that matters, (K,)."""
        log_mass = self.log_mass
        size = self.landscape.size
        least = _IRRELEVANT + (_UNCERTAIN * size if size > MOST_DENSE else 0.0)
        return log_mass > log_mass.max(initial=-np.inf) - least
