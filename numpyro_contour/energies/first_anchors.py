"""The anchors of a control variate: placed in the warm-up, where the noise asks for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, random

from numpyro_contour.core.arrays.factors import slope
from numpyro_contour.energies.anchors import (
    Anchor,
    Anchors,
    anchor_at,
    no_anchors,
    serving,
    with_anchor,
    with_hessian,
)
from numpyro_contour.energies.clusters import Clusters
from numpyro_contour.energies.control_variate import first_order
from numpyro_contour.energies.data_expansion import Home, home_of
from numpyro_contour.energies.source import Energies, anchors_of
from numpyro_contour.kernels.methods.method import Method
from numpyro_contour.models.all_rows import FullData
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.warmup.stages.plan import Plan
from numpyro_contour.warmup.stages.state import progress


def place_anchor(
    plan: Plan,
    energies: Energies,
    method: Method,
    lift: Callable,
    before: Any,
    after: Any,
) -> Any:
    """The state of all chains after a tuning draw, with the first anchor where a stage ends.

    Args:
        plan: the plan of the warm-up.
        energies: those of the run.
        method: the kernel's method.
        lift: makes a function of one chain one of all, one chain after the other.
        before: the state before the draw.
        after: the state after it.
    """
    if not anchors_of(after.warmup):
        return after
    here = lift(lambda warmup: progress(plan, warmup))(before.warmup)
    mean = lift(lambda warmup: warmup.tuning.mean_position)(before.warmup)
    places = jnp.asarray((*plan.places_anchor, False))[here.number]
    return lax.cond(
        jnp.any(here.ends & places),
        lift(partial(anchored, energies, method)),
        lambda x: x[0],
        (after, mean, plan.flag("descends", here.number)),
    )


def anchored(energies: Energies, method: Method, ended: tuple[Any, jax.Array, jax.Array]) -> Any:
    """The state with its first anchor where a descent ended, or where there is less noise.

    After a descent that is the chain's position. After a stage of tuning it is the better one of
    the anchor it has and the stage's mean.

    The descent ends as far from the bulk of a posterior of very many rows as its minibatches
    scatter. Unless the control variate was asked for by name it is given up where a minibatch alone
    has less noise.

    Args:
        energies: those of the run.
        method: the kernel's method.
        ended: the state after a stage, its mean position, and whether it was a descent.
    """
    state, mean, descended = ended
    rng_key, key = random.split(state.rng_key)
    anchors, position = state.warmup.anchors, state.sampler.chain.position
    full_data = energies.full_data
    old = jax.tree.map(lambda x: x[0], anchors.slots)
    new = anchor_at(full_data, jnp.where(descended, position, mean), anchors)
    tuning = state.warmup.tuning
    best = least_noisy(
        key,
        energies.of_rows,
        energies.like,
        position,
        jax.tree.map(lambda *both: jnp.stack(both), old, new),
        tuning.preconditioner,
        or_none=energies.source.energy is None,
        factor=tuning.factor,
    )
    # An expansion in the data has no reach.
    best = best._replace(weight=jnp.where(anchors.order == 3, 1.0, best.weight))
    if best.hessian.shape[-1]:
        bent = partial(with_hessian, full_data)
        best = lax.cond(anchors.order == 2, bent, lambda x: x, best)
    anchors = with_anchor(anchors, jnp.zeros((), jnp.int32), best)
    anchors = anchors._replace(metric=1 / tuning.diagonal)
    clusters = energies.expansions.clusters
    if anchors.home and clusters:
        homes = partial(home_at, full_data, clusters)
        home = lax.cond(anchors.order == 3, homes, lambda _: anchors.home, best)
        anchors = anchors._replace(home=home)
    return _relative_to(method, state._replace(rng_key=rng_key), anchors)


def home_at(full_data: FullData, clusters: Clusters, anchor: Anchor) -> Home:
    """The home of an expansion in the data at an anchor, by a pass over all rows."""
    return home_of(full_data, clusters, anchor.position)


def _relative_to(method: Method, state: Any, anchors: Anchors) -> Any:
    """The state with other anchors, and its energies as differences to the first of them."""
    old, new = state.warmup.anchors.reference, anchors.reference
    rise = (old.high - new.high) + (old.low - new.low)
    history = state.warmup.history.raised(rise)
    chain = state.sampler.chain
    chain = chain._replace(potential_energy=chain.potential_energy + rise)
    sampler = method.raise_energies(state.sampler._replace(chain=chain), rise)
    warmup = state.warmup._replace(anchors=anchors, history=history)
    return state._replace(sampler=sampler, warmup=warmup)


def anchored_on_new_data(energies: Energies, state: Any) -> Any:
    """The state with energies and gradients of its anchors on other data."""
    anchors = anchors_of(state.warmup)
    if not anchors:
        return state
    full_data = energies.full_data

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
    anchors = anchors._replace(slots=slots)
    clusters = energies.expansions.clusters
    if anchors.home and clusters:
        first = jax.tree.map(lambda x: x[0], slots)
        homes = partial(home_at, full_data, clusters)
        home = lax.cond(anchors.order == 3, homes, lambda _: anchors.home, first)
        anchors = anchors._replace(home=home)
    return state._replace(warmup=state.warmup._replace(anchors=anchors))


# Minibatches from which the noise of an estimator at a position is estimated.
_COMPARED = 32


def least_noisy(
    key: jax.Array,
    potential: ModelPotential,
    like: Any,
    position: jax.Array,
    candidates: Anchor,
    preconditioner: jax.Array,
    or_none: bool,
    factor: Any = (),
) -> Anchor:
    """The anchor whose control variate has the least noise at a position.

    The measure is the product of the variances of the energy and of the preconditioned gradient.

    Args:
        key: random key.
        potential: the potential energy of a model with subsample plates.
        like: an unconstrained position of the model.
        position: where the noise is estimated, (d,).
        candidates: several, along a leading axis.
        preconditioner: D of the preconditioner L D L', (d,).
        or_none: whether to return the first one, with weight 0, where a minibatch alone has less
            noise.
        factor: L, (d, d). Defaults to (), for the identity.
    """
    keys = random.split(key, _COMPARED)
    estimate = first_order(potential, like)
    blank = no_anchors(position.shape[0], (1,))

    def noise(anchor: Anchor) -> jax.Array:
        alone = blank._replace(slots=jax.tree.map(lambda x: x[None], anchor))
        served = serving(alone, position)
        energies, gradients = jax.vmap(
            lambda k: estimate(potential.plates.draw(k), position, alone, served)
        )(keys)
        slopes = jax.vmap(lambda gradient: slope(factor, gradient))(gradients)
        return energies.var() * jnp.sum(preconditioner * slopes.var(0))

    none = jax.tree.map(lambda x: x[:1], candidates)
    none = none._replace(weight=jnp.zeros_like(none.weight))
    used = candidates._replace(weight=jnp.ones_like(candidates.weight))
    levels = jax.vmap(noise)(jax.tree.map(lambda *both: jnp.concatenate(both), used, none))
    # Where the descent found no finite energy there is no anchor: its gradient was left at 0.
    usable = jnp.isfinite(levels[:-1] + used.energy.high) & jnp.any(used.gradient != 0, -1)
    least = jnp.where(usable, levels[:-1], jnp.inf)
    limit = levels[-1] if or_none else jnp.inf
    place = jnp.argmin(least)
    taken = jnp.isfinite(least[place]) & (least[place] <= limit)
    return jax.tree.map(lambda a, b: jnp.where(taken, a[place], b[0]), used, none)
