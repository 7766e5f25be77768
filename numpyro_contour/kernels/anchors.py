"""The anchors of a control variate: placed in the warm-up, where the noise asks for them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, random

from numpyro_contour.adaptation.plan import Plan
from numpyro_contour.adaptation.warmup import progress
from numpyro_contour.core.arrays.vectors import ravel
from numpyro_contour.kernels.energy_source import EnergySource, anchors_of
from numpyro_contour.kernels.methods.method import Method
from numpyro_contour.models.all_rows import FullData
from numpyro_contour.models.estimators.anchors import (
    Anchor,
    Anchors,
    anchor_at,
    nearest,
    no_anchors,
    slot_to_fill,
    with_anchor,
    with_hessian,
)
from numpyro_contour.models.estimators.control_variate import least_noisy, variance_on_rows
from numpyro_contour.models.model_potential import ModelPotential

# Standard deviation of the noise of energies from which an anchor is placed, in those of the
# energy itself over a Gaussian posterior, and at least in nats.
_NOISE_SHARE = 1.0
_LEAST_NOISE = 1.0
# The second order begins where it leaves at most this share of the noise's variance.
_WORTH_A_HESSIAN = 0.1
# Minibatches from which that is judged.
_COMPARED = 8
# By how much a draw counts less than the next one in the uses of the slots.
_FORGETTING = 0.99


def first_anchors(chosen: str | Callable, like: Any) -> Anchors | tuple[()]:
    """The anchors before there are any; () where none will be."""
    return no_anchors(ravel(like).shape[0]) if chosen == "control_variate" else ()


# ---------------------------------------------------------------------- where a stage has settled


def place_anchor(
    plan: Plan,
    source: EnergySource,
    method: Method,
    potential: ModelPotential | None,
    lift: Callable,
    before: Any,
    after: Any,
) -> Any:
    """The state of all chains after a measured draw, with the first anchor where a stage ends.

    Args:
        plan: the plan of the warm-up.
        source: where energies come from.
        method: the kernel's method.
        potential: the model's potential energy.
        lift: makes a function of one chain one of all, one chain after the other.
        before: the state before the draw.
        after: the state after it.
    """
    if not anchors_of(after.warmup):
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
    """The state with its first anchor where a descent ended, or where there is less noise.

    After a descent that is the chain's position. After a stage of tuning it is the better one of
    the anchor it has and the stage's mean.

    The descent ends as far from the bulk of a posterior of very many rows as its minibatches
    scatter. Unless the control variate was asked for by name it is given up where a minibatch alone
    has less noise.
    """
    rng_key, key = random.split(state.rng_key)
    anchors, position = state.warmup.anchors, state.sampler.chain.position
    full_data = source.full_data(potential, state.z)
    old = jax.tree.map(lambda x: x[0], anchors.slots)
    new = anchor_at(full_data, jnp.where(descended, position, mean))
    preconditioner = state.warmup.tuning.preconditioner
    best = least_noisy(
        key,
        potential,
        state.z,
        position,
        jax.tree.map(lambda *both: jnp.stack(both), old, new),
        preconditioner,
        or_none=source.energy is None,
    )
    if best.hessian.shape[-1]:
        bent = partial(with_hessian, full_data)
        best = lax.cond(anchors.order > 1, bent, lambda x: x, best)
    anchors = with_anchor(anchors, jnp.zeros((), jnp.int32), best)
    anchors = anchors._replace(metric=1 / preconditioner)
    return _relative_to(method, state._replace(rng_key=rng_key), anchors)


def _relative_to(method: Method, state: Any, anchors: Anchors) -> Any:
    """The state with other anchors, and its energies as differences to the first of them."""
    old, new = state.warmup.anchors.reference, anchors.reference
    rise = (old.high - new.high) + (old.low - new.low)
    history = state.warmup.history
    history = history._replace(energy=history.energy + rise)
    chain = state.sampler.chain
    chain = chain._replace(potential_energy=chain.potential_energy + rise)
    sampler = method.raise_energies(state.sampler._replace(chain=chain), rise)
    warmup = state.warmup._replace(anchors=anchors, history=history)
    return state._replace(sampler=sampler, warmup=warmup)


# ---------------------------------------------------------------------- where the chain goes


def follow(
    plan: Plan,
    source: EnergySource,
    method: Method,
    potential: ModelPotential | None,
    state: Any,
) -> Any:
    """The states of all chains after a draw, with a further anchor where it is needed most.

    That is where the noise of a chain's energy is largest, if it is more than the flattening can
    bear. All chains get it, so that a mode that one has reached serves all. The passes over all
    rows never look at more rows than the minibatches have.

    Args:
        plan: the plan of the warm-up.
        source: where energies come from.
        method: the kernel's method.
        potential: the model's potential energy.
        state: the states of all chains after a draw of the warm-up, with a leading axis.
    """
    anchors = state.warmup.anchors
    if not anchors:
        return state
    assert potential is not None
    like = jax.tree.map(lambda x: x[0], state.z)
    full_data = source.full_data(potential, like)
    visited = jax.vmap(method.visited)(state.sampler)
    positions = visited.position.reshape(-1, visited.position.shape[-1])
    variances = jnp.nan_to_num(visited.energy_noise.reshape(-1), posinf=0.0)
    worst = jnp.argmax(variances)
    bearable = max(_LEAST_NOISE**2, _NOISE_SHARE**2 * positions.shape[-1] / 2)
    rows, minibatch = (_rows(full_data, which) for which in (0, 1))
    passes = 1.0 * jnp.sum(anchors.passes) + 1
    affordable = passes * rows <= jnp.sum(1.0 * visited.steps) * minibatch
    here = jax.vmap(lambda warmup: progress(plan, warmup))(state.warmup)
    places = jnp.any(plan.flag("places_anchors", here.number)) & jnp.any(anchors.in_use)

    used = jax.vmap(nearest)(anchors, state.sampler.chain.position)
    counted = jax.vmap(lambda uses, k: (_FORGETTING * uses).at[k].add(1.0))(anchors.uses, used)
    anchors = anchors._replace(uses=counted)
    state = state._replace(warmup=state.warmup._replace(anchors=anchors))

    has_second = bool(anchors.slots.hessian.shape[-1])
    bent = partial(with_hessian, full_data)

    def of_second_order(anchors: Anchors) -> Anchors:
        """The anchors of all chains, with Hessians from when these take most of the noise away."""
        if not has_second:
            return anchors
        owner = worst // (len(positions) // len(used))
        of_owner = jax.tree.map(lambda x: x[owner], anchors)
        variances = variance_on_rows(potential, like)
        key = random.fold_in(state.rng_key[0], 1)
        first, second = jax.vmap(
            lambda k: variances(potential.plates.draw(k), positions[worst], of_owner)
        )(random.split(key, _COMPARED)).mean(0)
        begins = (anchors.order[0] == 1) & (second < _WORTH_A_HESSIAN * first)

        def with_hessians(anchors: Anchors) -> Anchors:
            slots = lax.map(
                lambda of_chain: lax.map(
                    lambda slot: lax.cond(slot.weight > 0, bent, lambda x: x, slot), of_chain
                ),
                anchors.slots,
            )
            return anchors._replace(slots=slots, order=jnp.full_like(anchors.order, 2))

        return lax.cond(begins, with_hessians, lambda x: x, anchors)

    def placed(state: Any) -> Any:
        anchors = of_second_order(state.warmup.anchors)
        new = anchor_at(full_data, positions[worst])
        if has_second:
            new = lax.cond(anchors.order[0] > 1, bent, lambda x: x, new)
        usable = jnp.isfinite(new.energy.high) & jnp.isfinite(new.gradient).all()
        new = new._replace(weight=1.0 * usable)
        slot = slot_to_fill(jax.tree.map(lambda x: x.mean(0), anchors))
        filled = jax.vmap(lambda a: with_anchor(a, slot, new))(anchors)
        # A pass is counted once, however many chains it serves.
        filled = filled._replace(passes=anchors.passes.at[0].add(1))
        state = state._replace(warmup=state.warmup._replace(anchors=filled))
        energy = source.estimator("control_variate", potential, like, state.warmup)

        def evaluated_anew(state: Any) -> Any:
            """No chain keeps an energy whose noise happened to be low."""
            rng_key, key = random.split(state.rng_key)
            sampler = method.evaluate_anew(key, state.sampler, energy(state.warmup))
            return state._replace(sampler=sampler, rng_key=rng_key)

        return jax.vmap(evaluated_anew)(state)

    place = places & affordable & (variances[worst] > bearable)
    return lax.cond(place, placed, lambda x: x, state)


def _rows(full_data: FullData, which: int) -> float:
    """The rows of all groups, of the data (0) or of a minibatch (1)."""
    sizes = full_data.potential.plates.sizes
    return float(sum(math.prod(sizes[p][which] for p in group) for group in full_data.groups))


def anchored_on_new_data(source: EnergySource, potential: ModelPotential | None, state: Any) -> Any:
    """The state with energies and gradients of its anchors on other data."""
    anchors = anchors_of(state.warmup)
    if not anchors:
        return state
    assert potential is not None
    full_data = source.full_data(potential, state.z)

    def anew(anchor: Anchor) -> Anchor:
        found = anchor_at(full_data, anchor.position)._replace(weight=anchor.weight)
        if not anchor.hessian.shape[-1]:
            return found
        bent = partial(with_hessian, full_data)
        return lax.cond(anchors.order > 1, bent, lambda x: x, found)

    slots = lax.map(
        lambda anchor: lax.cond(anchor.weight > 0, anew, lambda x: x, anchor), anchors.slots
    )
    return state._replace(warmup=state.warmup._replace(anchors=anchors._replace(slots=slots)))
