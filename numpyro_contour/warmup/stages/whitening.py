"""Preconditioners from the moves of a stage: a dense one, or one of low rank beside a diagonal."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from numpyro_contour.core.arrays.factors import (
    LowRank,
    displacement,
    eigh,
    inverse_transposed,
    orthonormal,
    slope,
    svd,
)
from numpyro_contour.warmup.stages.frames import Rows
from numpyro_contour.warmup.stages.tune import SLOPE_SHARE
from numpyro_contour.warmup.stages.tuning import TINY, positive_or_one

#: What is added to second moments of n steps, over n: directions that n steps say nothing of keep
#: the scale that they have.
SHRINKAGE = 0.005
#: The least share of a gradient's variance that is not taken for noise.
LEAST_SIGNAL = 1e-3


class Whitening(NamedTuple):
    """A change of coordinates from z to w, z = T w, with M = T T'."""

    #: T, (d, d)
    factor: jax.Array
    #: the variances of the gradient's noise in w, where they do not covary, (d,)
    noise: jax.Array
    #: the largest eigenvalue of the inverse of M: how much too long a step of M = 1 would be
    stiffness: jax.Array
    #: the condition number of M: how many times longer than now the slowest direction would take
    condition: jax.Array


def whitening(
    places: jax.Array, gradients: jax.Array, noise: jax.Array, temperature: jax.Array
) -> Whitening:
    r"""The preconditioner that second moments of positions and gradients suggest.

    .. math:: M^{-1} = P + V / \tau, \qquad
              P = C^{-1/2} \bigl(C^{1/2} (G - V)\, C^{1/2}\bigr)^{1/2} C^{-1/2}

    P is the precision of a Gaussian from the moments of any set of positions, also of a chain that
    has not mixed: there G - V = P C P. Where chains have mixed, M is the inverse of the mean
    square of the gradient over tau. T is turned so that T' V T is diagonal.

    With C = A A' and G - V = B B', and the singular values of B' A = U S W', it is
    :math:`P^{-1} = A W S^{-1} W' A'`: nothing is inverted and nothing squared, which single
    precision would not bear.

    Args:
        places: C, the covariance of positions, (d, d).
        gradients: G, the covariance of gradients, (d, d).
        noise: V, the covariance of a gradient's noise at one position, (d, d).
        temperature: tau.

    Source: Seyboldt, Carlson and Carpenter (2024), *Preconditioning Hamiltonian Monte Carlo by
    minimizing Fisher divergence*, for P without noise.
    """
    values, vectors = _decomposed(gradients)
    root, inverse = vectors * jnp.sqrt(values), vectors / jnp.sqrt(values)
    noisy, turn = eigh(_symmetric(inverse.T @ noise @ inverse))
    # The share of each direction's variance that is signal.
    signal = (root @ turn) * jnp.sqrt(jnp.clip(1 - noisy, LEAST_SIGNAL, 1.0))
    values, vectors = _decomposed(places)
    spread = vectors * jnp.sqrt(values)
    _, singular, turn = svd(signal.T @ spread)
    singular = jnp.maximum(singular, _eps(singular) * singular[0])
    exact = (spread @ turn.T) / jnp.sqrt(singular)
    # In the coordinates of `exact` P is 1.
    shares, turn = eigh(_symmetric(exact.T @ noise @ exact))
    shares = jnp.maximum(shares, 0.0) / positive_or_one(temperature)
    factor = (exact @ turn) / jnp.sqrt(1 + shares)
    squares = svd(factor)[1] ** 2
    variances = positive_or_one(temperature) * shares / (1 + shares)
    return Whitening(factor, variances, 1 / squares[-1], squares[0] / squares[-1])


def _eps(x: jax.Array) -> float:
    return float(jnp.finfo(x.dtype).eps)


def _symmetric(matrix: jax.Array) -> jax.Array:
    return 0.5 * (matrix + matrix.T)


def _decomposed(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Eigenvalues of a symmetric matrix, not below what rounding leaves, and eigenvectors."""
    values, vectors = eigh(_symmetric(matrix))
    return jnp.maximum(values, _eps(values) * values[-1]), vectors


#: the most directions in which the preconditioner differs from a diagonal
RANK = 8
#: the most coordinates of which a dense preconditioner is no dearer, and better
MOST_DENSE = 2 * RANK
# Variances that are not so many times more or less than the diagonal says may be chance.
_LEAST_STRETCH = 2.0
# Added to variances where the diagonal is 1, against rounding. Stiff directions have variances that
# are not far above it: what is added for want of steps, as to a dense one, would hide them.
_LEAST_VARIANCE = 1e-7
# Rounds in which diagonal and directions are found in turn.
_ROUNDS = 3
# Powers of the covariances by which the directions of most variance are found.
_POWERS = 8
# What a direction takes of a coordinate that lies in it altogether is 0 / 0: so much of the mean
# over coordinates is added.
_REST = 1e-6


def rank_of(size: int) -> int:
    """The most directions for so many coordinates: twice as many are tried, and most are not."""
    return max(1, min(RANK, size // 4))


class FoundLowRank(NamedTuple):
    """What the rows of a stage suggest."""

    factor: LowRank
    #: the variances of the gradient's noise in the coordinates of `factor`, (d,)
    noise: jax.Array
    #: how many times longer than now the slowest direction would take with the diagonal alone
    condition: jax.Array
    #: rows that say something
    rows: jax.Array


class Swept(NamedTuple):
    """Directions that all steps have improved, in the one or the other, (d, r); zeros for none."""

    #: slack ones, as displacements
    places: jax.Array
    #: stiff ones, as gradients
    gradients: jax.Array


def swept_of(factor: LowRank, sums: jax.Array) -> Swept:
    """The directions of a factor after a stage, from its sums by `with_sweep`, (d, r)."""
    slack, scales = factor.stretches > 1, factor.scales[:, None]
    return Swept(jnp.where(slack, sums * scales, 0.0), jnp.where(slack, 0.0, sums / scales))


class _Scaled(NamedTuple):
    """Deviations of positions, gradients and their noise by rows, in one scale; the mean slope."""

    places: jax.Array
    gradients: jax.Array
    noise: jax.Array
    slope: jax.Array

    def by(self, scales: jax.Array) -> _Scaled:
        """In coordinates that are so many times as wide."""
        return _Scaled(self.places / scales, *(x * scales for x in self[1:]))

    def through(self, factor: LowRank) -> _Scaled:
        """In the coordinates of a factor."""
        back = inverse_transposed(factor)
        return _Scaled(
            jax.vmap(lambda x: slope(back, x))(self.places),
            jax.vmap(lambda x: slope(factor, x))(self.gradients),
            jax.vmap(lambda x: slope(factor, x))(self.noise),
            slope(factor, self.slope),
        )


def low_rank(
    rows: Rows,
    variances: jax.Array,
    temperature: jax.Array,
    swept: Swept | None = None,
) -> FoundLowRank:
    r"""The preconditioner of low rank that rows of a stage suggest.

    .. math:: M = D^{1/2} \bigl(I + U (S - I)\, U^\top\bigr) D^{1/2}

    In the coordinates in which D is 1 the directions are sought among those in which positions or
    gradients vary most. There M is found as a dense one is, by `whitening`; the r directions in
    which it differs most from 1 are kept. D then is what the moves across these directions
    suggest, and both are found again.

    Directions come from every second row and their variances from the others: of many coordinates
    some combination always varies much in the rows by which it was chosen, by chance.

    Directions that were known before, and that all steps of the stage have improved, are more
    exact than those of rows. M is found in them first, and directions by rows for what M leaves.

    Args:
        rows: the rows.
        variances: a first D, (d,).
        temperature: tau.
        swept: directions that were known before. Defaults to None, for none.

    Source: Seyboldt, Carlson and Carpenter (2024), *Preconditioning Hamiltonian Monte Carlo by
    minimizing Fisher divergence*, section 3.3, for low rank without noise.
    """
    moves, filled = _deviations(rows)
    count = jnp.sum(filled)

    def found(scales: jax.Array) -> LowRank:
        scaled = moves.by(scales)
        if swept is None:
            return _by_rows(scaled, filled, temperature)
        known = _known(swept.places / scales[:, None] + swept.gradients * scales[:, None])
        first = _truncated(known, _within(scaled, known, filled, temperature).factor)
        return _product(first, _by_rows(scaled.through(first), filled, temperature))

    def refined(_: Any, scales: jax.Array) -> jax.Array:
        directions = found(scales).directions
        return scales * _scales_across(moves.by(scales), directions, count, temperature)

    # At first all that varies much is left out: the diagonal is that of the many others.
    scales = jnp.sqrt(variances)
    begun = moves.by(scales)
    basis = _basis(begun, filled)
    left = _within(begun, basis, filled, temperature)
    scales = scales * _scales_across(begun, basis, count, temperature)
    scales = lax.fori_loop(0, _ROUNDS, refined, scales)
    factor = found(scales)._replace(scales=scales)
    noise = jnp.mean(jax.vmap(lambda x: slope(factor, x))(moves.noise) ** 2, 0)
    noise = noise * len(filled) / jnp.maximum(count, 1)
    return FoundLowRank(factor, noise, left.condition, count)


def _deviations(rows: Rows) -> tuple[_Scaled, jax.Array]:
    filled = jnp.any(rows.gradients != 0, -1)
    count = jnp.maximum(jnp.sum(filled), 1)

    def centred(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        # In two steps: positions far from 0 would lose their last digits.
        first = x[jnp.argmax(filled)]
        x = jnp.where(filled[:, None], x - first, 0.0)
        mean = jnp.sum(x, 0) / count
        return jnp.where(filled[:, None], x - mean, 0.0), first + mean

    places, _ = centred(rows.places)
    gradients, mean = centred(rows.gradients)
    return _Scaled(places, gradients, rows.noise, mean), filled


def _basis(moves: _Scaled, filled: jax.Array) -> jax.Array:
    """The directions in which positions or gradients vary most, orthonormal, (d, 2 r)."""
    rank = rank_of(moves.places.shape[1])
    # The mean slope as a row of its own, as in the diagonal.
    sloping = jnp.sqrt(SLOPE_SHARE * jnp.sum(filled[::2])) * moves.slope
    gradients = jnp.concatenate([moves.gradients[::2], sloping[None]])
    both = [_widest(moves.places[::2], rank), _widest(gradients, rank)]
    return orthonormal(jnp.concatenate(both, 1))


def _known(columns: jax.Array) -> jax.Array:
    """Orthonormal directions for columns, (d, r); zeros for those of zeros."""
    largest = jnp.max(jnp.abs(columns), 0)
    usable = jnp.isfinite(largest) & (largest > 0)
    columns = jnp.where(usable, columns / jnp.where(usable, largest, 1.0), 0.0)
    return jnp.where(usable, orthonormal(columns), 0.0)


def _by_rows(moves: _Scaled, filled: jax.Array, temperature: jax.Array) -> LowRank:
    """The directions that rows suggest, where D is 1."""
    basis = _basis(moves, filled)
    return _truncated(basis, _within(moves, basis, filled, temperature).factor)


def _within(
    moves: _Scaled, basis: jax.Array, filled: jax.Array, temperature: jax.Array
) -> Whitening:
    """The dense preconditioner within a basis, from the other half of the rows."""
    count = jnp.maximum(jnp.sum(filled[1::2]), 1)
    # In columns of zeros, which there is nothing to say of, it is 1.
    added = jnp.diag(jnp.where(jnp.any(basis != 0, 0), _LEAST_VARIANCE, 1.0))

    def covariance(rows: jax.Array) -> jax.Array:
        within = rows[1::2] @ basis
        return within.T @ within / count

    mean = moves.slope @ basis
    return whitening(
        covariance(moves.places) + added,
        covariance(moves.gradients) + SLOPE_SHARE * jnp.outer(mean, mean) + added,
        covariance(moves.noise),
        temperature,
    )


def _product(first: LowRank, second: LowRank) -> LowRank:
    """The product of two factors, with as many directions as each."""
    basis = orthonormal(jnp.concatenate([first.directions, second.directions], 1))
    through = jax.vmap(lambda v: displacement(first, displacement(second, v)), 1, 1)
    return _truncated(basis, basis.T @ through(basis))


def _truncated(basis: jax.Array, factor: jax.Array) -> LowRank:
    """The directions in which M = T T' within a basis differs most from 1, of T, where D is 1."""
    turn, roots, _ = svd(factor)
    chosen = jnp.argsort(-jnp.abs(jnp.log(roots)))[: rank_of(len(basis))]
    values = roots[chosen] ** 2
    differs = jnp.abs(jnp.log(values)) > jnp.log(_LEAST_STRETCH)
    directions = jnp.where(differs, basis @ turn[:, chosen], 0.0)
    stretches = jnp.sqrt(jnp.where(differs, values, 1.0))
    return LowRank(jnp.ones(len(basis), basis.dtype), directions, stretches)


def _widest(rows: jax.Array, rank: int) -> jax.Array:
    """The directions in which rows vary most, orthonormal, (d, rank): by block power iterations.

    An eigendecomposition of the products of all rows would take a hundred times as long.
    """

    def turned(_: Any, basis: jax.Array) -> jax.Array:
        return orthonormal(rows.T @ (rows @ basis))

    first = rows[jnp.linspace(0, len(rows) - 1, rank).astype(int)]
    return lax.fori_loop(0, _POWERS, turned, orthonormal(first.T))


def _scales_across(
    moves: _Scaled, directions: jax.Array, count: jax.Array, temperature: jax.Array
) -> jax.Array:
    """The root of the diagonal that moves across directions suggest, where D is 1, (d,)."""
    # The rest of a coordinate that lies in the directions for the most part is small. Noise, which
    # counts as it is and not by a ratio, would be missed, and D be a thousand times too wide.
    share = 1 - jnp.minimum(jnp.sum(directions**2, -1), 1.0)

    def across(rows: jax.Array) -> jax.Array:
        rest = rows - (rows @ directions) @ directions.T
        squares = jnp.sum(rest**2, 0) / jnp.maximum(count, 1)
        return (squares + _REST * jnp.mean(squares) + TINY) / (share + _REST)

    noise = across(moves.noise)
    variance = across(moves.gradients) + SLOPE_SHARE * across(moves.slope[None]) * count
    signal = jnp.maximum(variance - noise, LEAST_SIGNAL * variance)
    inverse = jnp.sqrt(signal / across(moves.places)) + noise / positive_or_one(temperature)
    return 1 / jnp.sqrt(jnp.maximum(inverse, TINY))
