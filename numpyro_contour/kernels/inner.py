"""What mode jumping needs of the kernel inside it: where its chain is, and how to move it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer import HMC, BarkerMH
from numpyro.infer.mcmc import MCMCKernel

from numpyro_contour.core.arrays.precision import full_precision
from numpyro_contour.core.arrays.vectors import ravel, unravel_like
from numpyro_contour.modes.mode_shapes import ModeShapes
from numpyro_contour.modes.tries import Point


class NumPyroInner:
    """HMC, NUTS or BarkerMH."""

    def __init__(self, kernel: MCMCKernel):
        self.kernel = kernel

    def potential(self, args: tuple, kwargs: dict) -> Callable[[Any], jax.Array]:
        """The potential energy of positions; the kernel has been initialised."""
        if isinstance(self.kernel, HMC):
            return full_precision(self.kernel.get_potential_fn(args, kwargs))
        return full_precision(self.kernel._potential_fn)

    @property
    def forward(self) -> bool:
        """Whether gradients are to be computed in forward mode."""
        return getattr(self.kernel, "_forward_mode_differentiation", False)

    @staticmethod
    def point(state: Any) -> Point:
        """Where one chain is."""
        return Point(ravel(state.z), state.potential_energy, ravel(state.z_grad))

    @staticmethod
    def moved(state: Any, point: Point) -> Any:
        """One chain at another point."""
        z = unravel_like(point.position, state.z)
        changes = {
            "z": z,
            "potential_energy": point.energy,
            "z_grad": unravel_like(point.gradient, state.z),
        }
        if hasattr(state, "energy"):  # that of the momentum stays
            changes["energy"] = state.energy + point.energy - state.potential_energy
        return state._replace(**changes)

    @staticmethod
    def gradients(state: Any) -> jax.Array:
        """Gradients that the last draw took."""
        return getattr(state, "num_steps", jnp.ones_like(state.i))

    @staticmethod
    def iteration(state: Any) -> jax.Array:
        """Draws so far."""
        return state.i

    @staticmethod
    def window(state: Any) -> jax.Array:
        """The number of the window of the warm-up."""
        return state.adapt_state.window_idx

    @property
    def finds_metric(self) -> bool:
        """Whether the warm-up finds the mass matrix."""
        return bool(self.kernel._adapt_mass_matrix)

    def with_metric(self, state: Any, covariance: Callable) -> Any:
        """Chains with a mass matrix for all modes.

        Args:
            state: the state of one chain or of all.
            covariance: from a matrix's diagonal or all of it, `covariance(dense, places)`.
        """
        old = state.adapt_state
        like = state.z
        batch = jnp.ndim(state.i)
        one = like if not batch else jax.tree.map(lambda x: x[0], like)
        numbers = unravel_like(np.arange(ravel(one).size), one)
        blocks = old.inverse_mass_matrix
        if not isinstance(blocks, dict):
            found = {None: covariance(blocks.ndim - batch == 2, np.arange(ravel(one).size))}
        else:
            found = {
                names: covariance(
                    block.ndim - batch == 2,
                    np.concatenate([np.ravel(numbers[name]) for name in names]).astype(int),
                )
                for names, block in blocks.items()
            }
        roots = {names: _roots(matrix) for names, matrix in found.items()}
        parts = (found, *({n: r[i] for n, r in roots.items()} for i in (0, 1)))
        if not isinstance(blocks, dict):
            parts = tuple(part[None] for part in parts)
        spread = lambda new, old: jnp.broadcast_to(new, old.shape).astype(old.dtype)
        names = "inverse_mass_matrix", "mass_matrix_sqrt", "mass_matrix_sqrt_inv"
        new = {
            name: jax.tree.map(spread, part, getattr(old, name)) for name, part in zip(names, parts)
        }
        return state._replace(adapt_state=old._replace(**new))


def _roots(inverse_mass: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The square root of a mass matrix and its inverse, as NumPyro keeps them."""
    if inverse_mass.ndim == 1:
        root = jnp.sqrt(inverse_mass)
        return 1 / root, root
    turned = jnp.linalg.cholesky(inverse_mass[::-1, ::-1])[::-1, ::-1].T
    eye = jnp.eye(len(inverse_mass), dtype=inverse_mass.dtype)
    return jax.scipy.linalg.solve_triangular(turned, eye, lower=True), turned
