"""Targets of many columns in which only (x'w)^2 counts: phase retrieval, logistic regression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import NUTS
from scipy.optimize import minimize

from benchmarks.minibatches.modes_of_rows.target import (
    USUAL,
    Length,
    Target,
    float32,
    mass_and_barrier,
    on_points,
)
from benchmarks.shared.runs import run


def _prior(mean: np.ndarray) -> Callable[[], dict]:
    return lambda: {"w": numpyro.sample("w", dist.Normal(mean, 1).to_event(1))}


def _form(sites: dict, x: jax.Array) -> jax.Array:
    return (x @ sites["w"]) ** 2


def _quartic(sites: dict, slope: jax.Array, bend: jax.Array) -> jax.Array:
    """A polynomial in the products of two coordinates of w."""
    products = jnp.outer(sites["w"], sites["w"]).ravel()
    return slope @ products + 0.5 * products @ bend @ products


def _statistics(x: np.ndarray, slopes: np.ndarray, bend: float) -> tuple:
    """Sums over rows with energies slope (x'w)^2 + bend (x'w)^4 / 2 up to a constant."""
    products = np.einsum("ri,rj->rij", x, x).reshape(len(x), -1)
    return float32(slopes @ products, bend * products.T @ products)


def _overlap(w: np.ndarray) -> Callable[[dict], np.ndarray]:
    """How far draws are along the way from the one mode (-1) to the other (1)."""
    return lambda sites: np.asarray(sites["w"]) @ w / (w @ w)


def phase_retrieval(rows: int = 100_000, minibatch: int = 500, length: Length = USUAL) -> Target:
    """Squares of a linear form are seen with noise: what is its sign?"""
    g = np.random.default_rng(6)
    noise, mean = 3.0, np.array([0.3, 0, 0])
    x = g.standard_normal((rows, 3))
    w = np.array([1, 0.5, -0.5])
    w *= (84 / rows) ** 0.25 / np.linalg.norm(w)
    y = (x @ w) ** 2 + noise * g.standard_normal(rows)
    statistics = _statistics(x, -y / noise**2, 1 / noise**2)
    # A grid whose first axis is the way between the modes.
    turn = np.linalg.qr(np.column_stack([w, np.eye(3)[:, :2]]))[0]
    turn[:, 0] *= np.sign(turn[:, 0] @ w)
    reach = 2 * np.linalg.norm(w)
    axes = np.meshgrid(*[np.linspace(-reach, reach, 80)] * 3, indexing="ij")
    cube = np.stack(axes, -1).reshape(-1, 3)
    squares = lambda point: 0.5 * jnp.sum((point["w"] - mean) ** 2)
    energies = on_points(_quartic, squares, {"w": float32(cube @ turn.T)[0]}, statistics)
    side = cube[:, 0]
    ends = (-0.5 * reach, 0.5 * reach)
    mass, barrier, top = mass_and_barrier(energies, side > 0, side, ends)
    overlap = _overlap(w)
    return Target(
        "phase retrieval, 3-d",
        _prior(mean),
        lambda sites, x: dist.Normal(_form(sites, x), noise),
        float32(x, y),
        minibatch,
        _quartic,
        statistics,
        "sufficient statistics",
        lambda sites: overlap(sites) > 0,
        mass,
        barrier,
        {"w": turn @ cube[top]},
        length,
    )


#: the constant of the logits
_CONSTANT = -0.3


def logistic(
    size: int,
    strength: float,
    rows: int = 100_000,
    minibatch: int = 500,
    length: Length = USUAL,
) -> Target:
    """A logistic regression on (x'w)^2, with N |w|^4 = `strength` at all N."""
    g = np.random.default_rng(5)
    x = g.standard_normal((rows, size))
    w = np.zeros(size)
    w[:2] = 0.45, 0.3
    w *= (strength / rows) ** 0.25 / np.linalg.norm(w)
    mean = np.zeros(size)
    mean[0] = 2.0
    y = g.random(rows) < 1 / (1 + np.exp(-((x @ w) ** 2 + _CONSTANT)))
    chance = 1 / (1 + np.exp(-_CONSTANT))
    statistics = _statistics(x, chance - y, chance * (1 - chance))
    mode, barrier, top = _mode_and_pass(w, statistics)
    overlap = _overlap(mode)
    return Target(
        f"logistic, {size}-d",
        _prior(mean),
        lambda sites, x: dist.Bernoulli(logits=_form(sites, x) + _CONSTANT),
        float32(x, y),
        minibatch,
        _quartic,
        statistics,
        "second order in the logits",
        lambda sites: overlap(sites) > 0,
        _mirrored_mass(mode, mean, statistics),
        barrier,
        {"w": top},
        length,
    )


def _mirrored_mass(w: np.ndarray, mean: np.ndarray, statistics: tuple) -> float:
    """The mass of the half-space around w.

    Without the prior's mean a draw and its mirror image have the same density. With it the ratio
    is exp(2 mean'w), so draws of one mode tell the masses of both.
    """

    def even(*statistics: jax.Array) -> None:
        sites = _prior(np.zeros(len(w)))()
        numpyro.factor("rows", -_quartic(sites, *statistics))

    start = {"w": jnp.asarray(np.tile(w, (2, 1)), jnp.float32)}
    draws = run(NUTS(even), 150, 350, 2, *statistics, init_params=start).get_samples()["w"]
    draws = np.asarray(draws, np.float64)
    pull = (draws * np.sign(draws @ w)[:, None]) @ mean
    return float(np.exp(pull).sum() / (2 * np.cosh(pull)).sum())


def _mode_and_pass(w: np.ndarray, statistics: tuple) -> tuple[np.ndarray, float, np.ndarray]:
    """The mode near w, and the lowest point at equal distance from both: its height and place."""
    function = jax.jit(jax.value_and_grad(lambda x: _quartic({"w": x}, *statistics)))
    scale = np.linalg.norm(w)

    def least(start: np.ndarray, keep: np.ndarray) -> Any:
        """The minimum in a subspace, from a projection to it."""

        def value(z: np.ndarray) -> tuple[float, np.ndarray]:
            energy, gradient = function(jnp.asarray(scale * keep @ z, jnp.float32))
            return float(energy), scale * keep @ np.asarray(gradient, float)

        return minimize(value, start, jac=True, method="BFGS")

    mode = least(w / scale, np.eye(len(w)))
    across = np.eye(len(w)) - np.outer(mode.x, mode.x) / (mode.x @ mode.x)
    starts = np.random.default_rng(0).standard_normal((5, len(w))) / (2 * len(w) ** 0.5)
    top = min((least(across @ start, across) for start in starts), key=lambda found: found.fun)
    return scale * mode.x, float(top.fun - mode.fun), scale * across @ top.x
