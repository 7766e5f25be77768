"""The preconditioner of low rank that the rows of a stage suggest."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numpyro_contour.warmup.stages.frames import ROWS, first_frame, no_rows, with_row, with_sweep
from numpyro_contour.warmup.stages.moments import no_moments, welford
from numpyro_contour.warmup.stages.tuning import initial_tuning
from numpyro_contour.warmup.stages.turning import turned
from numpyro_contour.warmup.stages.whitening import low_rank, rank_of, swept_of

SIZE = 60
TAU = jnp.ones(())


def scales_of(seed=0):
    """The scales of the coordinates of `precision_of`."""
    rng = np.random.default_rng(seed)
    rng.normal(size=(SIZE, SIZE))
    return np.exp(rng.normal(size=SIZE))


def precision_of(kind, seed=0, condition=1e4):
    """Three directions that differ from all others, in coordinates of many scales."""
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.normal(size=(SIZE, SIZE)))
    values = np.ones(SIZE)
    values[:3] = {"stiff": condition, "slack": 1 / condition, "round": 1.0}[kind]
    scales = scales_of(seed)
    return (turn * values) @ turn.T * np.outer(scales, scales)


def rows_of(precision, noise=0.0, mixed=True, seed=1):
    """Rows of draws, or of a chain that creeps; noise of so many times the precision."""
    rng = np.random.default_rng(seed)
    covariance = np.linalg.inv(precision)
    root = np.linalg.cholesky(covariance)
    if mixed:
        x = rng.normal(size=(ROWS, SIZE)) @ root.T
    else:
        metric = np.sqrt(np.diag(covariance) / np.diag(precision))
        metric *= 0.5 / np.linalg.eigvalsh(precision * np.sqrt(np.outer(metric, metric)))[-1]
        place, x = root @ rng.normal(size=SIZE), np.zeros((ROWS, SIZE))
        for number in range(8 * ROWS):
            kick = np.sqrt(2 * metric) * rng.normal(size=SIZE)
            place = place - metric * (precision @ place) + kick
            x[number // 8] = place
    scatter = np.linalg.cholesky(noise * precision + 1e-30 * np.eye(SIZE)) if noise else 0 * root
    one, other = (rng.normal(size=(ROWS, SIZE)) @ scatter.T for _ in range(2))
    gradients = x @ precision + one
    rows = no_rows(jnp.zeros(SIZE))
    return rows._replace(
        places=jnp.asarray(x, jnp.float32),
        gradients=jnp.asarray(gradients, jnp.float32),
        noise=jnp.asarray((one - other) / np.sqrt(2), jnp.float32),
    )


def diagonal_of(rows):
    x, g, v = (np.asarray(leaf, np.float64).var(0) for leaf in rows)
    return jnp.asarray(1 / (np.sqrt(np.maximum(g - v, 1e-3 * g) / x) + v), jnp.float32)


def matrix_of(factor):
    scales, directions, stretches = (np.asarray(leaf, np.float64) for leaf in factor)
    return scales[:, None] * (np.eye(SIZE) + (directions * (stretches - 1)) @ directions.T)


find = jax.jit(low_rank)


@pytest.mark.parametrize(
    ("kind", "noise", "mixed", "left"),
    [
        ("stiff", 0.0, True, 6),
        ("stiff", 0.0, False, 12),
        ("stiff", 3.0, True, 12),
        ("stiff", 3.0, False, 20),
        ("slack", 0.0, True, 8),
        ("slack", 3.0, True, 12),
    ],
)
def test_three_directions_of_condition_ten_thousand(kind, noise, mixed, left):
    precision = precision_of(kind)
    rows = rows_of(precision, noise, mixed)
    found = find(rows, diagonal_of(rows), TAU)
    matrix = matrix_of(found.factor)
    inverse = (1 + noise) * precision  # of the M that is sought
    values = np.linalg.eigvalsh(matrix.T @ inverse @ matrix)
    assert values[-1] / values[0] < left
    # Steps are as long as for M = 1, and no longer.
    assert 0.5 < np.median(values) < 2.0
    assert values[-1] < 4
    assert found.condition > 1000
    if noise:
        of_noise = np.diag(matrix.T @ (noise * precision) @ matrix)
        np.testing.assert_allclose(found.noise, of_noise, rtol=0.7)
        np.testing.assert_allclose(np.mean(found.noise), np.mean(of_noise), rtol=0.1)
    else:
        np.testing.assert_array_equal(found.noise, 0.0)


@pytest.mark.parametrize("noise", [0.0, 3.0])
def test_chance_makes_no_directions(noise):
    """Of 60 coordinates that are independent some combinations vary more in 256 rows."""
    precision = precision_of("round")
    precision = np.diag(np.diag(precision))
    rows = rows_of(precision, noise)
    found = find(rows, diagonal_of(rows), TAU)
    matrix = matrix_of(found.factor)
    values = np.linalg.eigvalsh(matrix.T @ ((1 + noise) * precision) @ matrix)
    assert values[-1] / values[0] < 2.5
    assert found.condition < 5


@pytest.mark.parametrize("noise", [1.0, 3.0])
def test_the_diagonal_of_a_coordinate_along_a_direction_is_that_of_the_others(noise):
    """What is left of it across directions is little, of its noise too, for want of the rest."""
    for seed in range(3):
        rows = rows_of(precision_of("stiff"), noise, seed=seed)
        found = find(rows, diagonal_of(rows), TAU)
        # 1 in the many other directions. Ratios to what is left: 14 to 2,000 in some coordinates.
        wide = np.asarray(found.factor.scales) * scales_of() * np.sqrt(1 + noise)
        assert wide.min() > 0.5
        assert wide.max() < 6


def sweep_of(factor, precision, noise, steps=2000, far=30.0):
    """The sums over a stage of draws, far from 0, in the coordinates of a factor."""
    rng = np.random.default_rng(7)
    root = np.linalg.cholesky(np.linalg.inv(precision))
    matrix, scatter = matrix_of(factor), np.linalg.cholesky(noise * precision)
    x = (far + rng.normal(size=(steps, SIZE))) @ root.T
    gradients = x @ precision + rng.normal(size=(steps, SIZE)) @ scatter.T
    places = np.linalg.solve(matrix, x.T).T

    def add(carry, step):
        swept, moments = carry
        place, gradient = step
        swept = with_sweep(swept, factor, 1 / (1 + noise), place, moments, gradient)
        count = moments.steps + 1
        position, _ = welford(count, moments.position, place, place)
        slope, _ = welford(count, moments.gradient, gradient, gradient)
        return (swept, moments._replace(steps=count, position=position, gradient=slope)), None

    start = (jnp.zeros_like(factor.directions), no_moments(SIZE))
    steps = jnp.asarray(places, jnp.float32), jnp.asarray(gradients @ matrix, jnp.float32)
    return jax.lax.scan(add, start, steps)[0][0]


@pytest.mark.parametrize("kind", ["stiff", "slack"])
def test_all_steps_improve_directions_that_are_known(kind):
    noise, precision = 1.0, precision_of(kind)
    rows = rows_of(precision, noise, seed=2)
    before = find(rows, diagonal_of(rows), TAU).factor
    swept = swept_of(before, sweep_of(before, precision, noise))
    after = find(rows_of(precision, noise, seed=3), before.scales**2, TAU, swept).factor
    # How far M is from that which is sought, of which the inverse is 1 in its coordinates.
    far = [
        np.abs(np.log(np.linalg.eigvalsh(m.T @ ((1 + noise) * precision) @ m))).max()
        for m in (matrix_of(before), matrix_of(after))
    ]
    assert far[1] < 0.6 * far[0]


def test_rows_are_spaced_over_the_stage_and_say_which_are_empty():
    rows, steps = no_rows(jnp.zeros(2)), 4 * ROWS
    numbers = jnp.arange(steps, dtype=jnp.float32)

    def put(rows, number):
        x = jnp.array([number, -number])
        return with_row(rows, number / steps, x, 1 + x, x, number >= 40), None

    rows, _ = jax.lax.scan(put, rows, numbers)
    expected = np.where(np.arange(ROWS) >= 10, 4.0 * np.arange(ROWS) + 3, 0.0)
    np.testing.assert_array_equal(rows.places[:, 0], expected)
    np.testing.assert_allclose(rows.noise[:, 1], -expected / np.sqrt(2), rtol=1e-6)
    assert not rows.gradients[:10].any()
    # Rows without a difference to another minibatch have no noise.
    exact = with_row(no_rows(jnp.zeros(2)), jnp.zeros(()), jnp.ones(2), jnp.ones(2), None, True)
    assert not exact.noise.any()


def test_empty_rows_do_not_count():
    rows = rows_of(precision_of("stiff"), noise=1.0)
    # Far away and very steep before: no part of the stage.
    half = jax.tree.map(lambda x: x.at[: ROWS // 2].set(0.0) + 0.0, rows)
    only = jax.tree.map(lambda x: x[ROWS // 2 :], rows)
    one, other = (find(x, diagonal_of(only), TAU) for x in (half, only))
    assert float(one.rows) == ROWS // 2
    # Chance directions may be others.
    np.testing.assert_allclose(one.noise.mean(), other.noise.mean(), rtol=0.05)
    for found in (one, other):
        matrix = matrix_of(found.factor)
        values = np.linalg.eigvalsh(matrix.T @ (2 * precision_of("stiff")) @ matrix)
        assert values[-1] / values[0] < 20


def test_a_stage_is_taken_where_it_says_enough():
    rows = rows_of(precision_of("stiff"))
    x = jnp.ones(SIZE)
    for kept, turns_from, renews in ((ROWS, 0.0, 1), (ROWS, 1e6, 0), (ROWS, 100.0, 1), (50, 0, 0)):
        frame = first_frame(x, turns_from, rank_of(SIZE))
        seen = jax.tree.map(lambda leaf, kept=kept: leaf.at[kept:].set(0.0), rows)
        tuning = initial_tuning(SIZE, diagonal_of(rows), 0.01, frame=frame._replace(seen=seen))
        after = jax.jit(turned)(tuning, x, TAU, jnp.array(True))
        assert int(after.frame.turned) == renews
        expected = jnp.ones(SIZE) if renews else tuning.preconditioner
        np.testing.assert_array_equal(after.preconditioner, expected)
        assert not jax.tree.reduce(lambda a, b: a + float(jnp.abs(b).sum()), after.frame.seen, 0.0)
