"""Positions in which some sites are partly non-centred, and which say how."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

#: what the names of coordinates of such a site end with, as in `numpyro.infer.reparam`
ENDING = "_decentered"


@jax.tree_util.register_static
class Centring(Mapping[str, np.ndarray]):
    """How much sites are centred, from 0 (not at all) to 1 (as the model is written).

    It is static to JAX: a program is compiled for it.

    Args:
        sites: numbers from 0 to 1 by name of site, in the shape of the site's location and scale.
    """

    def __init__(self, sites: Mapping[str, np.ndarray]):
        self._sites = {name: np.asarray(x, np.float32) for name, x in sorted(sites.items())}
        self._identity = tuple((n, x.shape, x.tobytes()) for n, x in self._sites.items())

    def __getitem__(self, name: str) -> np.ndarray:
        """The numbers of one site."""
        return self._sites[name]

    def __iter__(self) -> Iterator[str]:
        """The names of the sites."""
        return iter(self._sites)

    def __len__(self) -> int:
        """How many sites there are."""
        return len(self._sites)

    def __hash__(self) -> int:
        return hash(self._identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Centring) and self._identity == other._identity

    def __repr__(self) -> str:
        means = ", ".join(f"{name}: {x.mean():.2f} on average" for name, x in self._sites.items())
        return f"Centring({means})"


@jax.tree_util.register_pytree_with_keys_class
class Decentred(dict):
    r"""An unconstrained position in which sites x with a location and a scale have others.

    .. math:: z = c\,\mu + \sigma^{c - 1}\,(x - \mu)

    This is x itself for a centring c of 1. For 0 it has neither location nor scale. The position is
    a pytree with the leaves of a dictionary, so that what is computed from its vector knows its
    coordinates.

    Args:
        values: coordinates by name of site.
        centring: how much each site is centred.
    """

    def __init__(self, values: Mapping[str, Any], centring: Centring):
        super().__init__(values)
        self.centring = centring

    def __reduce__(self) -> tuple:
        return Decentred, (dict(self), self.centring)

    def tree_flatten_with_keys(self) -> tuple[Iterable, tuple]:
        """The coordinates by the names that they are shown by, in the order of a dictionary's."""
        names = tuple(sorted(self))
        shown = [name + ENDING if name in self.centring else name for name in names]
        children = [(jax.tree_util.DictKey(key), self[name]) for key, name in zip(shown, names)]
        return children, (names, self.centring)

    @classmethod
    def tree_unflatten(cls, known: tuple, children: Iterable) -> Decentred:
        """The position."""
        names, centring = known
        return cls(dict(zip(names, children)), centring)


def in_coordinates_of(position: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of sites as a position that has the coordinates of another.

    Args:
        position: the other one.
        values: the values by name.
    """
    centring = getattr(position, "centring", None)
    return dict(values) if centring is None else Decentred(values, centring)
