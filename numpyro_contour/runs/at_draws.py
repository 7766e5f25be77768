"""Functions of energies and gradients over all data, evaluated at draws of a finished run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import lax
from numpyro.distributions import biject_to

from numpyro_contour.core.arrays.compensated_sums import Sum
from numpyro_contour.core.arrays.hosts import everywhere
from numpyro_contour.core.arrays.vectors import ravel
from numpyro_contour.models.coordinates import decentred
from numpyro_contour.models.either_mode import values_and_gradient
from numpyro_contour.models.jaxprs import operations
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.runs.finished_run import FinishedRun

# Draws that are evaluated at once, if one takes no more operations than the second number.
_AT_ONCE = 8
_FEW_OPERATIONS = 1e6

#: `position -> (potential energy, gradient)` over all data, of a position as a vector
EnergyAndGradient = Callable[[jax.Array], tuple[Sum, jax.Array]]


class AtDraws:
    """A function of draws, traced once.

    Args:
        run: a finished run.
        function: `(energy_and_gradient, *positions) -> arrays`, of one position as a vector for
            each of `ends`.
        ends: how many draws the function takes. Defaults to 1.
        of_chains: arrays with the chain as first axis. The function takes those of the first
            draw's chain before the positions. None (default) for no such argument.
        positions: vectors (n, m, d) that stand for the draws of n chains. None (default) for the
            run's own.
    """

    def __init__(
        self,
        run: FinishedRun,
        function: Callable,
        ends: int = 1,
        of_chains: Any = None,
        positions: Any = None,
    ):
        draws = run.fields.get("unconstrained") if positions is None else positions
        as_vectors = draws is not None and np.shape(draws)[-1] > 0
        if not as_vectors:
            draws = run.samples
            if run.model is not None:
                draws = {name: draws[name] for name in run.like}

        def of_draws(chain: jax.Array, *chosen: Any) -> Any:
            known = () if of_chains is None else (jax.tree.map(lambda x: x[chain], of_chains),)
            if run.model is None:
                return function(_of_function(run.exact_energy()), *known, *map(ravel, chosen))
            full_data = run.full_data(run.model_args, run.model_kwargs)
            if not as_vectors:
                chosen = tuple(
                    ravel(unconstrained(full_data.potential, draw, run.like)) for draw in chosen
                )
            return function(full_data.energy_and_gradient, *known, *chosen)

        self._draws = draws
        one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[2:], leaf.dtype), draws)
        self._trace, shapes = jax.make_jaxpr(of_draws, return_shape=True)(
            np.int32(0), *[one] * ends
        )
        self._shape = jax.tree.structure(shapes)
        #: elementary operations of one evaluation
        self.operations = operations(self._trace.jaxpr)

    def at(self, *places: tuple[np.ndarray, np.ndarray]) -> Any:
        """The results in float64, (n, ...), at (chains, draws) for each end, n numbers each."""
        # A divisor of the number of draws: a smaller last batch would be compiled separately.
        at_once = math.gcd(places[0][0].size, _AT_ONCE)
        at_once = at_once if self.operations <= _FEW_OPERATIONS else 1

        @jax.jit
        def of_all(kept: list, data: list) -> list:  # as arguments data are not folded
            def of_draw(draw: list) -> list:
                return jax.core.eval_jaxpr(self._trace.jaxpr, data, *draw)

            return lax.map(of_draw, kept, batch_size=at_once)

        # Selected where the draws are stored: the others must not be moved to a device.
        leaves = jax.tree.leaves(self._draws)
        kept = [leaf[rows, columns] for rows, columns in places for leaf in leaves]
        kept = [np.asarray(places[0][0], np.int32), *kept]
        found = everywhere(of_all(kept, self._trace.consts))
        results = [np.asarray(x, np.float64) for x in found]
        return jax.tree.unflatten(self._shape, results)


def _of_function(energy: Callable[[jax.Array], jax.Array]) -> EnergyAndGradient:
    def at(flat: jax.Array) -> tuple[Sum, jax.Array]:
        value, slope = values_and_gradient(energy, flat)
        return Sum(value, jnp.zeros_like(value)), slope

    return at


def unconstrained(potential: ModelPotential, values: dict, like: dict) -> dict[str, jax.Array]:
    """The inverse of `constrained`, for the latent sites, in the coordinates of `like`."""
    model = potential.rows(potential.plates.first_rows())
    latent = {name: values[name] for name in like}
    substituted = numpyro.handlers.substitute(model, data=latent)
    sites = numpyro.handlers.trace(substituted).get_trace(
        *potential.model_args, **potential.model_kwargs
    )
    z = {name: biject_to(sites[name]["fn"].support).inv(x) for name, x in latent.items()}
    return decentred(potential, z, getattr(like, "centring", None))


def chunks(draws: int, at_once: int) -> Iterator[slice]:
    """Slices of one length, so that they share a compilation; the last one reaches back.

    Example:
        >>> from numpyro_contour.runs.at_draws import chunks
        >>> [(rows.start, rows.stop) for rows in chunks(7, 3)]
        [(0, 3), (3, 6), (4, 7)]
    """
    length = min(draws, at_once)
    for begin in range(0, draws, length):
        start = min(begin, draws - length)
        yield slice(start, start + length)
