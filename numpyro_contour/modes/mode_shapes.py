"""The modes that a chain knows, as arrays: t distributions, and the cell of each."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln

from numpyro_contour.core.arrays.factors import LowRank, displacement, slope

#: degrees of freedom that a mode may have: even numbers, whose chi squares are sums of logarithms
TAILS = (4, 8, 16, 40)
#: the number, of these, of a mode of which nothing else is known
FIRST_TAIL = 1


class ModeShapes(NamedTuple):
    r"""K modes, each a t distribution of mean m and covariance F F'.

    On the host its arrays are NumPy's.

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.modes.mode_shapes import cell_of, log_densities, mode_shapes
        >>> means, factors = np.array([[-3.0], [3.0]]), np.ones((2, 1, 1))
        >>> modes = mode_shapes(means, factors, np.log([0.3, 0.7]))
        >>> int(cell_of(log_densities(modes, np.array([2.0]))))
        1
    """

    #: m, (K, d)
    mean: jax.Array
    #: F, matrices (K, d, d) or a `LowRank` of (K, ...)
    factor: Any
    #: the factor by which `slope` gives F^-1 v
    back: Any
    #: log of the determinant of F, (K,)
    log_volume: jax.Array
    #: the number of the mode's tail in `TAILS`, (K,)
    tail: jax.Array
    #: log of the mass of each mode, normalised, (K,)
    log_mass: jax.Array

    @property
    def number(self) -> int:
        """K."""
        return self.mean.shape[-2]

    @property
    def roots(self) -> Any:
        """F as matrices, (K, d, d)."""
        if not isinstance(self.factor, LowRank):
            return self.factor
        scales, directions, stretches = self.factor
        more = (directions * (stretches - 1)[:, None]) @ directions.swapaxes(1, 2)
        return scales[:, :, None] * (more + np.eye(scales.shape[1], dtype=scales.dtype))

    @property
    def sds(self) -> Any:
        """Standard deviations of the coordinates in each mode, (K, d)."""
        if not isinstance(self.factor, LowRank):
            return (self.factor**2).sum(-1) ** 0.5
        scales, directions, stretches = self.factor
        more = (directions**2 @ (stretches**2 - 1)[:, :, None])[..., 0]
        return scales * (1 + more) ** 0.5


def mode_shapes(means: np.ndarray, factors: Any, log_mass: np.ndarray) -> ModeShapes:
    """Modes from what a search has found, on the host.

    Args:
        means: (K, d).
        factors: roots of covariances, (K, d, d), or a `LowRank` of (K, ...).
        log_mass: log masses, (K,), of any scale.

    Returns:
        The `ModeShapes`, of NumPy's arrays, with tails of 8 degrees of freedom.
    """
    dtype = np.dtype(jnp.result_type(float))
    if isinstance(factors, LowRank):
        scales, directions, stretches = factors
        back: Any = LowRank(1 / scales, directions, 1 / stretches)
        log_volume = np.log(scales).sum(-1) + np.log(stretches).sum(-1)
    else:
        back = np.linalg.inv(factors).swapaxes(1, 2)
        log_volume = np.linalg.slogdet(factors)[1]
    log_mass = np.asarray(log_mass) - np.logaddexp.reduce(log_mass)
    tails = np.full(len(means), FIRST_TAIL, np.int32)
    parts: Any = means, factors, back, log_volume, tails, log_mass
    found = ModeShapes(*parts)
    of_type = lambda x: x.astype(dtype) if x.dtype.kind == "f" else x
    return jax.tree.map(of_type, found)


def standardised(modes: ModeShapes, position: jax.Array) -> jax.Array:
    """F^-1 (x - m) of a position in each mode, (K, d)."""
    return jax.vmap(slope)(modes.back, position - modes.mean)


def placed(modes: ModeShapes, number: jax.Array, z: jax.Array) -> jax.Array:
    """M + F z in one of the modes, (d,)."""
    factor = jax.tree.map(lambda x: x[number], modes.factor)
    return modes.mean[number] + displacement(factor, z)


def log_t(square: Any, number: Any, size: int) -> Any:
    r"""The log density of a t distribution of unit covariance in d dimensions.

    .. math:: \log\Gamma\frac{\nu + d}2 - \log\Gamma\frac\nu2
              - \frac d2 \log((\nu - 2) \pi)
              - \frac{\nu + d}2 \log\Bigl(1 + \frac{|z|^2}{\nu - 2}\Bigr)

    Args:
        square: |z|^2.
        number: the number of the degrees of freedom in `TAILS`.
        size: d.
    """
    nu = np.array(TAILS, float)
    constants = gammaln(0.5 * (nu + size)) - gammaln(0.5 * nu)
    constants -= 0.5 * size * np.log((nu - 2) * np.pi)
    dtype = jnp.result_type(float)
    constant, power, room = (
        jnp.asarray(x, dtype)[number] for x in (constants, 0.5 * (nu + size), nu - 2)
    )
    return constant - power * jnp.log1p(square / room)


def log_densities(modes: ModeShapes, position: jax.Array) -> jax.Array:
    """Log densities at a position of the modes' t distributions, times their masses, (K,)."""
    square = jnp.sum(standardised(modes, position) ** 2, -1)
    size = modes.mean.shape[-1]
    return log_t(square, modes.tail, size) - modes.log_volume + modes.log_mass


def cell_of(log_densities: jax.Array) -> jax.Array:
    """The mode that a position is in: the one of the largest density there, (), from 0."""
    return jnp.argmax(log_densities).astype(jnp.int32)


def drawn_t(uniforms: jax.Array, normals: jax.Array, number: jax.Array) -> jax.Array:
    """A draw of a t distribution of unit covariance, (d,).

    Args:
        uniforms: numbers in (0, 1], (half of the largest of `TAILS`,).
        normals: (d,).
        number: the number of its degrees of freedom in `TAILS`.
    """
    tail = jnp.asarray(TAILS)[number]
    counted = jnp.arange(uniforms.shape[0]) < tail // 2
    chi_square = -2 * jnp.sum(jnp.where(counted, jnp.log(uniforms), 0.0))
    return normals * jnp.sqrt((tail - 2) / chi_square)
