"""The noise of gradients where the control variate has come to another order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, random

from numpyro_contour.core.arrays.factors import slope
from numpyro_contour.core.arrays.vectors import ravel
from numpyro_contour.models.estimators.anchors import Anchors

# Minibatches by which the noise is compared, at the place of each chain.
_COMPARED = 8


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
    keys = jax.vmap(lambda key: random.split(random.fold_in(key, 2), _COMPARED))(state.rng_key)

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
