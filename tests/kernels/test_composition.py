"""Kernels are compositions: full signatures, two levels of classes, any method with any moves."""

import inspect
from itertools import product

import jax.numpy as jnp
import models
import pytest
from jax import random
from numpyro.infer.mcmc import MCMCKernel

import numpyro_contour
from numpyro_contour.kernels import (
    Kernel,
    langevin_moves,
    nose_hoover_moves,
    underdamped_moves,
)
from numpyro_contour.kernels.arguments import ContourArguments, OneTemperature, SharedArguments
from numpyro_contour.kernels.methods import Climbing, Contour, Cyclical, Plain, ReplicaExchange

NAMED = [getattr(numpyro_contour, name) for name in models.ROWS]


@pytest.mark.parametrize("kernel", NAMED)
def test_the_signature_shows_every_argument_with_its_default(kernel):
    shown = inspect.signature(kernel).parameters
    assert all(p.kind is not p.VAR_KEYWORD for p in shown.values())
    assert all(p.default is not p.empty for p in shown.values())
    expected = set(SharedArguments.__annotations__) | {"model", "potential_fn", "noise"}
    if not kernel.__name__.startswith("Replica"):
        expected |= set(OneTemperature.__annotations__)
    if "Contour" in kernel.__name__:
        expected |= set(ContourArguments.__annotations__)
    assert expected <= set(shown)
    of_part = inspect.signature(Kernel).parameters | inspect.signature(Contour).parameters
    told = {name: p.default for name, p in shown.items() if name in of_part}
    if kernel is numpyro_contour.ContourSGLD:  # whose `barrier` decides them
        assert told.pop("num_bins") is None
        assert told.pop("zeta") is None
    assert told == {name: of_part[name].default for name in told}
    # Each default may be given, and nothing else is taken.
    kernel(**{name: p.default for name, p in shown.items()} | {"potential_fn": jnp.sum})
    with pytest.raises(TypeError, match="unheard_of"):
        kernel(potential_fn=jnp.sum, unheard_of=1)


@pytest.mark.parametrize("kernel", NAMED)
def test_kernels_have_two_levels_of_classes(kernel):
    own = [c for c in kernel.__mro__ if c.__module__.startswith("numpyro_contour")]
    assert own == [kernel, Kernel]
    assert Kernel.__bases__ == (MCMCKernel,)


MOVES = {
    "langevin": langevin_moves(),
    "underdamped": underdamped_moves(0.8),
    "nose_hoover": nose_hoover_moves(),
}
METHODS = {
    "plain": Plain(),
    "contour": Contour(num_bins=20),
    "cyclical": Cyclical(cycle_length=20),
    "replica_exchange": ReplicaExchange((1.0, 2.0)),
}


@pytest.mark.parametrize(("moves", "method"), list(product(MOVES, METHODS)))
def test_any_method_goes_with_any_moves(moves, method):
    kernel = Kernel(potential_fn=lambda x: x @ x / 2, moves=MOVES[moves], method=METHODS[method])
    settings = {**MOVES[moves].settings, **METHODS[method].settings}
    assert settings.items() <= kernel.settings.items()
    state = kernel.init(random.key(0), 100, jnp.ones(2))
    names = kernel.stage_names()
    assert names[0] == "descent"
    # What adapts while it samples is left a part of the warm-up.
    adapts = moves == "nose_hoover" or method in ("contour", "replica_exchange")
    assert (names[-1] == "learn") == adapts
    assert state.z.shape == (2,)


@pytest.mark.slow
def test_a_method_decides_what_it_needs():
    ladder = ReplicaExchange((0.5, 2.0))
    assert Kernel(potential_fn=jnp.sum, method=ladder).settings["temperature"].value == 0.5
    with pytest.raises(ValueError, match="`temperature` takes nothing"):
        Kernel(potential_fn=jnp.sum, method=ladder, temperature=2.0)
    with pytest.raises(ValueError, match="`temperature` takes a number above 0"):
        Kernel(potential_fn=jnp.sum, method=Contour(), temperature=0.0)
    with pytest.raises(ValueError, match="`temperature` takes a number above 0"):
        Kernel(potential_fn=jnp.sum, moves=nose_hoover_moves(), temperature=0.0)
    with pytest.warns(UserWarning, match="`num_warmup` has 49 draws, .* warm-up of at least 50"):
        Kernel(potential_fn=jnp.sum, method=Climbing(30.0)).init(random.key(0), 49, jnp.ones(2))
