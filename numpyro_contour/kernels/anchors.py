"""The anchor of a control variate: placed in the warm-up, moved where there is less noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, random

from numpyro_contour.adaptation.plan import Plan
from numpyro_contour.adaptation.warmup import progress
from numpyro_contour.core.arrays.vectors import ravel
from numpyro_contour.kernels.energy_source import EnergySource, anchor_of
from numpyro_contour.kernels.methods.method import Method
from numpyro_contour.models.estimators.control_variate import (
    Anchor,
    anchor_at,
    least_noisy,
    no_anchor,
)
from numpyro_contour.models.model_potential import ModelPotential


def first_anchor(chosen: str | Callable, like: Any) -> Anchor | tuple[()]:
    """The anchor before there is one; () where none will be."""
    return no_anchor(ravel(like).shape[0]) if chosen == "control_variate" else ()


def place_anchor(
    plan: Plan,
    source: EnergySource,
    method: Method,
    potential: ModelPotential | None,
    lift: Callable,
    before: Any,
    after: Any,
) -> Any:
    """The state of all chains after a measured draw, with anchors where a stage has found them.

    Args:
        plan: the plan of the warm-up.
        source: where energies come from.
        method: the kernel's method.
        potential: the model's potential energy.
        lift: makes a function of one chain one of all, one chain after the other.
        before: the state before the draw.
        after: the state after it.
    """
    if not anchor_of(after.warmup):
        return after
    assert potential is not None
    here = lift(lambda warmup: progress(plan, warmup))(before.warmup)
    places = jnp.asarray((*plan.places_anchor, False))[here.number]

    def anchored(x: tuple) -> Any:
        return _anchored(source, method, potential, *x)

    return lax.cond(
        jnp.any(here.ends & places),
        lift(anchored),
        lambda x: x[0],
        (after, before.warmup.tuning.moments.position, plan.flag("descends", here.number)),
    )


def _anchored(
    source: EnergySource,
    method: Method,
    potential: ModelPotential,
    state: Any,
    mean: jax.Array,
    descended: jax.Array,
) -> Any:
    """The state with its anchor where a descent ended, or where there is less noise.

    After a descent that is the chain's position. After a stage of tuning it is the better one of
    the anchor it has and the stage's mean.

    The descent ends as far from the bulk of a posterior of very many rows as its minibatches
    scatter. Unless the control variate was asked for by name it is given up where a minibatch alone
    has less noise.
    """
    rng_key, key = random.split(state.rng_key)
    old, position = state.warmup.anchor, state.sampler.chain.position
    full_data = source.full_data(potential, state.z)
    new = anchor_at(full_data, jnp.where(descended, position, mean))
    best = least_noisy(
        key,
        potential,
        state.z,
        position,
        jax.tree.map(lambda *both: jnp.stack(both), old, new),
        state.warmup.tuning.preconditioner,
        or_none=source.energy is None,
    )
    return _relative_to(method, state._replace(rng_key=rng_key), best)


def _relative_to(method: Method, state: Any, anchor: Anchor) -> Any:
    """The state with another anchor, and its energies as differences to that."""
    old = state.warmup.anchor.energy
    rise = (old.high - anchor.energy.high) + (old.low - anchor.energy.low)
    history = state.warmup.history
    history = history._replace(energy=history.energy + rise)
    chain = state.sampler.chain
    chain = chain._replace(potential_energy=chain.potential_energy + rise)
    sampler = method.raise_energies(state.sampler._replace(chain=chain), rise)
    warmup = state.warmup._replace(anchor=anchor, history=history)
    return state._replace(sampler=sampler, warmup=warmup)


def anchored_on_new_data(source: EnergySource, potential: ModelPotential | None, state: Any) -> Any:
    """The state with energy and gradient of its anchor on other data."""
    anchor = anchor_of(state.warmup)
    if not anchor:
        return state
    assert potential is not None
    new = anchor_at(source.full_data(potential, state.z), anchor.position)
    new = new._replace(weight=anchor.weight)
    return state._replace(warmup=state.warmup._replace(anchor=new))
