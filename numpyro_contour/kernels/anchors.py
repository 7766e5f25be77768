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
from numpyro_contour.adaptation.tuning import bearable_noise
from numpyro_contour.adaptation.warmup import progress
from numpyro_contour.core.arrays.vectors import ravel
from numpyro_contour.core.samplers.chain import Chain
from numpyro_contour.kernels.energy_source import EnergySource, anchors_of
from numpyro_contour.kernels.methods.method import Method
from numpyro_contour.models.all_rows import FullData
from numpyro_contour.models.estimators.anchors import (
    Anchor,
    Anchors,
    anchor_at,
    distances,
    nearest,
    no_anchors,
    slot_to_fill,
    with_anchor,
    with_hessian,
)
from numpyro_contour.models.estimators.first_anchor import least_noisy
from numpyro_contour.models.estimators.noise import variances_on_rows
from numpyro_contour.models.model_potential import ModelPotential

# The second order begins where it leaves at most this share of the noise's variance.
_WORTH_A_HESSIAN = 0.1
# Minibatches from which that is judged.
_COMPARED = 8
# By how much a draw counts less than the next one in the uses of the slots.
_FORGETTING = 0.99


def first_anchors(source: EnergySource, chosen: str | Callable, like: Any) -> Anchors | tuple[()]:
    """The anchors before there are any; () where none will be."""
    if chosen != "control_variate":
        return ()
    return no_anchors(ravel(like).shape[0], source.orders(like))


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
    new = anchor_at(full_data, jnp.where(descended, position, mean), anchors)
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
        best = lax.cond(anchors.order == 2, bent, lambda x: x, best)
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
    visited = jax.vmap(method.visited)(state.sampler)
    noise = jnp.nan_to_num(visited.energy_noise, posinf=0.0)
    here = jax.vmap(lambda warmup: progress(plan, warmup))(state.warmup)
    places = jnp.any(plan.flag("places_anchors", here.number)) & jnp.any(anchors.in_use)
    too_noisy = jnp.max(noise) > bearable_noise(visited.position.shape[-1])

    used = jax.vmap(nearest)(anchors, state.sampler.chain.position)
    counted = jax.vmap(lambda uses, k: (_FORGETTING * uses).at[k].add(1.0))(anchors.uses, used)
    state = _with_anchors(state, anchors._replace(uses=counted))

    def followed(state: Any) -> Any:
        return _less_noisy(source, method, potential, state, visited, noise)

    return lax.cond(places & too_noisy, followed, lambda x: x, state)


def _less_noisy(
    source: EnergySource,
    method: Method,
    potential: ModelPotential,
    state: Any,
    visited: Chain,
    noise: jax.Array,
) -> Any:
    """The states of all chains with anchors by which their energies have less noise.

    Args:
        source: where energies come from.
        method: the kernel's method.
        potential: the model's potential energy.
        state: the states of all chains.
        visited: the chains that their samplers move, (chains, replicas, ...).
        noise: the variance of their energies' noise, (chains, replicas).
    """
    anchors, like = state.warmup.anchors, jax.tree.map(lambda x: x[0], state.z)
    orders, full_data = source.orders(like), source.full_data(potential, like)
    chain, replica = jnp.unravel_index(jnp.argmax(noise), noise.shape)
    position = visited.position[chain, replica]
    on_rows = variances_on_rows(potential, like)
    keys = random.split(random.fold_in(state.rng_key[0], 1), _COMPARED)
    levels = jax.vmap(
        lambda key: on_rows(
            potential.plates.draw(key), position, jax.tree.map(lambda x: x[chain], anchors)
        )
    )(keys).mean(0)
    anchors = _within_reach(anchors, position, chain, levels)
    if orders == (1, 2):
        worth_it = (anchors.order[0] == 1) & (levels[2] < _WORTH_A_HESSIAN * levels[1])
        bent = partial(_with_hessians, full_data)
        anchors = lax.cond(worth_it, bent, lambda x: x, anchors)

    rows, minibatch = (_rows(full_data, which) for which in (0, 1))
    looked_at = jnp.sum(1.0 * visited.steps) * minibatch
    affordable = (1.0 * jnp.sum(anchors.passes) + 1) * rows <= looked_at
    needed = levels[anchors.order[0]] > bearable_noise(position.shape[0])

    def placed(anchors: Anchors) -> Anchors:
        new = anchor_at(full_data, position, anchors)
        if 2 in orders:
            bent = partial(with_hessian, full_data)
            new = lax.cond(anchors.order[0] == 2, bent, lambda x: x, new)
        usable = jnp.isfinite(new.energy.high) & jnp.isfinite(new.gradient).all()
        new = new._replace(weight=1.0 * usable)
        slot = slot_to_fill(jax.tree.map(lambda x: x.mean(0), anchors))
        filled = jax.vmap(lambda a: with_anchor(a, slot, new))(anchors)
        # A pass is counted once, however many chains it serves.
        return filled._replace(passes=anchors.passes.at[0].add(1))

    anchors = lax.cond(affordable & needed, placed, lambda x: x, anchors)
    state = _with_anchors(state, anchors)
    energy = source.estimator("control_variate", potential, like, state.warmup)

    def evaluated_anew(state: Any) -> Any:
        """No chain keeps an energy whose noise happened to be low."""
        rng_key, key = random.split(state.rng_key)
        sampler = method.evaluate_anew(key, state.sampler, energy(state.warmup))
        return state._replace(sampler=sampler, rng_key=rng_key)

    return jax.vmap(evaluated_anew)(state)


def _within_reach(
    anchors: Anchors, position: jax.Array, chain: jax.Array, levels: jax.Array
) -> Anchors:
    """The anchors of all chains, where the one of a chain at a position is known to be too far.

    Args:
        anchors: the anchors of all chains.
        position: where a chain is, (d,).
        chain: its number.
        levels: the variances of a minibatch's energy there: alone, and by each order, (3,).
    """
    of_chain = jax.tree.map(lambda x: x[chain], anchors)
    squares = distances(of_chain, position)
    number = jnp.argmin(squares)
    too_far = levels[0] < levels[of_chain.order]
    limit = jnp.where(too_far, squares[number], jnp.inf)
    reach = anchors.slots.reach
    # The first anchor is each chain's own, the others are those of all.
    mine = (jnp.arange(reach.shape[0]) == chain) | (number > 0)
    shorter = jnp.minimum(reach[:, number], jnp.where(mine, limit, jnp.inf))
    return anchors._replace(slots=anchors.slots._replace(reach=reach.at[:, number].set(shorter)))


def _with_hessians(full_data: FullData, anchors: Anchors) -> Anchors:
    """The anchors of all chains with their Hessians; all but the first are those of all chains."""
    bent = partial(with_hessian, full_data)
    slots = anchors.slots
    first = lax.map(bent, jax.tree.map(lambda x: x[:, 0], slots)).hessian
    shared = lax.map(
        lambda slot: lax.cond(slot.weight > 0, bent, lambda x: x, slot),
        jax.tree.map(lambda x: x[0], slots),
    ).hessian
    hessians = jnp.broadcast_to(shared, slots.hessian.shape).at[:, 0].set(first)
    passes = anchors.passes + 1
    passes = passes.at[0].add(jnp.sum(slots.weight[0, 1:] > 0).astype(passes.dtype))
    return anchors._replace(
        slots=slots._replace(hessian=hessians),
        passes=passes,
        order=jnp.full_like(anchors.order, 2),
    )


def _with_anchors(state: Any, anchors: Anchors) -> Any:
    return state._replace(warmup=state.warmup._replace(anchors=anchors))


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
        found = anchor_at(full_data, anchor.position, anchors)
        found = found._replace(weight=anchor.weight, reach=anchor.reach)
        if not anchor.hessian.shape[-1]:
            return found
        bent = partial(with_hessian, full_data)
        return lax.cond(anchors.order == 2, bent, lambda x: x, found)

    slots = lax.map(
        lambda anchor: lax.cond(anchor.weight > 0, anew, lambda x: x, anchor), anchors.slots
    )
    return state._replace(warmup=state.warmup._replace(anchors=anchors._replace(slots=slots)))
