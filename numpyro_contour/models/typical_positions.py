"""Positions at which a model can be tried before any chain has run."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from numpyro.infer import init_to_sample
from numpyro.infer.util import initialize_model
from scipy.optimize import minimize

from numpyro_contour.core.arrays.vectors import ravel, unravel_like
from numpyro_contour.models.handlers import subsample_rows
from numpyro_contour.models.model_potential import ModelPotential

# Draws of the prior from which descents begin, and where these end at the latest.
_DRAWS = 6
_ITERATIONS = 60
# Each descent sees other rows, this many: the ends scatter around the mode of all rows.
_ROWS = 10_000


def typical_positions(potential: ModelPotential) -> tuple[Any, np.ndarray]:
    """Positions that descents of the potential energy over some rows come to from prior draws.

    Several modes are seen by several of them. Where the energy is not finite there are fewer. After
    them stand positions on the way there, as far above each end as the energy of draws is on
    average: d / 2 nats for d coordinates, if the energy is quadratic.

    Args:
        potential: the potential energy of a model.

    Returns:
        An unconstrained position, and flat positions in its shapes, (p, d).
    """
    model = subsample_rows(potential.model, potential.plates.first_rows())

    def drawn(key: jax.Array) -> Any:
        return initialize_model(
            key,
            model,
            init_strategy=init_to_sample,
            model_args=potential.model_args,
            model_kwargs=potential.model_kwargs,
        ).param_info.z

    starts = jax.jit(jax.vmap(drawn))(random.split(random.key(0), _DRAWS))
    like = jax.tree.map(lambda x: x[0], starts)
    found = descents(potential, like, np.asarray(jax.vmap(ravel)(starts), float))
    ends = [descent.end for descent in found]
    return like, np.array(ends + [descent.beside for descent in found])


class Descent(NamedTuple):
    """Where a descent came to."""

    #: its end, (d,)
    end: np.ndarray
    #: the energy there, over the rows that it saw
    energy: float
    #: a position on the way, as high above the end as draws are on average, (d,)
    beside: np.ndarray


def descents(
    potential: ModelPotential,
    like: Any,
    starts: np.ndarray,
    iterations: int = _ITERATIONS,
    held: np.ndarray | None = None,
) -> list[Descent]:
    """Descents of the potential energy over some rows, at most 10,000 of a plate.

    Args:
        potential: the potential energy of a model.
        like: an unconstrained position.
        starts: where they begin, flat positions in its shapes, (p, d).
        iterations: of L-BFGS, at most. Defaults to 60.
        held: coordinates that stay, a mask (d,). None (default) for none.

    Returns:
        Those whose energies are finite.
    """
    rng = np.random.default_rng(0)

    @jax.jit
    def energy(flat: jax.Array, rows: dict) -> tuple[jax.Array, jax.Array]:
        indices = potential.plates.first_rows() | rows
        return jax.value_and_grad(lambda x: potential.at(unravel_like(x, like), indices))(flat)

    def evaluated(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = energy(jnp.asarray(flat, jnp.result_type(float)), rows)
        value = float(value)
        way.append((value, np.array(flat)))
        slope = np.asarray(gradient, float)
        return value, slope if held is None else np.where(held, 0.0, slope)

    ended: list[Descent] = []
    options = {"maxiter": iterations}
    for start in starts:
        way: list[tuple[float, np.ndarray]] = []
        rows = {
            name: jnp.asarray(rng.choice(size, min(size, _ROWS), replace=False))
            for name, (size, _) in potential.plates.sizes.items()
        }
        end = minimize(evaluated, start, jac=True, method="L-BFGS-B", options=options).x
        for flat in (end, start):
            lowest, _ = evaluated(flat)
            if np.isfinite(lowest):
                ended.append(Descent(flat, lowest, _beside(flat, lowest, way)))
                break
    return ended


def _beside(end: np.ndarray, lowest: float, way: list[tuple[float, np.ndarray]]) -> np.ndarray:
    """A position about d / 2 nats above the end of a descent, where it came from."""
    wanted = 0.5 * len(end)
    higher = [(value - lowest, flat) for value, flat in way if value - lowest >= wanted]
    finite = [(above, flat) for above, flat in higher if np.isfinite(above)]
    if not finite:
        return end
    above, flat = finite[-1]
    return end + np.sqrt(wanted / above) * (flat - end)
