"""Modes that the warm-up finds for all chains, and when chains jump between them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from numpyro_contour import checks
from numpyro_contour.core.arrays.entries import entries
from numpyro_contour.core.samplers.chain import Evaluation, PotentialAndGrad, evaluate
from numpyro_contour.core.samplers.known_modes import Modes
from numpyro_contour.kernels.methods.method import Method
from numpyro_contour.models.relabelling import Relabel
from numpyro_contour.modes.copies import further_copy
from numpyro_contour.modes.found_modes import FoundModes, is_known, none_found, renewed, with_modes
from numpyro_contour.modes.way_down import (
    DESCENT_LENGTH,
    MINIBATCHES,
    MOST_FULL_SHAPE,
    scales_at,
    shape_at,
    way_down,
)
from numpyro_contour.modes.where_no_chain_is import further_out, unexplained
from numpyro_contour.schedules import Schedule
from numpyro_contour.warmup.stages.descent import STARTS, Descent

#: tries to jump for each step; where energies are noisy, a try costs several steps
SHARE, SHARE_OF_NOISY = 0.1, 0.01
# Searches of a warm-up at most, and the share of its gradients that they take at most.
_MOST_SEARCHES = 32
_SHARE_OF_WARMUP = 0.15


class Tries(NamedTuple):
    """How often chains try to jump."""

    #: tries for each step where energies are exact, 0 for none
    exact: float
    #: where a control variate estimates them
    noisy: float
    #: whether jumps were asked for
    asked: bool


def check_jumps(value: Any) -> Tries:
    """The argument `jumps`.

    Raises:
        ValueError: it is neither None, nor True or False, nor a share.
    """
    if value is None or isinstance(value, bool | np.bool_):
        if value is None or value:
            return Tries(SHARE, SHARE_OF_NOISY, value is not None)
        return Tries(0.0, 0.0, asked=False)
    takes = "None, True, False or the tries for each step, in (0, 1]"
    try:
        share = float(value)
    except (TypeError, ValueError):
        raise checks.fail("jumps", value, takes) from None
    if not 0 < share <= 1:
        raise checks.fail("jumps", value, takes)
    return Tries(share, share, asked=True)


def with_no_modes(state: Any) -> Any:
    """The state of one chain or of all at the start, with slots for modes where chains may jump.

    The modes have no axis of chains: those that run together have them in common.
    """
    if not (state.warmup and state.warmup.jumps):
        return state
    modes = none_found(state.sampler.chain.position.shape[-1])
    return state._replace(warmup=state.warmup._replace(modes=modes))


class Jumping(NamedTuple):
    """The jumps of a draw, the same for all chains."""

    #: the modes that are known
    modes: Modes
    #: `(number of a stretch of the draw) -> whether it begins with a try`
    due: Callable[[Any], jax.Array]


def stretches_of(unit: int, share: float, most: int) -> tuple[int, int]:
    """The steps of a stretch, and how many stretches there are for each try.

    Tries divide a unit into equal parts, as near in number to those that are due as they can be; or
    there is one in several units. Stretches divide these parts.

    Args:
        unit: steps of which every draw is a multiple.
        share: tries for each step, above 0.
        most: the most steps of a stretch.
    """
    aim = unit * share
    tries = min(_divisors(unit), key=lambda n: abs(math.log(n / max(aim, 1.0))))
    part = unit // tries
    stretch = max(n for n in _divisors(part) if n <= max(most, 1))
    return stretch, part // stretch * max(1, round(1 / aim))


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def jumps_of_a_draw(found: FoundModes, steps: jax.Array, stretch: int, every: int) -> Jumping:
    """The jumps of the next draw: none as long as there are not two modes.

    Args:
        found: the modes that are known.
        steps: steps of the chains so far.
        stretch: steps of a stretch.
        every: stretches for each try.
    """
    before = steps // stretch
    return Jumping(found.modes, lambda number: found.several & ((before + number) % every == 0))


def searches_every(length: Any, relabel: Relabel | None, num_steps: int) -> Any:
    """The number of draws from one search to the next.

    Args:
        length: the length of the warm-up in draws.
        relabel: as for `search`.
        num_steps: steps of a draw.
    """
    least = math.ceil(_descents(relabel) * DESCENT_LENGTH / (_SHARE_OF_WARMUP * num_steps))
    maximum = max if isinstance(length, int) else jnp.maximum
    return maximum(length // _MOST_SEARCHES, least)


def _descents(relabel: Relabel | None) -> int:
    """The descents of a search from where a chain is."""
    return 1 if relabel is None else 2


def search(
    method: Method,
    temperature: Schedule,
    energy: Callable[[Any], PotentialAndGrad],
    telling: Callable[[Any], PotentialAndGrad] | None,
    relabel: Relabel | None,
    known: FoundModes,
    due: Any,
    after: Any,
) -> FoundModes:
    """The modes that all chains know after a draw of the warm-up.

    From time to time a descent goes down from where each chain is, and another one from there with
    other labels, if the model may have some. Else, where modes are copies of one another, some
    descents begin where further copies may be. Where energies are exact, every second search
    begins where no chain is: see `further_out` and `unexplained`. All chains know the modes that
    any of them has found. None is added once draws are kept.

    Args:
        method: the kernel's method.
        temperature: schedule of tau.
        energy: from the warm-up of a chain to its `potential_and_grad`.
        telling: the same, which also tells the noise; None where energies are exact.
        relabel: gives a position other labels, None where the model has none.
        known: the modes that were known before it.
        due: whether it is time to search.
        after: the states of all chains after the draw, without modes, with a leading axis.
    """
    tau = temperature(after.sampler.chain.steps[0])
    descents = _descents(relabel)

    def searched(found: FoundModes) -> FoundModes:
        # Nothing but the anchors of a warm-up is asked for.
        anchors = jax.tree.map(lambda x: x[0], after.warmup.anchors)
        of_first = energy(after.warmup._replace(anchors=anchors))
        # The rows of a minibatch are the same for all.
        key = random.fold_in(after.rng_key[0], 3)
        visited = jax.vmap(method.visited)(after.sampler).position
        if telling is None:
            made = found.descents // descents
            searches = made // math.prod(visited.shape[:2])
            visited = _with_other_ends(visited, after.warmup.tuning.descent, searches)
            flat = visited.reshape(-1, visited.shape[-1])
            goes_out = (searches >= STARTS) & (searches % 2 == 1)
            out = partial(_out, random.fold_in(after.rng_key[0], 5), searches // 2)
            at = lambda x: evaluate(of_first, key, x).energy
            flat = lax.cond(goes_out, lambda x: out(x, found, at, tau), lambda x: x, flat)
            visited = flat.reshape(visited.shape)
        keys = random.split(random.fold_in(after.rng_key[0], 4), visited.shape[:2])
        if relabel is None:
            further = lambda key, place: further_copy(key, found.modes, place)
            visited = jax.vmap(jax.vmap(further))(keys, visited)
        else:
            visited = jnp.concatenate([visited, jax.vmap(jax.vmap(relabel))(keys, visited)], 1)

        def of_each(function: Callable, places: Any) -> Any:
            """A function of a `potential_and_grad` and a place, for all places of all chains.

            Each chain has the energies of its own anchors: where they are, noise is low.
            """

            def of_chain(warmup: Any, places: Any) -> Any:
                return jax.vmap(partial(function, energy(warmup)))(places)

            return jax.vmap(of_chain)(after.warmup, places)

        bottoms = of_each(partial(way_down, key), visited)
        new = ~jax.vmap(jax.vmap(partial(is_known, found.modes)))(bottoms)
        energy_at = lambda x: evaluate(of_first, key, x).energy
        if telling is not None:
            # Energies are relative to the first anchor of their chain.
            reference = after.warmup.anchors.reference
            above = jax.tree.map(lambda x: x - x[0], reference)
            shift = above.high + above.low
            found = _looked_at_anew(key, telling, after.warmup, shift, tau, found)

        def added(found: FoundModes) -> FoundModes:
            if visited.shape[-1] <= MOST_FULL_SHAPE:
                shaped = partial(shape_at, key, temperature=tau, exact=telling is None)
                shapes = of_each(shaped, bottoms)
            else:
                # One scale for all modes: what many coordinates are off by adds up.
                scales = jnp.sqrt(tau * bottoms.inverse_curvature[0, 0])
                first = found.modes.factor[jnp.argmax(found.modes.known)]
                scales = jnp.where(jnp.any(found.modes.known), first, scales)
                scaled = partial(scales_at, scales=scales, temperature=tau)
                shapes = jax.vmap(jax.vmap(scaled))(bottoms)
            if telling is not None:
                shapes = shapes._replace(energy=shapes.energy + shift[:, None])
            shapes = shapes._replace(arrived=shapes.arrived & new)
            shapes = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), shapes)
            return with_modes(found, shapes, tau, energy_at)

        found = lax.cond(jnp.any(new), added, lambda x: x, found)
        return found._replace(descents=found.descents + new.size)

    return lax.cond(due & (tau > 0), searched, lambda x: x, known)


def _out(
    key: jax.Array,
    number: jax.Array,
    places: jax.Array,
    found: FoundModes,
    energy_at: Callable[[jax.Array], jax.Array],
    temperature: jax.Array,
) -> jax.Array:
    """Where no chain is: for half of the chains in turn further out, else likely places there."""
    chains = jnp.arange(places.shape[0])
    half = (chains.size + 1) // 2
    likely = unexplained(key, half, found, energy_at, temperature).astype(places.dtype)
    in_turn = (chains + number) % 2 == 0
    return jnp.where(in_turn[:, None], further_out(key, places, found.modes), likely[chains // 2])


def _with_other_ends(visited: jax.Array, descent: Descent, searches: jax.Array) -> jax.Array:
    """The places of the chains, where searches after the first begin at the ends of descents.

    A chain stays at the first of them that is plausible. What the others have come to may be
    another mode, which no chain need be in.

    Args:
        visited: where the chains are, (chains, replicas, d).
        descent: the descents of all chains.
        searches: searches so far.
    """
    number = searches - 1
    ends = descent.other_ends
    there = jnp.take(ends, jnp.clip(number, 0, ends.shape[1] - 1), axis=1)
    usable = (number >= 0) & (number < ends.shape[1]) & jnp.isfinite(there).all(-1)
    return visited.at[:, 0].set(jnp.where(usable[:, None], there, visited[:, 0]))


def _looked_at_anew(
    key: jax.Array,
    telling: Callable[[Any], PotentialAndGrad],
    warmup: Any,
    shift: jax.Array,
    temperature: jax.Array,
    found: FoundModes,
) -> FoundModes:
    """The modes by the energies of some chains, which have different anchors next to them.

    Args:
        key: random key.
        telling: from the warm-up of a chain to its `potential_and_grad`, which tells the noise.
        warmup: those of all chains, with a leading axis.
        shift: what energies of each chain are to be raised by, (chains,).
        temperature: tau > 0.
        found: the modes so far.
    """
    keys = random.split(random.fold_in(key, 1), MINIBATCHES)
    chains = random.randint(random.fold_in(key, 2), (MINIBATCHES,), 0, shift.shape[0], jnp.int32)

    def of_chain(place: jax.Array, key: jax.Array, chain: jax.Array) -> Evaluation:
        of_this = warmup._replace(anchors=entries(warmup.anchors, chain))
        here = evaluate(telling(of_this), key, place)
        return here._replace(energy=here.energy + shift[chain])

    def of_mode(place: jax.Array) -> tuple[Evaluation, jax.Array]:
        seen = lax.map(lambda x: of_chain(place, *x), (keys, chains))
        means = jax.tree.map(lambda x: x.mean(0), seen)
        return means._replace(noise=jnp.max(seen.noise)), chains[jnp.argmax(seen.noise)]

    here, noisiest = lax.map(of_mode, found.modes.mean)
    found = renewed(found, here, temperature)
    noise = jnp.where(found.modes.known, jnp.nan_to_num(here.noise, posinf=0.0), 0.0)
    return found._replace(noise=noise, noisiest=noisiest)
