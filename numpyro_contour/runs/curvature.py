r"""The curvature of the potential energy at draws, in units of the steps that were made there.

A step size fits the widths of the places where it was found. Where the potential energy is bent
more strongly, as in a narrower mode, a step overshoots the bottom, and from a limit on it goes
farther away than it began: chains are thrown out and give such a place too little mass, without any
other sign. Draws there are few for that very reason, but they are those of the lowest energies if
the place would have much of the mass.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import lax, random

from numpyro_contour.core.arrays.factors import displacement, slope
from numpyro_contour.runs.at_draws import AtDraws, EnergyAndGradient
from numpyro_contour.runs.draw_weights import final_temperature
from numpyro_contour.runs.finished_run import FinishedRun

# Draws of a chain: so many of the lowest energies, and as many of even weight; fewer where all
# chains together would have more of either than the second number.
_LOWEST, _MOST = 8, 64
# A chain with fewer draws, and fewer draws of the lowest energies in all, tell nothing.
_FEWEST_OF_CHAIN, _FEWEST = 50, 8
# Products with the Hessian at a draw: an eigenvalue that stands out is found by three or four, the
# largest of an even spectrum is a tenth too low after eight.
_PRODUCTS = 8
# The most elementary operations, a few seconds' worth, that all draws may take together.
_OPERATIONS = 1e10
# From this share of an image on, what a product adds to the directions before it is not rounding.
_ROUNDING = 1e-4


def curvature(run: FinishedRun, log_weights: np.ndarray) -> xr.Dataset | None:
    r"""The largest eigenvalue of :math:`\epsilon D^{1/2} L^\top H L D^{1/2}` over its limit.

    H is the Hessian of the potential energy at a draw, epsilon the step size there, and moves are
    preconditioned by :math:`L D L^\top`. The limit is the product of step size and curvature from
    which on moves are unstable: 2 for Langevin moves, and 2 (1 + c) with a momentum coefficient c.

    Args:
        run: a finished run.
        log_weights: the log weights of its draws, (chains, draws).

    Returns:
        The variables `lowest`, at the draws of the lowest energies of each chain, and `even`, at
        draws of even weight, both (chain, place); of more than 64 chains evenly spaced ones, and
        not a number for others. None where moves were accepted by Metropolis-Hastings or
        preconditioned by "rmsprop", where there are too few draws, no temperature or no second
        derivatives, and where it would take long.
    """
    scales = run.move_scales()
    if scales is None or final_temperature(run) <= 0:
        return None
    usable = np.isfinite(log_weights) & np.isfinite(run.per_draw("potential_energy_estimate"))
    if usable.sum(1).min() < _FEWEST_OF_CHAIN:
        return None
    try:
        products = AtDraws(run, _tridiagonal, of_chains=scales)
    except Exception:  # of what is computed outside of JAX there are no second derivatives
        return None
    at_most = int(min(_MOST, _OPERATIONS // products.operations / 2))
    chains, draws = _places(run, np.where(usable, log_weights, -np.inf), at_most)
    if chains.size < 2 * _FEWEST:
        return None
    try:
        found = products.at((chains.ravel(), draws.ravel()))
    except Exception:  # which other passes over the model tell of
        return None
    step_size = run.per_draw("step_size")[chains, draws].astype(np.float64)
    largest = _largest_eigenvalues(*found).reshape(chains.shape)
    over_limit = np.full((len(log_weights), chains.shape[1]), np.nan)
    over_limit[chains[:, 0]] = step_size * largest / run.stable_below(step_size)
    lowest, even = np.split(over_limit, 2, axis=1)
    return xr.Dataset(
        {"lowest": (("chain", "place"), lowest), "even": (("chain", "place"), even)},
        {"chain": np.arange(len(log_weights))},
    )


def _places(
    run: FinishedRun, log_weights: np.ndarray, at_most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Chains and draws, (chains, places): those of the lowest energies, then even ones."""
    energies = run.per_draw("potential_energy_estimate")
    number = len(log_weights)
    chosen = np.linspace(0, number - 1, min(number, max(at_most, 1))).round().astype(int)
    of_chain = min(_LOWEST, at_most // len(chosen))
    draws = []
    for chain in chosen:
        with_weight = np.flatnonzero(np.isfinite(log_weights[chain]))
        by_energy = with_weight[np.argsort(energies[chain, with_weight], kind="stable")]
        # Even in their weights: a flattened chain is often where others hardly are.
        shares = np.exp(log_weights[chain] - log_weights[chain].max()).cumsum()
        levels = (np.arange(of_chain) + 0.5) / max(of_chain, 1) * shares[-1]
        draws.append(np.concatenate([by_energy[:of_chain], np.searchsorted(shares, levels)]))
    places = np.array(draws, int)
    return np.broadcast_to(chosen[:, None], places.shape), places


def _tridiagonal(
    energy_and_gradient: EnergyAndGradient, scales: tuple[Any, jax.Array], flat: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """What Lanczos' algorithm makes of the Hessian: the diagonal, and what stands beside it."""
    factor, diagonal = scales
    root = jnp.sqrt(diagonal)
    steps = min(_PRODUCTS, flat.shape[0])

    def product(v: jax.Array) -> jax.Array:
        direction = displacement(factor, root * v)
        image = jax.jvp(lambda x: energy_and_gradient(x)[1], (flat,), (direction,))[1]
        return root * slope(factor, image)

    def step(basis: jax.Array, number: jax.Array) -> tuple[jax.Array, tuple]:
        image = product(basis[number])
        along, whole = basis[number] @ image, _size(image)
        for _ in range(2):  # once leaves rounding that grows from step to step
            image = image - (basis @ image) @ basis
        size = _size(image)
        goes_on = size > _ROUNDING * whole
        following = jnp.where(goes_on, image / jnp.where(goes_on, size, 1.0), 0.0)
        return basis.at[number + 1].set(following), (along, jnp.where(goes_on, size, 0.0))

    first = random.normal(random.key(0), flat.shape, flat.dtype)
    basis = jnp.zeros((steps + 1, flat.shape[0]), flat.dtype)
    basis = basis.at[0].set(first / _size(first))
    _, (along, beside) = lax.scan(step, basis, jnp.arange(steps))
    return along, beside


def _largest_eigenvalues(along: np.ndarray, beside: np.ndarray) -> np.ndarray:
    """Of tridiagonal matrices, (n,); not a number where one is not finite."""
    size = along.shape[1]
    matrices = np.zeros((len(along), size, size))
    row = np.arange(size)
    matrices[:, row, row] = along
    matrices[:, row[1:], row[:-1]] = matrices[:, row[:-1], row[1:]] = beside[:, :-1]
    finite = np.isfinite(along).all(1) & np.isfinite(beside).all(1)
    found = np.linalg.eigvalsh(np.where(finite[:, None, None], matrices, 0.0))[:, -1]
    return np.where(finite, found, np.nan)


def _size(vector: jax.Array) -> jax.Array:
    """The length of a vector."""
    return jnp.sqrt(jnp.sum(vector**2))
