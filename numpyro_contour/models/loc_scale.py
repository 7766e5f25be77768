"""Sites with a location and a scale, written as a distribution that depends on these less."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.linalg import solve_triangular
from numpyro.infer.reparam import LocScaleReparam


@dataclass(frozen=True)
class LocScale:
    """A distribution with a location and a scale for each number, and what it is wrapped in."""

    base: Any
    expand_shape: tuple[int, ...]
    event_dim: int

    @staticmethod
    def of(fn: Any) -> LocScale | None:
        """The distribution inside an expanded or independent one, None if it is of another kind."""
        base, expand_shape, event_dim = _wrapper._unwrap(fn)
        kind = _KINDS.get(type(base))
        return None if kind is None else kind(base, expand_shape, event_dim)

    @property
    def scale(self) -> Any:
        """The scale, for each number of the distribution."""
        return jnp.asarray(self.base.scale)

    @property
    def loc(self) -> jax.Array:
        """The location, 0 where it has none."""
        return jnp.asarray(getattr(self.base, "loc", 0.0))

    def share_of_prior(self, c: Any, variance: Any) -> Any:
        """Variances of z as shares of those of the normals that are nearest to its prior."""
        information = _INFORMATION.get(type(self.base), lambda _: 1.0)(self.base)
        return variance * information / self.scale ** (2 * c)

    def possible(self, c: np.ndarray) -> np.ndarray:
        """Centrings that it can have, near those that are wanted."""
        return c

    def decentred(self, c: Any) -> Any:
        """The distribution of z, wrapped as that of x."""
        return _wrapper._wrap(self._base_of(c), self.expand_shape, self.event_dim)

    def _base_of(self, c: Any) -> Any:
        kind = type(self.base)
        names = [name for name in kind.arg_constraints if name not in ("loc", "scale")]
        others = {name: getattr(self.base, name) for name in names}
        return kind(loc=c * self.loc, scale=self.scale**c, **others)

    def centred_value(self, c: Any, z: jax.Array) -> jax.Array:
        """X of z."""
        x = self.loc + self.scale ** (1 - c) * (self._to_line(z) - c * self.loc)
        return self._from_line(x)

    def decentred_value(self, c: Any, x: jax.Array) -> jax.Array:
        """Z of x."""
        z = c * self.loc + self.scale ** (c - 1) * (self._to_line(x) - self.loc)
        return self._from_line(z)

    def _to_line(self, x: jax.Array) -> jax.Array:
        return jnp.log(x) if type(self.base) is dist.LogNormal else x

    def _from_line(self, x: jax.Array) -> jax.Array:
        return jnp.exp(x) if type(self.base) is dist.LogNormal else x


class Walk(LocScale):
    """A Gaussian random walk, whose steps have one scale."""

    @property
    def scale(self) -> jax.Array:
        """The scale, with an axis for the steps."""
        return jnp.asarray(self.base.scale)[..., None]

    def possible(self, c: np.ndarray) -> np.ndarray:
        """The same for all steps."""
        return np.broadcast_to(c.mean(-1, keepdims=True), c.shape)

    def _base_of(self, c: Any) -> Any:
        scale = jnp.asarray(self.base.scale) ** jnp.asarray(c)[..., 0]
        return dist.GaussianRandomWalk(scale, num_steps=self.base.num_steps)


class Joint(LocScale):
    """A multivariate normal, whose scale is the Cholesky factor of its covariance."""

    @property
    def scale(self) -> jax.Array:
        """The factor, (..., k, k)."""
        return self.base.scale_tril

    def possible(self, c: np.ndarray) -> np.ndarray:
        """All of a vector's numbers as they are written, or none."""
        return np.broadcast_to(np.round(c.mean(-1, keepdims=True)), c.shape)

    def share_of_prior(self, c: Any, variance: Any) -> Any:
        """The same, for vectors that are not centred."""
        return variance

    def _base_of(self, c: Any) -> Any:
        written = jnp.asarray(c)[..., :1, None] > 0.5
        factor = jnp.where(written, self.scale, jnp.eye(self.scale.shape[-1]))
        return dist.MultivariateNormal(c * self.loc, scale_tril=factor)

    def centred_value(self, c: Any, z: jax.Array) -> jax.Array:
        """X of z."""
        return jnp.where(c > 0.5, z, self.loc + (self.scale @ z[..., None])[..., 0])

    def decentred_value(self, c: Any, x: jax.Array) -> jax.Array:
        """Z of x."""
        away = jnp.broadcast_to((x - self.loc)[..., None], (*jnp.shape(x), 1))
        factor = jnp.broadcast_to(self.scale, (*jnp.shape(x), jnp.shape(x)[-1]))
        return jnp.where(c > 0.5, x, solve_triangular(factor, away, lower=True)[..., 0])


_KINDS: dict[type, type[LocScale]] = {
    dist.Normal: LocScale,
    dist.LogNormal: LocScale,
    dist.StudentT: LocScale,
    dist.Cauchy: LocScale,
    dist.Laplace: LocScale,
    dist.Logistic: LocScale,
    dist.GaussianRandomWalk: Walk,
    dist.MultivariateNormal: Joint,
}
# Fisher information of the location where it is not one. Of a walk it is the curvature of all
# steps but the last, between their neighbours.
_INFORMATION: dict[type, Callable[[Any], Any]] = {
    dist.StudentT: lambda fn: (fn.df + 1) / (fn.df + 3),
    dist.Cauchy: lambda _: 0.5,
    dist.Logistic: lambda _: 1 / 3,
    dist.GaussianRandomWalk: lambda _: 2.0,
}
_wrapper = LocScaleReparam(0.0)


class decentred_sites(numpyro.primitives.Messenger):
    """Handler by which sites have the distributions of z, and the model gets x.

    NumPyro's `LocScaleReparam` would give the sites other names, by which no user, and no strategy
    of initial values, knows them. Around the model itself, so that a site's value comes from
    outside of it.

    Args:
        fn: a model.
        centring: how much sites are centred, by name.
    """

    def __init__(self, fn: Callable, centring: Mapping[str, Any]):
        super().__init__(fn)
        self.centring = centring
        #: the values x of the sites, of the last call
        self.values: dict[str, jax.Array] = {}

    def process_message(self, msg: dict[str, Any]) -> None:
        """Give a site the distribution of z."""
        found = _free_site(msg, self.centring)
        if found is not None:
            msg["fn"], msg["_loc_scale"] = found.decentred(self.centring[msg["name"]]), found

    def postprocess_message(self, msg: dict[str, Any]) -> None:
        """Give the model x, after all handlers outside of this one have seen z."""
        if "_loc_scale" in msg:
            name = msg["name"]
            msg["value"] = msg["_loc_scale"].centred_value(self.centring[name], msg["value"])
            self.values[name] = msg["value"]


class record_loc_scale(numpyro.primitives.Messenger):
    """Handler that records sites with a location and a scale, with their values.

    Args:
        fn: a model.
        names: the names of the sites. None (default) for all that have no value of their own.
    """

    def __init__(self, fn: Callable, names: Any = None):
        super().__init__(fn)
        self.names = names
        #: their distributions and values, by name
        self.sites: dict[str, tuple[LocScale, jax.Array]] = {}

    def process_message(self, msg: dict[str, Any]) -> None:
        """Recognize a site before handlers outside of this one give it a value."""
        found = _free_site(msg, self.names)
        if found is not None:
            msg["_loc_scale_seen"] = found

    def postprocess_message(self, msg: dict[str, Any]) -> None:
        """Record a site."""
        if "_loc_scale_seen" in msg:
            self.sites[msg["name"]] = (msg["_loc_scale_seen"], msg["value"])


def _free_site(msg: dict[str, Any], names: Any) -> LocScale | None:
    if msg["type"] != "sample" or msg["is_observed"] or msg["value"] is not None:
        return None
    if names is not None and msg["name"] not in names:
        return None
    return LocScale.of(msg["fn"])
