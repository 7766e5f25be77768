from importlib import resources

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numpyro_contour.examples import concrete, nine_modes
from numpyro_contour.examples.datasets import TARGETS, Dataset, load, split_and_standardise

SHAPES = {"concrete": (1030, 8), "energy": (768, 8), "yacht": (308, 6), "wine_red": (1599, 11)}
# First and last input and target of the first row, read off the published files.
FIRST_ROWS = {
    "concrete": ((540.0, 28.0), 79.98611076),
    "energy": ((0.98, 0.0), 15.55),
    "yacht": ((-2.3, 0.125), 0.11),
    "wine_red": ((7.4, 9.4), 5.0),
}


# ---------------------------------------------------------------------------------- the data


@pytest.mark.parametrize("name", SHAPES)
def test_data_are_those_of_the_file(name):
    data = load(name)
    assert data.X.shape == SHAPES[name]
    assert data.y.shape == SHAPES[name][:1]
    assert data.target == TARGETS[name][0]
    assert not set(data.feature_names) & set(TARGETS[name])
    inputs, target = FIRST_ROWS[name]
    assert (data.X[0, 0], data.X[0, -1]) == inputs
    assert data.y[0] == target
    path = resources.files("numpyro_contour.examples") / "data" / f"{name}.csv"
    header, *rows = path.read_text(encoding="utf-8").split()
    columns = dict(zip(header.split(","), zip(*(map(float, row.split(",")) for row in rows))))
    means = [np.mean(columns[label]) for label in data.feature_names]
    np.testing.assert_allclose(data.X.mean(axis=0), means)
    np.testing.assert_allclose(data.y.mean(), np.mean(columns[data.target]))


def test_data_have_the_published_means():
    # Table of the set's own documentation: strength 35.82 MPa; cement 281.17 kg a cubic metre.
    data = load("concrete")
    assert data.y.mean() == pytest.approx(35.82, abs=0.005)
    assert data.X[:, 0].mean() == pytest.approx(281.17, abs=0.005)
    assert load("wine_red").y.mean() == pytest.approx(5.636, abs=0.0005)


def test_second_target_of_energy():
    data = load("energy", target="cooling_load")
    assert (data.target, data.y[0], data.X.shape) == ("cooling_load", 21.33, (768, 8))


def test_every_data_file_is_attributed():
    folder = resources.files("numpyro_contour.examples") / "data"
    readme = (folder / "README.md").read_text(encoding="utf-8")
    for name in TARGETS:
        assert f"`{name}.csv`" in readme
    assert "CC BY 4.0" in readme


def test_unknown_data_are_refused():
    with pytest.raises(ValueError, match=r"`name` takes one of 'concrete', .* but got 'boston'"):
        load("boston")
    with pytest.raises(ValueError, match="`target` takes one of 'strength', but got 'age'"):
        load("concrete", target="age")


def test_split_is_a_partition_of_the_rows():
    data = load("concrete")
    split = split_and_standardise(data, seed=3)
    assert (len(split.y_train), len(split.y_test)) == (927, 103)
    back = np.concatenate([split.y_train, split.y_test]) * split.y_sd + split.y_mean
    np.testing.assert_allclose(np.sort(back), np.sort(data.y))
    other = split_and_standardise(data, seed=4)
    assert not np.array_equal(other.y_test, split.y_test)
    np.testing.assert_array_equal(split_and_standardise(data, seed=3).X_test, split.X_test)


def test_standardisation_knows_the_training_rows_only():
    x = np.arange(20.0)
    data = Dataset(np.column_stack([x, np.ones(20)]), 3 * x + 1, ("x", "one"), "y")
    split = split_and_standardise(data, seed=0, held_out=0.25)
    np.testing.assert_allclose(split.X_train.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(split.X_train[:, 0].std(), 1.0)
    np.testing.assert_array_equal(split.X_train[:, 1], 0.0)
    # Moving the held-out rows far away must leave all training numbers as they were.
    test_rows = np.isin(data.y, np.round(split.y_test * split.y_sd + split.y_mean, 6))
    assert test_rows.sum() == 5
    moved = data._replace(
        X=data.X + 1e3 * test_rows[:, None], y=data.y + 1e3 * test_rows.astype(float)
    )
    shifted = split_and_standardise(moved, seed=0, held_out=0.25)
    np.testing.assert_array_equal(shifted.X_train, split.X_train)
    assert (shifted.y_mean, shifted.y_sd) == (split.y_mean, split.y_sd)
    np.testing.assert_allclose(shifted.y_test - split.y_test, 1e3 / split.y_sd)


@pytest.mark.parametrize("held_out", [0.0, 1.0, -0.1, float("nan"), "a tenth"])
def test_split_refuses_shares_that_leave_nothing(held_out):
    with pytest.raises(ValueError, match="`held_out` takes"):
        split_and_standardise(load("yacht"), seed=0, held_out=held_out)


# ---------------------------------------------------------------------------- the nine modes


def test_exact_masses_are_the_known_ones():
    corner, side, middle = 0.0494, 0.1239, 0.3068
    expected = [[corner, side, corner], [side, middle, side], [corner, side, corner]]
    masses = nine_modes.exact_masses()
    np.testing.assert_allclose(masses, expected, atol=5e-5)
    assert masses.sum() == pytest.approx(1.0)


def test_exact_masses_cannot_be_spoilt_by_a_caller():
    nine_modes.exact_masses()[:] = 0
    assert nine_modes.exact_masses().sum() == pytest.approx(1.0)


@pytest.mark.parametrize("x", [(0.0, 0.0), (0.5, -1.3), (2.5, 2.0)])
def test_potential_is_the_papers_formula(x):
    x = np.array(x)
    value = np.sum((x**2 - 10 * np.cos(1.2 * np.pi * x)) / 3)
    if np.sum(x**2) > 7:
        value += np.sum(x**2) - 7
    assert float(nine_modes.potential(jnp.asarray(x))) == pytest.approx(value, rel=1e-5)


def test_noise_has_the_stated_mean_and_variance():
    n, variance, x = 20_000, 0.1, jnp.array([0.4, -1.2])
    energy = nine_modes.noisy_energy(variance)
    value, gradient = jax.vmap(energy, (0, None))(jax.random.split(jax.random.key(0), n), x)
    exact_value, exact_gradient = jax.value_and_grad(nine_modes.potential)(x)
    errors = np.column_stack([value - exact_value, gradient - exact_gradient]).astype(np.float64)
    z_mean = errors.mean(axis=0) / np.sqrt(variance / n)
    # The variance of a Gaussian sample has a standard error of variance * sqrt(2 / n).
    z_variance = (errors.var(axis=0, ddof=1) / variance - 1) / np.sqrt(2 / n)
    z_correlation = (np.corrcoef(errors.T) - np.eye(3)) * np.sqrt(n)
    for z in (z_mean, z_variance, z_correlation):
        assert np.abs(z).max() < 4


def test_noise_of_variance_zero_is_exact():
    x = jnp.array([0.4, -1.2])
    value, gradient = nine_modes.noisy_energy(0.0)(jax.random.key(0), x)
    assert value == nine_modes.potential(x)
    np.testing.assert_array_equal(gradient, jax.grad(nine_modes.potential)(x))
    with pytest.raises(ValueError, match="`variance` takes a number of at least 0, but got -1"):
        nine_modes.noisy_energy(-1)


def test_mode_masses_go_to_the_nearest_mode():
    samples = np.array([[[-1.6, 1.7], [0.7, 0.9]], [[3.0, -0.1], [0.1, 0.1]]])
    masses = nine_modes.mode_masses(samples, [[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_allclose(masses, [[0, 0, 0.1], [0, 0.4, 0.2], [0, 0.3, 0]])
    np.testing.assert_allclose(nine_modes.mode_masses(samples)[0, 2], 0.25)
    with pytest.raises(ValueError, match="`samples` takes"):
        nine_modes.mode_masses(np.zeros((5, 3)))
    with pytest.raises(ValueError, match="`weights` takes"):
        nine_modes.mode_masses(np.zeros((5, 2)), np.ones(4))


# ------------------------------------------------------------------------------ the concrete


def test_predictions_weigh_the_draws_and_hold_the_noise():
    split = split_and_standardise(load("concrete"), seed=0)
    rows, draws = len(split.y_test), 2000
    f = np.broadcast_to(np.array([1.0, -1.0])[:, None, None], (2, draws, rows))
    y = f + 0.5 * np.random.default_rng(0).normal(size=f.shape)
    log_weights = np.random.default_rng(1).normal(scale=0.1, size=(2, draws))
    got = concrete.predict({"f": f, "y": y}, log_weights, split)
    # Both chains count alike, whatever their weights.
    np.testing.assert_allclose(got.mean, split.y_mean, atol=1e-6 * split.y_sd)
    one = concrete.predict({"f": f[:1], "y": y[:1]}, log_weights[:1], split)
    np.testing.assert_allclose(one.mean, split.y_mean + split.y_sd)
    # The 95 % quantile of N(1, 0.5^2); 2000 draws give it to about 0.025.
    for end, sign in ((one.upper, 1), (one.lower, -1)):
        standardised = (end - split.y_mean) / split.y_sd
        assert standardised.mean() == pytest.approx(1 + sign * 1.645 * 0.5, abs=0.015)


def test_scores():
    predictions = concrete.Predictions(*(np.array(v) for v in ([1.0, 2], [0.0, 1.0], [2.0, 3.0])))
    observed = np.array([2.0, 5.0])
    assert concrete.rmse(predictions.mean, observed) == pytest.approx(np.sqrt(5.0))
    assert concrete.coverage(predictions, observed) == 0.5


def test_linear_regression_finds_a_line():
    x = np.arange(30.0)
    split = split_and_standardise(Dataset(x[:, None], 2 * x - 5, ("x",), "y"), seed=0)
    observed = split.y_mean + split.y_sd * split.y_test
    np.testing.assert_allclose(concrete.linear_regression(split), observed)
