"""Draws that stand for a window of positions, by weighted reservoir sampling."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax, random

from numpyro_contour.samplers.base import PotentialAndGrad, Sampler

DRAWS = ("reservoir", "last")


class Window(NamedTuple):
    """A draw and the window of positions that it stands for."""

    #: the chosen position, as the sampler's `observe` describes it
    draw: Any
    #: log of the mean weight of the window's positions
    log_weight: jax.Array


def run_window(
    key: jax.Array,
    state: Any,
    potential_and_grad: PotentialAndGrad,
    sampler: Sampler,
    num_steps: int,
    draw: str,
) -> tuple[Any, Window]:
    r"""`num_steps` steps of a sampler, and the one draw that is handed out for them.

    With `draw="reservoir"` the draw is position i with probability :math:`w_i / \sum_j w_j`, chosen
    on the way with one uniform a step, and carries the log of the mean weight
    :math:`\frac1K \sum_j w_j`: weighted means stay consistent, every position counts, and the
    weights of the draws are nearly even. With "last" it is the last position with its own weight.

    Args:
        key: random key.
        state: state of the sampler.
        potential_and_grad: `(key, position) -> (potential energy, gradient)`.
        sampler: the sampler.
        num_steps: K, at least 1.
        draw: "reservoir" or "last".

    Returns:
        The state after the window, and the window.

    Source: Chao (1982) for weighted reservoir sampling.
    """
    if num_steps == 1:
        state = sampler.step(key, state, potential_and_grad)
        record = sampler.observe(state)
        return state, Window(record, record.log_weight)

    if draw == "last":

        def move(carry: tuple, _: None) -> tuple[tuple, None]:
            key, state = carry
            key, key_step = random.split(key)
            return (key, sampler.step(key_step, state, potential_and_grad)), None

        (_, state), _ = lax.scan(move, (key, state), length=num_steps)
        record = sampler.observe(state)
        return state, Window(record, record.log_weight)

    def move_and_offer(carry: tuple, _: None) -> tuple[tuple, None]:
        key, state, chosen, log_total = carry
        key, key_step, key_offer = random.split(key, 3)
        state = sampler.step(key_step, state, potential_and_grad)
        offered = sampler.observe(state)
        log_total = jnp.logaddexp(log_total, offered.log_weight)
        # False as long as no position has any weight: -inf - -inf is not a number.
        take = random.uniform(key_offer) < jnp.exp(offered.log_weight - log_total)
        chosen = jax.tree.map(lambda new, old: jnp.where(take, new, old), offered, chosen)
        return (key, state, chosen, log_total), None

    # The position before the window stays the draw only if every attempt is refused: no weight.
    before = sampler.observe(state)
    before = before._replace(log_weight=jnp.full_like(before.log_weight, -jnp.inf))
    (_, state, chosen, log_total), _ = lax.scan(
        move_and_offer, (key, state, before, before.log_weight), length=num_steps
    )
    return state, Window(chosen, log_total - jnp.log(num_steps))
