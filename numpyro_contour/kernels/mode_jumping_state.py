"""The state of `ModeJumping`: that of the kernel inside, and what jumps need."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax

from numpyro_contour.core.arrays.decentred import Decentred
from numpyro_contour.modes.learning import Lessons
from numpyro_contour.modes.tries import Plan


class Jumping(NamedTuple):
    """What the chains that run together know of the modes."""

    plan: Plan
    #: what the warm-up has taught since the plan last changed
    lessons: Lessons
    #: the length of the warm-up in draws
    length: jax.Array


class _Fields(NamedTuple):
    """The parts of the state."""

    #: the state of the kernel inside
    inner: Any
    #: the number of the mode that the draw is in, from 0
    mode: jax.Array
    #: `Counts` of the tries to jump of kept draws; () where fewer than two modes are known
    counts: Any
    #: `Jumping`, without an axis of chains; () where fewer than two modes are known
    jumping: Any
    #: how much sites are centred in the coordinates that are sampled; () where they are as written
    centring: Any


class ModeJumpingState(_Fields):
    """State of `ModeJumping`: it has the fields of the inner kernel's state too.

    Attributes:
        inner: the state of the kernel inside.
        mode: the number of the mode that the draw is in, from 0, in the order of `ModeList`.
        counts: `Counts` of the tries to jump of kept draws; () where fewer than two modes are
            known.
        jumping: what all chains know of the modes; () where fewer than two are known.
        centring: how much sites are centred in the sampled coordinates; () as written.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        """A field of the inner kernel's state."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    @property
    def z(self) -> Any:
        """The draw, unconstrained, in the coordinates that are sampled."""
        z = self.inner.z
        return Decentred(z, self.centring) if self.centring else z

    def _replace(self, **changes: Any) -> ModeJumpingState:
        """The state with other values of its own fields or of the inner state's."""
        own = {name: changes.pop(name) for name in tuple(changes) if name in self._fields}
        inner = own.get("inner", self.inner)
        own["inner"] = inner._replace(**changes) if changes else inner
        return ModeJumpingState(*(own.get(n, x) for n, x in zip(self._fields, tuple(self))))
