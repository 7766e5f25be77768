"""What `ModeJumping` does after a draw of the inner kernel: tries to jump, and what they teach."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, random
from numpyro.util import is_prng_key

from numpyro_contour.kernels.inner_kernels import Inner
from numpyro_contour.kernels.mode_jumping_state import Jumping, ModeJumpingState
from numpyro_contour.modes.learning import learnt, no_lessons, pooled_covariance, with_draws
from numpyro_contour.modes.moves import Here
from numpyro_contour.modes.tries import jumped

# Makes a key of tries out of that of the inner kernel, which goes on as without them.
_OF_TRIES = 0x6A756D70


def after_tries(
    inner: Inner,
    before: Any,
    finds_tries: bool,
    state: ModeJumpingState,
    args: tuple,
    kwargs: dict,
) -> ModeJumpingState:
    """The chains after their tries to jump, and the plan after what the warm-up learns from them.

    Args:
        inner: the inner kernel.
        before: its state before the draw.
        finds_tries: whether the number of tries is found in the warm-up.
        state: the state after the draw, of one chain or of all.
        args: arguments of the model.
        kwargs: its keyword arguments.
    """
    plan, lessons, length = state.jumping
    single = is_prng_key(state.rng_key)
    lift = (lambda f: f) if single else jax.vmap
    like = state.z if single else jax.tree.map(lambda x: x[0], state.z)
    energies = inner.source.on(inner.source.potential(args, kwargs), like).everywhere
    in_warmup = jnp.ravel(lift(partial(inner.in_warmup, length=length))(state.inner))[0]
    tries = plan.tries
    if not inner.jumps_in_warmup:
        tries = jnp.where(in_warmup, 0, tries)

    def of_chain(chain: Any, mode: jax.Array, counts: Any) -> tuple:
        key = random.fold_in(chain.rng_key, _OF_TRIES)
        how, start = plan._replace(tries=tries), inner.point(chain)
        point, mode, more, taught = jumped(key, how, partial(energies, key), start, mode)
        counts = jax.tree.map(jnp.add, counts, more)
        moved = inner.moved(chain, point)
        if not inner.jumps_in_warmup:  # the draw is not where the chain is
            mode = Here.of(plan.modes, inner.draw(moved)).mode
        return moved, point.position, mode, counts, taught

    chains, positions, mode, counts, taught = lift(of_chain)(state.inner, state.mode, state.counts)
    # Those of the warm-up say how to jump, those of kept draws how the chains got about.
    counts = jax.tree.map(lambda n: jnp.where(in_warmup, 0, n), counts)
    after = state._replace(inner=chains, mode=mode, counts=counts)
    if not inner.jumps_in_warmup:
        return after
    seen = positions, mode, lift(inner.gradients)(chains), taught
    if single:
        seen = jax.tree.map(lambda x: x[None], seen)
    window, last = (jnp.ravel(lift(inner.window)(x))[0] for x in (chains, before))
    # In the first window chains go to where they belong, and the last one finds the step size.
    goes_on = jnp.ravel(lift(partial(inner.in_warmup, length=length - 1))(state.inner))[0]
    ended = (window != last) & (last > 0) & goes_on

    def teach(carry: tuple) -> tuple:
        chains, plan, lessons = carry
        lessons = with_draws(lessons, plan, *seen)
        return lax.cond(ended, end, lambda x: x, (chains, plan, lessons))

    def end(carry: tuple) -> tuple:
        chains, plan, lessons = carry
        plan = learnt(plan, lessons, finds_tries)
        covariance = partial(pooled_covariance, plan.modes)
        return inner.with_metric(chains, covariance), plan, no_lessons(plan.modes)

    carry = chains, plan, lessons
    chains, plan, lessons = lax.cond(in_warmup, teach, lambda x: x, carry)
    return after._replace(inner=chains, jumping=Jumping(plan, lessons, length))
