"""Anchors that follow the chains through the warm-up, placed where energies are too noisy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, random

from numpyro_contour.core.arrays.entries import entries
from numpyro_contour.core.arrays.factors import slope
from numpyro_contour.core.arrays.vectors import ravel
from numpyro_contour.core.samplers.chain import Chain
from numpyro_contour.energies.anchors import (
    Anchors,
    anchor_at,
    distances,
    nearest,
    slot_to_fill,
    with_anchor,
    with_hessian,
)
from numpyro_contour.energies.clusters import Clusters
from numpyro_contour.energies.first_anchors import home_at
from numpyro_contour.energies.noise import variances_of_all
from numpyro_contour.energies.source import Energies
from numpyro_contour.kernels.methods.method import Method
from numpyro_contour.models.all_rows import FullData
from numpyro_contour.modes.found_modes import FoundModes
from numpyro_contour.warmup.stages.plan import SETTLE, Plan
from numpyro_contour.warmup.stages.state import progress
from numpyro_contour.warmup.stages.tuning import bearable_noise

# Another order begins where it leaves at most this share of the noise's variance, that of an
# expansion in the data of what either order at anchors leaves. In the median over the chains the
# latter leaves at most the inverse of that share, or so little.
_WORTH_IT = {2: 0.3, 3: 0.1}
_LITTLE = 0.1
# Dearer steps begin only where so many anchors, by their order, have not brought the noise down: a
# chain may only be on its way to the one mode there is. From the last search for a step size on,
# when the first anchors are where chains have settled, those of second order begin where the
# variance is so many times what can be borne: farther out than a mode's own tails. They also begin
# where no further pass can be afforded.
_IN_VAIN = {2: 5, 3: 9}
_FAR_OUT = 4.0
# Minibatches from which that is judged.
_COMPARED = 8
# By how much a draw counts less than the next one in the uses of the slots.
_FORGETTING = 0.99


def follow(
    plan: Plan,
    energies: Energies,
    method: Method,
    state: Any,
    modes: FoundModes | tuple[()] = (),
) -> Any:
    """The states of all chains after a draw, with a further anchor where it is needed most.

    That is where the noise of a chain's energy is largest, if it is more than the flattening can
    bear, or in a mode that chains may jump to, if it is larger there. All chains get it, so that a
    mode that one has reached serves all. The passes over all rows never look at more rows than the
    minibatches have.

    Args:
        plan: the plan of the warm-up.
        energies: those of the run.
        method: the kernel's method.
        state: the states of all chains after a draw of the warm-up, with a leading axis.
        modes: those that chains may jump to. () (default) where there are no jumps.
    """
    state, asks = noted(plan, method, state, modes)
    if not state.warmup.anchors:
        return state
    followed_up = partial(followed, plan, energies, method, modes=modes)
    return lax.cond(asks, followed_up, lambda x: x, state)


def noted(
    plan: Plan, method: Method, state: Any, modes: FoundModes | tuple[()] = ()
) -> tuple[Any, jax.Array]:
    """The states of all chains with the uses of their anchors, and whether noise asks for one.

    Args:
        plan: as for `follow`.
        method: as for `follow`.
        state: as for `follow`.
        modes: as for `follow`.
    """
    anchors = state.warmup.anchors
    if not anchors:
        return state, jnp.zeros((), bool)
    visited, noise = _noisy(method, state, modes)
    here = jax.vmap(lambda warmup: progress(plan, warmup))(state.warmup)
    places = jnp.any(plan.flag("places_anchors", here.number)) & jnp.any(anchors.in_use)
    too_noisy = jnp.max(noise) > bearable_noise(visited.position.shape[-1])
    used, _ = jax.vmap(nearest)(anchors, state.sampler.chain.position)
    counted = jax.vmap(lambda uses, k: (_FORGETTING * uses).at[k].add(1.0))(anchors.uses, used)
    return _with_anchors(state, anchors._replace(uses=counted)), places & too_noisy


def followed(
    plan: Plan,
    energies: Energies,
    method: Method,
    state: Any,
    modes: FoundModes | tuple[()] = (),
) -> Any:
    """The states of all chains with less noise, where it asks for that."""
    here = jax.vmap(lambda warmup: progress(plan, warmup))(state.warmup)
    settled = jnp.any(here.number >= plan.last(SETTLE) - 1)
    return _less_noisy(energies, method, state, *_noisy(method, state, modes), settled)


def _noisy(method: Method, state: Any, modes: FoundModes | tuple[()]) -> tuple[Chain, jax.Array]:
    """The chains that samplers move, and the noisiest mode, with the variances of their noise."""
    visited = jax.vmap(method.visited)(state.sampler)
    if modes:
        visited = _with_a_mode(visited, modes)
    return visited, jnp.nan_to_num(visited.energy_noise, posinf=0.0)


def _with_a_mode(visited: Chain, modes: FoundModes) -> Chain:
    """The places of all chains, and the noisiest of the modes for the chain that it is so for."""
    number = jnp.argmax(modes.noise)
    is_noisiest = jnp.arange(visited.position.shape[0]) == modes.noisiest[number]
    noise = jnp.where(is_noisiest, modes.noise[number], 0.0)[:, None]
    place = modes.modes.mean[number]
    place = jnp.broadcast_to(place, (*noise.shape, *place.shape))
    return visited._replace(
        position=jnp.concatenate([visited.position, place], 1),
        energy_noise=jnp.concatenate([visited.energy_noise, noise], 1),
    )


def _less_noisy(
    energies: Energies,
    method: Method,
    state: Any,
    visited: Chain,
    noise: jax.Array,
    settled: jax.Array,
) -> Any:
    """The states of all chains with anchors by which their energies have less noise.

    Args:
        energies: those of the run.
        method: the kernel's method.
        state: the states of all chains.
        visited: the chains that their samplers move, (chains, replicas, ...).
        noise: the variance of their energies' noise, (chains, replicas).
        settled: whether the first anchors are where the chains have settled.
    """
    anchors, potential = state.warmup.anchors, energies.of_rows
    full_data, expansions = energies.full_data, energies.expansions
    chain, replica = jnp.unravel_index(jnp.argmax(noise), noise.shape)
    position = visited.position[chain, replica]
    on_rows = variances_of_all(potential, energies.like, expansions)
    keys = random.split(random.fold_in(state.rng_key[0], 1), _COMPARED)

    def variances(x: jax.Array, of_chain: Anchors) -> jax.Array:
        """Means over minibatches: the variance by a single one is far off too often."""
        found = jax.vmap(lambda key: on_rows(potential.plates.draw(key), x, of_chain))(keys)
        return found.mean(0)

    levels = variances(position, entries(anchors, chain))
    anchors = _within_reach(anchors, position, chain, levels)
    rows, minibatch = float(full_data.size), full_data.taken
    looked_at = jnp.sum(1.0 * visited.steps) * minibatch
    affordable = (1.0 * jnp.sum(anchors.passes) + 1) * rows <= looked_at
    bearable = bearable_noise(position.shape[0])
    in_use = jnp.sum(anchors.slots.weight[0] > 0)
    bends: jax.Array = jnp.zeros((), bool)
    if expansions.orders[:2] == (1, 2):
        worth_it = (anchors.order[0] == 1) & (levels[1] > bearable)
        worth_it &= levels[2] < _WORTH_IT[2] * levels[1]
        far_out = levels[1] > _FAR_OUT * bearable
        worth_it &= jnp.where(settled, far_out, in_use >= _IN_VAIN[2]) | ~affordable
        bends = worth_it
        anchors = anchors._replace(order=jnp.where(bends, 2, anchors.order))
    if expansions.clusters and len(expansions.orders) > 1:
        level = levels[anchors.order[0]]
        at_anchors = jnp.minimum(level, levels[2])
        # It has to serve where all chains are: at a point that all rows fit alike it has no noise,
        # and in a mode that no anchor serves yet every anchor leaves more than it.
        elsewhere = jax.vmap(variances)(visited.position[:, 0], anchors)
        anchored = jnp.minimum(elsewhere[:, anchors.order[0]], elsewhere[:, 2])
        by_data = jnp.maximum(levels[3], jnp.max(elsewhere[:, 3]))
        worth_it = (in_use >= _IN_VAIN[3]) & (level > bearable)
        worth_it &= (levels[3] < _WORTH_IT[3] * at_anchors) & (by_data <= bearable)
        least = jnp.maximum(jnp.median(anchored) / _WORTH_IT[3], _LITTLE)
        worth_it &= jnp.median(elsewhere[:, 3]) <= least
        homes = partial(_with_homes, full_data, expansions.clusters)
        anchors = lax.cond(worth_it, homes, lambda x: x, anchors)

    needed = (levels[anchors.order[0]] > bearable) & (anchors.order[0] < 3)
    places = affordable & needed
    slot = slot_to_fill(jax.tree.map(lambda x: x.mean(0), anchors))
    lacks_hessian = bends & (anchors.slots.weight[0] > 0)
    lacks_hessian |= (jnp.arange(len(lacks_hessian)) == slot) & places & (anchors.order[0] == 2)
    placed = partial(_with_one_more, full_data, position, slot)
    anchors = lax.cond(places, placed, lambda x: x, anchors)
    if 2 in expansions.orders:
        bent = partial(_with_hessians, full_data, bends, lacks_hessian)
        anchors = lax.cond(jnp.any(lacks_hessian), bent, lambda x: x, anchors)
    # As the passes, refusals are counted once for all chains.
    refused = anchors.refused.at[0].add(1 * (needed & ~affordable))
    anchors = anchors._replace(refused=refused)
    anew = jnp.any(anchors.order != state.warmup.anchors.order)
    told = partial(with_noise_anew, partial(energies.of_chains, tells_noise=False))
    state = lax.cond(anew, told, _with_anchors, state, anchors)
    energy = energies.of_chains(state.warmup)

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
        levels: the variances of a minibatch's energy there: alone, and by each order, (4,).
    """
    of_chain = entries(anchors, chain)
    squares = distances(of_chain, position)
    number = jnp.argmin(squares)
    too_far = (levels[0] < levels[of_chain.order]) & (of_chain.order < 3)
    limit = jnp.where(too_far, squares[number], jnp.inf)
    reach = anchors.slots.reach
    # The first anchor is each chain's own, the others are those of all.
    mine = (jnp.arange(reach.shape[0]) == chain) | (number > 0)
    shorter = jnp.minimum(reach[:, number], jnp.where(mine, limit, jnp.inf))
    return anchors._replace(slots=anchors.slots._replace(reach=reach.at[:, number].set(shorter)))


def _with_one_more(
    full_data: FullData, position: jax.Array, slot: jax.Array, anchors: Anchors
) -> Anchors:
    """The anchors of all chains with one more in a slot, without its Hessian."""
    new = anchor_at(full_data, position, anchors)
    usable = jnp.isfinite(new.energy.high) & jnp.isfinite(new.gradient).all()
    new = new._replace(weight=1.0 * usable)
    filled = jax.vmap(lambda a: with_anchor(a, slot, new))(anchors)
    # A pass is counted once, however many chains it serves.
    return filled._replace(passes=anchors.passes.at[0].add(1))


def _with_hessians(
    full_data: FullData, all_of_them: jax.Array, lacking: jax.Array, anchors: Anchors
) -> Anchors:
    """The anchors of all chains with the Hessians that they lack.

    All slots but the first are those of all chains. The Hessian is traced, and compiled, once for
    all uses: it is the largest of the programs that follow the chains.

    Args:
        full_data: the model over all rows.
        all_of_them: whether the anchors had none before, so that each chain's first lacks its own.
        lacking: whether each slot lacks one, (slots,).
        anchors: the anchors.
    """
    slots = anchors.slots
    chains = slots.weight.shape[0]
    first = jax.tree.map(lambda x: x[:, 0], slots)
    each = jax.tree.map(lambda a, x: jnp.concatenate([a, x[0, 1:]]), first, slots)
    wanted = jnp.concatenate([jnp.full((chains,), all_of_them), lacking[1:]])
    bent = partial(with_hessian, full_data)
    found = lax.map(lambda x: lax.cond(x[0], bent, lambda slot: slot, x[1]), (wanted, each)).hessian
    shared = jnp.broadcast_to(found[chains:], slots.hessian[:, 1:].shape)
    hessians = jnp.concatenate([found[:chains, None], shared], 1)
    # A Hessian that is wanted for its own sake is a pass; that of a new anchor belongs to its own.
    passes = anchors.passes + all_of_them
    passes = passes.at[0].add(all_of_them * jnp.sum(lacking[1:]))
    return anchors._replace(slots=slots._replace(hessian=hessians), passes=passes)


def _with_homes(full_data: FullData, clusters: Clusters, anchors: Anchors) -> Anchors:
    """The anchors of all chains, with an expansion in the data relative to each chain's first."""
    homes = lax.map(
        lambda of_chain: home_at(full_data, clusters, jax.tree.map(lambda x: x[0], of_chain)),
        anchors.slots,
    )
    return anchors._replace(
        home=homes, passes=anchors.passes + 1, order=jnp.full_like(anchors.order, 3)
    )


def _with_anchors(state: Any, anchors: Anchors) -> Any:
    return state._replace(warmup=state.warmup._replace(anchors=anchors))


# Minibatches by which the noise is compared, at the place of each chain.
_COMPARED_GRADIENTS = 8


def with_noise_anew(estimator: Callable[[Any], Callable], state: Any, anchors: Anchors) -> Any:
    r"""The states of all chains with anchors of another order, and with the noise that these leave.

    The variances V of a gradient were measured before. A step injects less noise by what they say,
    :math:`\epsilon M V / 2 \tau` of a Langevin step and ten times that with momentum: where another
    order leaves a hundredth of V, draws would vary too little by all of it. V is multiplied by

    .. math:: \sum_c \operatorname{tr}(M V_\text{new}) / \sum_c \operatorname{tr}(M V_\text{old})

    over the chains c, both from the same minibatches at the same draws. (More anchors of the same
    order serve places where the chains had none, and leave V where it is.)

    Args:
        estimator: from the warm-up of all chains to `(warm-up) -> potential_and_grad` of each.
        state: the states of all chains, with their anchors of before.
        anchors: the anchors of all chains that come in their place.
    """
    # Not where the chains are: there a new anchor may just have been placed.
    place = jax.vmap(ravel)(state.z)
    keys = jax.vmap(lambda key: random.split(random.fold_in(key, 2), _COMPARED_GRADIENTS))(
        state.rng_key
    )

    def noise(anchors: Anchors) -> jax.Array:
        warmup = state.warmup._replace(anchors=anchors)
        energy = estimator(warmup)

        def of_chain(warmup: Any, place: jax.Array, keys: jax.Array) -> jax.Array:
            gradients = jax.vmap(lambda key: energy(warmup)(key, place)[1])(keys)
            return jax.vmap(lambda g: slope(warmup.tuning.factor, g))(gradients).var(0)

        return jnp.sum(state.warmup.tuning.preconditioner * jax.vmap(of_chain)(warmup, place, keys))

    both = jax.tree.map(lambda old, new: jnp.stack([old, new]), state.warmup.anchors, anchors)
    old, new = lax.map(noise, both)
    usable = (old > 0) & jnp.isfinite(new / old)
    ratio = jnp.where(usable, new / old, 1.0)
    tuning, moments = state.warmup.tuning, state.warmup.tuning.moments
    tuning = tuning._replace(
        gradient_noise=ratio * tuning.gradient_noise,
        moments=moments._replace(gradient_noise=ratio * moments.gradient_noise),
    )
    return state._replace(warmup=state.warmup._replace(anchors=anchors, tuning=tuning))
