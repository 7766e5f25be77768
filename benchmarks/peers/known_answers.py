"""Densities of the literature whose modes, masses and moments are known exactly.

Those on a cube are posteriors under its uniform prior, in coordinates z whose prior is standard
normal: a coordinate of the cube is the standard normal distribution function of z.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from scipy import special, stats

from benchmarks.peers.target import Target, Truth, given

#: from here to the right a coordinate of many wells is in the right one: the top between them
MANY_WELLS_TOP = -0.0417
#: number of wells in pairs of coordinates
WELLS = 16

#: number of normals of the mixture
NORMALS = 40

#: the scale of the densities of LogGamma, and where its first two coordinates divide into modes
LOG_GAMMA_SCALE = 1 / 30
LOG_GAMMA_DIVIDES = (0.416, 0.5)

SHELL_RADIUS, SHELL_WIDTH, SHELL_CENTRE = 2.0, 0.1, 3.5

#: the side of the egg-box, and its peaks in units of 2 pi
EGG_BOX_SIDE = 10 * math.pi
EGG_BOX_PEAKS = np.array([(i, j) for i in range(6) for j in range(6) if (i + j) % 2 == 0])


def moments(values: np.ndarray, shares: np.ndarray) -> tuple[float, float]:
    """The mean and standard deviation of values with these probabilities."""
    mean = float(shares @ values)
    return mean, math.sqrt(shares @ (values - mean) ** 2)


def normalised(log_density: np.ndarray) -> np.ndarray:
    """Probabilities on a grid."""
    shares = np.exp(log_density - log_density.max())
    return shares / shares.sum()


# ------------------------------------------------------------------------------ many wells


def many_wells(x: jax.Array) -> jax.Array:
    """Pairs of a coordinate with two wells and a normal one, the wells first."""
    wells, others = x[:WELLS], x[WELLS:]
    return jnp.sum(0.5 * wells + 6 * wells**2 - wells**4) - 0.5 * jnp.sum(others**2)


def wells_on_the_right(x: np.ndarray) -> np.ndarray:
    """How many of the coordinates with two wells are in the right one."""
    return (x[..., :WELLS] > MANY_WELLS_TOP).sum(-1)


def many_wells_truth() -> Truth:
    """One coordinate by a grid, and the binomial number of those on the right."""
    # Middles of cells, one edge of which is at the top between the wells.
    step = 1e-4
    line = MANY_WELLS_TOP + step * (np.arange(-50_000, 50_000) + 0.5)
    shares = normalised(0.5 * line + 6 * line**2 - line**4)
    mean, sd = moments(line, shares)
    right = shares[line > MANY_WELLS_TOP].sum()
    return Truth(
        stats.binom.pmf(np.arange(WELLS + 1), WELLS, right),
        np.r_[np.full(WELLS, mean), np.zeros(WELLS)],
        np.r_[np.full(WELLS, sd), np.ones(WELLS)],
    )


# ------------------------------------------------------------------------------ forty normals


@cache
def centres(size: int) -> np.ndarray:
    """The means of the forty unit normals, (40, size), uniform in (-1, 1)."""
    with jax.ensure_compile_time_eval():
        drawn = random.uniform(random.PRNGKey(0), (NORMALS, size), minval=-1, maxval=1)
        return np.asarray(drawn, np.float64)


def forty_normals(x: jax.Array) -> jax.Array:
    """Forty unit normals of equal mass."""
    return jax.nn.logsumexp(-0.5 * jnp.sum((x - jnp.asarray(centres(x.shape[-1]))) ** 2, -1))


def nearest_centre(x: np.ndarray) -> np.ndarray:
    """The number of the nearest of the forty means."""
    middle = centres(x.shape[-1])
    return np.argmax(x @ middle.T - 0.5 * (middle**2).sum(-1), -1)


def quadrant(x: np.ndarray) -> np.ndarray:
    """The signs of the first two coordinates."""
    return 2 * (x[..., 0] > 0) + 1 * (x[..., 1] > 0)


def _of_forty_normals(masses: np.ndarray, size: int) -> Truth:
    middle = centres(size)
    return Truth(masses, middle.mean(0), np.sqrt(1 + middle.var(0)))


def quadrants_truth() -> Truth:
    """The four quadrants in two dimensions."""
    above = stats.norm.cdf(centres(2))
    sides = np.stack([1 - above, above], -1)
    masses = np.einsum("ka,kb->ab", sides[:, 0], sides[:, 1]) / NORMALS
    return _of_forty_normals(masses.ravel(), 2)


def forty_normals_truth(size: int, draws: int = 20_000) -> Truth:
    """The masses of the cells of the means, by as many independent draws from each normal."""
    rng = np.random.default_rng(0)
    masses = np.zeros(NORMALS)
    for middle in centres(size):
        cells = nearest_centre(middle + rng.standard_normal((draws, size)))
        masses += np.bincount(cells, minlength=NORMALS)
    return _of_forty_normals(masses / masses.sum(), size)


# ------------------------------------------------------------------------------ LogGamma


def _log_gamma(u: jax.Array) -> jax.Array:
    """Of the log of an exponential variable, for u in units of the scale."""
    return u - jnp.exp(u)


def _normal(u: jax.Array) -> jax.Array:
    return -0.5 * u**2 - 0.5 * math.log(2 * math.pi)


def log_gamma_factors(y: jax.Array) -> jax.Array:
    """The log density of each coordinate of Feroz and Skilling's LogGamma on the cube."""
    right, left = (y - 2 / 3) / LOG_GAMMA_SCALE, (y - 1 / 3) / LOG_GAMMA_SCALE
    first = jnp.logaddexp(_log_gamma(right[0]), _log_gamma(left[0])) - math.log(2)
    second = jnp.logaddexp(_normal(right[1]), _normal(left[1])) - math.log(2)
    # Counted from 1, coordinates up to (d + 2) / 2 are LogGamma.
    skewed = jnp.arange(1, len(y) + 1) <= (len(y) + 2) / 2
    others = jnp.where(skewed, _log_gamma(right), _normal(right))
    return jnp.concatenate([jnp.stack([first, second]), others[2:]])


def log_gamma(z: jax.Array) -> jax.Array:
    """The log likelihood of LogGamma."""
    return jnp.sum(log_gamma_factors(jax.scipy.stats.norm.cdf(z)))


def log_gamma_mode(z: np.ndarray) -> np.ndarray:
    """The number of one of the four modes."""
    first, second = (z[..., i] > special.ndtri(LOG_GAMMA_DIVIDES[i]) for i in range(2))
    return 2 * first + 1 * second


def log_gamma_truth(size: int, cells: int = 200_000) -> Truth:
    """By a grid for each coordinate, which are independent."""
    line = (np.arange(cells) + 0.5) / cells
    z = special.ndtri(line)
    each = jax.vmap(log_gamma_factors)(jnp.asarray(np.repeat(line[:, None], size, 1)))
    shares = [normalised(log_density) for log_density in np.asarray(each, np.float64).T]
    found = np.array([moments(z, share) for share in shares])
    right = [shares[i][line > LOG_GAMMA_DIVIDES[i]].sum() for i in range(2)]
    masses = np.outer(*([1 - mass, mass] for mass in right)).ravel()
    return Truth(masses, found[:, 0], found[:, 1])


# ------------------------------------------------------------------------------ shells


def two_shells(x: jax.Array) -> jax.Array:
    """Two thin shells of radius 2, whose middles are 7 apart in the first coordinate."""
    middles = jnp.zeros((2, len(x))).at[:, 0].set(jnp.array([-1.0, 1.0]) * SHELL_CENTRE)
    squares = jnp.sum((x - middles) ** 2, -1)
    # The distance has no gradient in the middle itself.
    away = jnp.sqrt(jnp.maximum(squares, 1e-12))
    return jax.nn.logsumexp(-0.5 * ((away - SHELL_RADIUS) / SHELL_WIDTH) ** 2)


def right_side(x: np.ndarray) -> np.ndarray:
    """Whether the first coordinate is above 0."""
    return (x[..., 0] > 0).astype(int)


def two_shells_truth(size: int) -> Truth:
    """By a grid of radii; the directions are uniform."""
    radii = SHELL_RADIUS + SHELL_WIDTH * np.linspace(-12.0, 12.0, 24_001)
    log_density = -0.5 * ((radii - SHELL_RADIUS) / SHELL_WIDTH) ** 2 + (size - 1) * np.log(radii)
    variance = np.full(size, normalised(log_density) @ radii**2 / size)
    variance[0] += SHELL_CENTRE**2
    return Truth(np.full(2, 0.5), np.zeros(size), np.sqrt(variance))


# ------------------------------------------------------------------------------ egg-box


def egg_box(z: jax.Array) -> jax.Array:
    """The log likelihood of the egg-box of Feroz, Hobson and Bridges."""
    x = EGG_BOX_SIDE * jax.scipy.stats.norm.cdf(z)
    return (2 + jnp.cos(x[0] / 2) * jnp.cos(x[1] / 2)) ** 5


def egg_box_mode(z: np.ndarray) -> np.ndarray:
    """The number of the nearest of the eighteen peaks on the square."""
    x = EGG_BOX_SIDE / (2 * math.pi) * special.ndtr(z)
    return np.argmax(x @ EGG_BOX_PEAKS.T - 0.5 * (EGG_BOX_PEAKS**2).sum(-1), -1)


def _middles(cells: int) -> np.ndarray:
    return (np.arange(cells) + 0.5) / cells


def _egg_box_shares(*lines: np.ndarray) -> np.ndarray:
    """Probabilities on a grid of the square, from points of [0, 1] along each side."""
    shares = np.exp((2 + np.outer(*(np.cos(EGG_BOX_SIDE / 2 * line) for line in lines))) ** 5 - 243)
    return shares / shares.sum()


def egg_box_truth(cells: int = 600, fine: int = 30_000) -> Truth:
    """By grids of the square: a fine one along a side, at whose ends z is infinite."""
    line = _middles(fine)
    found = moments(special.ndtri(line), _egg_box_shares(line, _middles(cells)).sum(1))
    z = special.ndtri(_middles(cells))
    points = np.stack(np.meshgrid(z, z, indexing="ij"), -1).reshape(-1, 2)
    shares = _egg_box_shares(_middles(cells), _middles(cells)).ravel()
    masses = np.bincount(egg_box_mode(points), shares, minlength=len(EGG_BOX_PEAKS))
    # The two sides are alike.
    return Truth(masses, *(np.full(2, value) for value in found))


# ------------------------------------------------------------------------------ targets


def _of_size(function: Callable, size: int) -> Callable[[], Truth]:
    return lambda: function(size)


def known_answers() -> list[Target]:
    """All of them."""
    shells = [
        given(
            f"two shells, {size}-d",
            size,
            two_shells,
            right_side,
            _of_size(two_shells_truth, size),
            100_000,
            scale=4.0,
        )
        for size in (2, 10)
    ]
    normals = [
        given("forty normals, 2-d", 2, forty_normals, quadrant, quadrants_truth, 100_000),
        given(
            "forty normals, 50-d",
            50,
            forty_normals,
            nearest_centre,
            _of_size(forty_normals_truth, 50),
            400_000,
        ),
    ]
    # In two dimensions the normals are about one mode.
    normals[0] = Target(**{**vars(normals[0]), "multimodal": False})
    return [
        given(
            "many wells, 32-d",
            2 * WELLS,
            many_wells,
            wells_on_the_right,
            many_wells_truth,
            100_000,
            scale=3.0,
        ),
        *normals,
        Target(
            "LogGamma, 10-d",
            10,
            log_gamma,
            log_gamma_mode,
            _of_size(log_gamma_truth, 10),
            100_000,
            1.0,
        ),
        *shells,
        Target("egg-box, 2-d", 2, egg_box, egg_box_mode, egg_box_truth, 100_000, 1.0),
    ]
