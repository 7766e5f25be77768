"""As many steps a draw as make draws nearly independent, found where nothing is given."""

import jax
import jax.numpy as jnp
import models
import numpy as np
import pytest
from jax import random
from scipy.signal import lfilter
from tiers import in_second_tier

from numpyro_contour import SGLD, ContourSGLD, diagnose, to_inference_data, weighted_samples
from numpyro_contour.kernels.parts.draws import ChainDraws
from numpyro_contour.warmup.host import say_how_long
from numpyro_contour.warmup.stages.draw_length import (
    DRAWS,
    DrawLength,
    Limits,
    by_correlation,
    by_relaxation,
    no_draws,
    with_draw,
)
from numpyro_contour.warmup.stages.relaxation_times import slowest
from numpyro_contour.warmup.stages.tuning import initial_tuning

LIMITS = Limits(5, 5, 200)


def paths(times, steps, chains=4, seed=0):
    """Stationary chains of normals, (chains, steps, d), that forget their places in these times."""
    rng = np.random.default_rng(seed)
    keeps = np.exp(-1 / np.asarray(times))
    noise = rng.normal(size=(chains, steps, len(times))) * np.sqrt(1 - keeps**2)
    noise[:, 0] /= np.sqrt(1 - keeps**2)
    return np.stack([lfilter([1], [1, -k], noise[..., i]) for i, k in enumerate(keeps)], -1)


def recorded(draws):
    """What four chains know of draws, (chains, number, d)."""

    def of_chain(draws):
        number = jnp.arange(draws.shape[0])
        room = no_draws(draws.shape[1])
        add = lambda room, x: (with_draw(room, x[0], x[1], 0.0), None)
        return jax.lax.scan(add, room, (number, draws))[0]

    return jax.vmap(of_chain)(jnp.asarray(draws, jnp.float32))


@pytest.mark.parametrize("draw", ["reservoir", "last"])
@pytest.mark.parametrize("time", [6.0, 20.0, 70.0])
def test_the_slowest_coordinate_decides(time, draw):
    steps = 20
    chain = paths([2.0, time, 3.0], DRAWS * steps).reshape(4, DRAWS, steps, 3)
    if draw == "last":
        draws = chain[:, :, -1]
    else:
        which = np.random.default_rng(1).integers(steps, size=(4, DRAWS))
        draws = np.take_along_axis(chain, which[..., None, None], 2)[:, :, 0]
    found = DrawLength(jnp.full((4,), steps), recorded(draws))
    number = by_correlation(found, jnp.asarray(DRAWS), Limits(1, 1, 200), draw)
    # The correlation of 800 draws has a standard error of .04 at most; clipping lowers it a little.
    assert time * 0.6 < int(number[0]) < time * 1.5
    assert (number == number[0]).all()


def test_excursions_into_a_long_tail_do_not_decide():
    """The bulk forgets its place in three steps, and has a seventeenth of the variance."""
    bulk, slow = np.moveaxis(
        paths([3.0, 300.0], DRAWS * 20).reshape(4, DRAWS, 20, 2)[:, :, -1], -1, 0
    )
    tailed = bulk + 40 * np.maximum(slow - 1.5, 0)
    found = DrawLength(jnp.full((4,), 20), recorded(tailed[..., None]))
    assert 5 <= int(by_correlation(found, jnp.asarray(DRAWS), LIMITS, "last")[0]) <= 40


def test_few_draws_are_not_believed_and_a_constant_coordinate_says_nothing():
    found = DrawLength(jnp.full((4,), 35), recorded(np.zeros((4, DRAWS, 2))))
    assert (by_correlation(found, jnp.asarray(DRAWS), LIMITS, "last") == 5).all()
    assert (by_correlation(found, jnp.asarray(20), LIMITS, "last") == 35).all()


def test_relaxation_times_are_rounded_up_to_the_unit_and_bounded():
    times = jnp.array([0.3, 11.0, 1e9, jnp.inf, jnp.nan])
    assert by_relaxation(times, LIMITS).tolist() == [5, 15, 200, 200, 200]
    assert by_relaxation(times, Limits(20, 50, 200)).tolist() == [60, 60, 200, 200, 200]


def test_the_relaxation_time_is_that_of_the_slowest_coordinate():
    tuning = initial_tuning(2, jnp.array([1.0, 2.0]), 0.1)
    squares = 50 * jnp.array([1.0, 9.0])
    moments = tuning.moments._replace(steps=jnp.array(50.0), position_squares=squares)
    of = lambda *fastest: slowest(
        tuning._replace(moments=moments), jnp.array(1.0), jnp.array(0.1), *fastest
    )
    np.testing.assert_allclose(of(), 9 / (0.1 * 2), rtol=1e-5)
    np.testing.assert_allclose(of(0.01), 100, rtol=1e-5)


def normal(x, variances=(1.0, 9.0)):
    return 0.5 * jnp.sum(x**2 / jnp.asarray(variances))


def run(kernel, warmup=400, draws=1000, chains=4, **kwargs):
    return models.run(
        kernel,
        0,
        warmup=warmup,
        samples=draws,
        chains=chains,
        init_params=jnp.ones((chains, 2) if chains > 1 else (2,)),
        **({"chain_method": "vectorized"} | kwargs),
    )


def number_of(mcmc):
    """The steps of the last draws, by the counts of steps."""
    steps = mcmc.get_extra_fields(group_by_chain=True)["steps"]
    assert (np.diff(steps) == np.diff(steps)[:, :1]).all()
    return np.diff(steps)[:, 0]


@pytest.mark.parametrize("kernel", [SGLD, in_second_tier(ContourSGLD)])
def test_a_normal_takes_few_steps_and_is_right(kernel):
    mcmc = run(kernel(potential_fn=normal))
    number = number_of(mcmc)
    assert (number == number[0]).all()
    assert number[0] <= 30
    assert (mcmc.last_state.warmup.draw_length.number == number).all()
    x, log_weights = weighted_samples(mcmc)
    x, w = np.asarray(x, np.float64), np.exp(log_weights)[..., None]
    w /= w.mean()
    # Of 4,000 draws at least 1,000 count; moments of squares have twice the variance.
    assert (np.abs((w * x).mean((0, 1))) < 4 * np.sqrt([1, 9]) / 1000**0.5).all()
    assert (np.abs((w * x**2).mean((0, 1)) / [1, 9] - 1) < 4 * (2 / 1000) ** 0.5).all()
    idata = to_inference_data(mcmc)
    assert idata["posterior"].attrs["num_steps"] == number[0]
    assert (idata["warmup"]["num_steps"] == number).all()
    # Warm-up and draws took what is enough, not 400 draws of the most steps.
    most = 400 * kernel(potential_fn=normal).parts.num_steps
    assert (mcmc.last_state.steps < 0.5 * most + 1400 * number).all()


def test_chains_one_after_the_other_each_have_their_own_number():
    mcmc = run(SGLD(potential_fn=normal), chain_method="sequential", chains=2, draws=50)
    assert (number_of(mcmc) == mcmc.last_state.warmup.draw_length.number).all()
    settings = to_inference_data(mcmc)["posterior"].attrs
    assert settings["num_steps"] == number_of(mcmc).max()


def test_a_slow_posterior_takes_the_most_steps():
    """Correlated by .9999, with a diagonal: 100 steps are no relaxation time."""
    valley = lambda x: 0.5 * ((x[0] - x[1]) ** 2 / 2e-4 + (x[0] + x[1]) ** 2 / 4)
    mcmc = run(SGLD(potential_fn=valley, preconditioner="diag"), warmup=100, draws=20)
    assert (number_of(mcmc) == 100).all()


def test_a_number_that_is_given_is_kept_and_so_it_is_where_steps_cannot_be_known():
    kernels = [
        SGLD(potential_fn=normal, num_steps=7),
        SGLD(potential_fn=normal, step_size=0.1),
        SGLD(potential_fn=normal, temperature=lambda count: 1.0 + 0.0 * count),
        ContourSGLD(potential_fn=normal, jumps=False),
        ContourSGLD(potential_fn=normal, barrier=5.0, jumps=False),
    ]
    key, start = random.key(0), jnp.ones(2)
    for kernel, steps in zip(kernels, [7, 1, 100, 200, 200]):
        state = kernel.first_state(key, 100, start)
        assert not (state.warmup and state.warmup.draw_length)
        assert kernel.parts.num_steps == steps
    assert SGLD(potential_fn=normal).settings["num_steps"] == "tuned"


def test_where_the_warmup_is_traced_its_relaxation_times_decide():
    kernel = SGLD(potential_fn=normal, jumps=False)
    keys = random.split(random.key(0), 2)
    state = kernel.first_state(keys, 60, jnp.ones((2, 2)))
    draw = lambda _, state: kernel.sample(state, (), {})
    state = jax.jit(lambda state: jax.lax.fori_loop(0, 60, draw, state))(state)
    number = state.warmup.draw_length.number
    assert (number <= 40).all()
    after = jax.jit(lambda state: kernel.sample(state, (), {}))(state)
    assert (after.sampler.chain.steps - state.sampler.chain.steps == number.max()).all()


def test_a_weight_over_all_rows_costs_no_more_than_its_draw():
    y = models.normal_data()
    model = lambda y: models.normal(y)
    for kernel, passes in ((ContourSGLD(model), True), (SGLD(model), False)):
        potential = kernel.model_potential((y,), {})
        ((rows, taken),) = potential.plates.sizes.values()
        limits = ChainDraws(kernel.parts, potential).limits
        assert limits.least == (-(-rows // taken) if passes else limits.unit)
    assert rows > 2 * taken


def test_a_run_that_will_be_long_says_so(recwarn, capsys):
    for kernel, seconds in (
        (SGLD(potential_fn=normal), 0.03),
        (SGLD(potential_fn=normal, num_steps=200), 2e-3),
    ):
        state = kernel.first_state(random.split(random.key(0), 4), 1000, jnp.ones((4, 2)))
        say_how_long(kernel.parts, state, 1000, seconds / 100, True)
        say_how_long(kernel.parts, state, 1000, seconds / 6, False)
        assert not capsys.readouterr().err
        say_how_long(kernel.parts, state, 1000, seconds / 6, True)
        said = capsys.readouterr().err
        assert said.startswith(f"A gradient takes {1000 / 6 * seconds:.3g} ms")
        assert said.count("\n") == 1
        assert not recwarn
        with pytest.warns(UserWarning, match=f"A gradient takes {1000 * seconds:.3g} ms.*minutes"):
            say_how_long(kernel.parts, state, 1000, seconds, False)


def test_diagnose_says_where_the_number_was_cut_off():
    """At 100 steps a draw 20 draws of such a valley are not 50 independent ones."""
    valley = lambda x: 0.5 * ((x[0] - x[1]) ** 2 / 2e-4 + (x[0] + x[1]) ** 2 / 4)
    kernel = SGLD(potential_fn=valley, preconditioner="diag")
    idata = to_inference_data(run(kernel, warmup=100, draws=20))
    said = lambda: " ".join(str(diagnose(idata)).split())
    words = "A draw takes 100 steps, the most that the warm-up gives it."
    assert words in said()
    idata["warmup"]["num_steps"].values = np.full(4, 95)
    assert words not in said()


def test_draws_of_numpyros_warmup_correct_what_relaxation_times_say():
    """The variance of a double well does not show how long a crossing takes."""
    well = lambda x: 2 * (x[0] ** 2 / 4 - 1) ** 2 + x[1] ** 2 / 2
    kernel = SGLD(potential_fn=well, jumps=False)
    begun = kernel.init(random.split(random.key(0), 4), 400, jnp.ones((4, 2)))
    assert begun.warmup.draw_length.number.max() <= 30
    number = number_of(run(kernel, draws=20))
    assert (number == number[0]).all()
    # 65 by a correlation of .69, whose standard error of .04 is an eighth of the number.
    assert 45 <= number[0] <= 100
