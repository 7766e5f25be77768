"""Kernels that jump: masses of modes from chains that all start in one, and when there are none."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import lax, random
from numpyro.infer import MCMC
from tiers import in_third_tier

import numpyro_contour
from numpyro_contour import SGLD, ContourSGLD, CyclicalSGLD, weighted_samples
from numpyro_contour.examples import phase_retrieval

SIZE, MASS, SDS = 3, 0.7, np.array([1.0, 0.7])


def two_normals(x):
    """Two normals in three dimensions, some 30 nats apart, the narrower one with more mass."""
    masses = np.array([1 - MASS, MASS])
    squares = jnp.stack([jnp.sum((x + 5) ** 2), jnp.sum((x - 5) ** 2)]) / SDS**2
    return -jax.nn.logsumexp(jnp.log(masses / SDS**SIZE) - 0.5 * squares)


def run(kernel, start, warmup=60, draws=150, **how):
    mcmc = MCMC(kernel, num_warmup=warmup, num_samples=draws, progress_bar=False, **how)
    mcmc.run(random.key(2), init_params=jnp.asarray(start))
    return mcmc


def shares(mcmc, inside):
    """The weighted share of draws inside, by chain."""
    x, log_weights = weighted_samples(mcmc)
    weights = np.exp(np.asarray(log_weights, float))
    return (weights * inside(np.asarray(x))).sum(1) / weights.sum(1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        in_third_tier("SGLD", {}),
        ("ContourSGLD", {}),
        in_third_tier("SGHMC", {"adjusted": True}),
        # Momentum with a friction of its own, and a ladder; `core` has the other momentum.
        in_third_tier("SGNHT", {}),
        in_third_tier("ReplicaExchangeSGLD", {}),
        in_third_tier("ContourSGLD", {"barrier": 40.0, "num_steps": 100}),
    ],
)
def test_masses_of_modes_that_no_chain_climbs_between(name, settings):
    # Some chains start in either mode; without jumps each stays, and the shares are 0 and 1.
    chains = 16
    start = 5.0 * np.where(np.arange(chains) % 4 == 0, 1, -1)[:, None] * np.ones(SIZE)
    kernel = getattr(numpyro_contour, name)(potential_fn=two_normals, **settings)
    warmup = 200 if "barrier" in settings else 60
    mcmc = run(kernel, start, warmup, num_chains=chains, chain_method="vectorized")
    found = shares(mcmc, lambda x: x.sum(-1) > 0)
    error = found.std(ddof=1) / chains**0.5
    # Beside chance there is what a step size leaves, a hundredth.
    assert abs(found.mean() - MASS) < 3.5 * error + 0.01, (found.mean(), error)
    assert error < 0.03
    warmup = mcmc.last_state.warmup
    assert warmup.modes.modes.known.sum() == 2
    assert warmup.jumps.tried.sum() == chains * 150 * kernel.parts.num_steps // 10


@pytest.mark.slow
def test_a_mode_that_only_another_descent_has_come_to_is_known():
    # All chains begin in one mode, stay there, and further descents begin between the two.
    chains = 5
    mcmc = run(
        SGLD(potential_fn=two_normals),
        np.full((chains, SIZE), -5.0),
        100,
        num_chains=chains,
        chain_method="vectorized",
    )
    found = shares(mcmc, lambda x: x.sum(-1) > 0)
    error = found.std(ddof=1) / chains**0.5
    # A mode that is not found has a share of 0.
    assert abs(found.mean() - MASS) < 4.6 * error + 0.01, (found.mean(), error)  # t with 4 degrees
    assert error < 0.05


@pytest.mark.slow
def test_one_chain_alone_finds_modes_and_jumps():
    # No two chains share a list here: the other mode is found from above its own barrier.
    comb = lambda x: 0.5 * (x / 4) ** 2 - 3 * jnp.cos(x)
    mcmc = run(ContourSGLD(potential_fn=comb), jnp.zeros(()), warmup=100)
    warmup = mcmc.last_state.warmup
    assert warmup.modes.modes.known.sum() >= 3
    assert warmup.jumps.made.sum() > 300
    x, log_weights = weighted_samples(mcmc)
    grid = np.linspace(-30, 30, 6001)
    density = np.exp(-np.asarray(comb(grid), float))
    exact = density[np.abs(grid) < np.pi].sum() / density.sum()
    inside = np.exp(np.asarray(log_weights, float)) * (np.abs(np.asarray(x)) < np.pi)
    # Draws of jumps are nearly independent: 150 of them.
    assert abs(inside.sum() / np.exp(log_weights).sum() - exact) < 4 * (exact / 150) ** 0.5


@pytest.mark.long
def test_rows_that_a_control_variate_stands_for():
    y = 0.2 + random.normal(random.key(0), (4000,))

    def model():
        a = numpyro.sample("a", dist.Normal(0.1, 1))
        with numpyro.plate("rows", len(y), subsample_size=100) as idx:
            numpyro.sample("y", dist.Normal(a**2, 1), obs=y[idx])

    mcmc = MCMC(
        *(ContourSGLD(model, num_steps=50),),
        **{"num_warmup": 60, "num_samples": 300, "progress_bar": False},
        **{"num_chains": 4, "chain_method": "vectorized"},
    )
    mcmc.run(random.key(0))
    jumps = mcmc.last_state.warmup.jumps
    # One try in a hundred steps.
    assert jumps.tried.sum() == 4 * 150
    assert jumps.made.sum() > 0.8 * jumps.tried.sum()
    samples, log_weights = weighted_samples(mcmc)
    weights = np.exp(np.asarray(log_weights, float))
    found = (weights * (np.asarray(samples["a"]) > 0)).sum() / weights.sum()
    grid = np.linspace(-1.5, 1.5, 3001)
    # The likelihood by its sufficient statistic.
    log_density = -0.5 * len(y) * (grid**2 - float(y.mean())) ** 2 - 0.5 * (grid - 0.1) ** 2
    density = np.exp(log_density - log_density.max())
    exact = density[grid > 0].sum() / density.sum()
    assert abs(found - exact) < 4 * (0.25 / 1200) ** 0.5


@pytest.mark.long
@pytest.mark.optimized
def test_tries_on_minibatches_know_the_noise_of_both_ends():
    # A bias of .03 was due to a noise that was taken to be the same everywhere.
    mcmc = MCMC(
        *(SGLD(phase_retrieval.model, num_steps=50, jumps=0.1),),
        **{"num_warmup": 150, "num_samples": 400, "progress_bar": False},
        **{"num_chains": 32, "chain_method": "vectorized"},
    )
    mcmc.run(random.key(0), *phase_retrieval.load())
    by_chain = phase_retrieval.has_sign_of_signal(mcmc.get_samples(True)["w"]).mean(1)
    error = by_chain.std(ddof=1) / 32**0.5
    assert error < 0.01
    assert abs(by_chain.mean() - phase_retrieval.exact_mass()) < 3 * error

    state = mcmc.last_state
    warmup = jax.tree.map(lambda x: x[0], state.warmup._replace(modes=()))
    like = jax.tree.map(lambda x: x[0], state.z)
    energies = mcmc.sampler.energies(like, phase_retrieval.load(), {})
    energy = energies.of_chains(warmup, tells_noise=True)
    x = state.sampler.chain.position[:8]
    keys = random.split(random.key(1), 300)
    energies, _, told = jax.vmap(lambda x: lax.map(lambda key: energy(warmup)(key, x), keys))(x)
    # An estimated variance has an error of some percent, of heavy tails a multiple of it.
    np.testing.assert_allclose(told.mean(1), energies.var(1), rtol=0.5, atol=1e-4)
    assert (told.mean(1) > 1e-4).any()


@pytest.mark.slow
def test_with_one_mode_jumps_change_nothing():
    potential = lambda x: 0.5 * jnp.sum(x**2)
    start = np.linspace(-1, 1, 8).reshape(4, 2)
    how = {"num_chains": 4, "chain_method": "vectorized", "warmup": 30, "draws": 20}
    with_jumps, without = (
        run(ContourSGLD(potential_fn=potential, num_steps=20, jumps=jumps), start, **how)
        for jumps in (None, False)
    )
    for mcmc in (with_jumps, without):  # where one mode is known the program has no jumps
        assert (mcmc.last_state.warmup.modes, mcmc.last_state.warmup.jumps) == ((), ())
    np.testing.assert_allclose(
        *(weighted_samples(mcmc)[0][:, :3] for mcmc in (with_jumps, without)), atol=1e-3
    )


@pytest.mark.parametrize("jumps", [-0.1, 0, 1.5, "often", float("nan")])
def test_jumps_takes_a_share_of_the_steps(jumps):
    with pytest.raises(ValueError, match=r"`jumps` takes None, True, False or the tries"):
        SGLD(potential_fn=two_normals, jumps=jumps)


def test_jumps_where_there_can_be_none_are_refused_if_asked_for():
    with pytest.raises(ValueError, match="`jumps` takes nothing but False for this kernel"):
        CyclicalSGLD(potential_fn=two_normals, jumps=True)
    with pytest.raises(ValueError, match="as a warm-up finds the modes"):
        SGLD(potential_fn=two_normals, step_size=0.1, jumps=True)
    assert SGLD(potential_fn=two_normals, step_size=0.1).settings["jumps"] == 0.1


def test_where_energies_are_noisy_tries_are_rarer_and_on_minibatches_alone_there_are_none():
    shares = {None: (0.1, 0.01), True: (0.1, 0.01), 0.2: (0.2, 0.2), False: (0.0, 0.0)}
    for jumps, tries in shares.items():
        parts = SGLD(potential_fn=two_normals, jumps=jumps).parts
        assert parts.jumps[:2] == tries
        for energy in ("full", "control_variate"):
            assert parts.can_jump(energy) is (jumps is not False)
        assert not parts.can_jump("minibatch")
