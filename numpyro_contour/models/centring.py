r"""How much the sites of a hierarchy are best centred, found before a run begins.

Where data say little of an effect, its spread follows a scale that is unknown too: a funnel, in
which no step is right everywhere. Where they say much, the funnel is in the other coordinates. In
between, the spread of

.. math:: z = c\,\mu + \sigma^{c - 1}\,(x - \mu), \qquad
          c = 1 - \frac{\operatorname{Var}(x \mid \mu, \sigma, y)}{\sigma^2}

hardly changes with the scale. For a normal with :math:`\operatorname{Var}^{-1} = \sigma^{-2} + I`
the variance of z is :math:`\sigma^{2 c} / (1 + \sigma^2 I)`, which has its top there
(Papaspiliopoulos, Roberts and Sköld 2007).
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from numpyro.optim import Adam

from numpyro_contour.core.arrays.decentred import Centring, Decentred
from numpyro_contour.core.arrays.vectors import ravel, unravel_like
from numpyro_contour.models.coordinates import centred, loc_scale_sites, unconstrained_shapes
from numpyro_contour.models.disk.on_disk import stored_of
from numpyro_contour.models.jaxprs import sources
from numpyro_contour.models.jit_on_data import is_tracing
from numpyro_contour.models.kept_on_data import KeptOnData
from numpyro_contour.models.loc_scale import decentred_sites
from numpyro_contour.models.local_rows import number_of_devices
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.typical_positions import descents

# Steps of the variational approximation, their first rate, and the first log standard deviations.
_STEPS = 2_000
_RATE = 0.1
_FIRST_LOG_SD = -2.0
# Descents before it, from uniform starts between -2 and 2.
_STARTS, _ITERATIONS = 4, 500
# The share of the last steps over which variances are averaged.
_KEPT = 0.25
# Sites that are as good as centred stay as they are written.
_CENTRED = 0.9
# Sites of which data say as little are not centred at all. In other coordinates the density has no
# bound where the scale goes to 0, and descents end there, far below all draws.
_NOT_CENTRED = 0.25
# Centrings are rounded to these, so that rounding errors do not make other programs.
_PARTS = 32
# What a model may raise that cannot be written in other coordinates.
_ERRORS = (TypeError, ValueError, NotImplementedError, IndexError, RuntimeError, AssertionError)


def centring_of(potential: ModelPotential) -> Centring | None:
    """How much a model's sites are best centred; None where they are as they should be.

    Sites are normal, log-normal, Student's t, Cauchy, Laplace, logistic or multivariate normal, or
    Gaussian random walks, with a scale that depends on other latent sites. It is found once for a
    model and its data, and never while JAX traces around the data.

    Args:
        potential: the potential energy of a model. With sites that are summed out, with modules
            that have a state, and with rows on disk or on several devices, there is none.
    """
    leaves = jax.tree.leaves((potential.model_args, potential.model_kwargs))
    arrays = [leaf for leaf in leaves if isinstance(leaf, jax.Array)]
    known = not any(isinstance(leaf, jax.core.Tracer) for leaf in arrays)
    if potential.first_available_dim is not None or potential.has_state or not known:
        return None
    if stored_of(leaves) or any(number_of_devices(leaf) > 1 for leaf in arrays):
        return None
    return _kept(potential)


def _found(potential: ModelPotential) -> Centring | None:
    # In no trace the operations of a program are compiled together, not each by itself.
    try:
        with jax.ensure_compile_time_eval() if is_tracing() else nullcontext():
            sites, scales = _hierarchy(potential)
            return _best(potential, sites, scales) if sites else None
    except _ERRORS:
        return None


_kept = KeptOnData(_found)


def _hierarchy(potential: ModelPotential) -> tuple[dict[str, np.ndarray], set[str]]:
    """Sites whose scales depend on latent sites, half centred, and the names of these."""
    half: dict[str, np.ndarray] = {}

    def scales(position: dict) -> dict[str, jax.Array]:
        found = loc_scale_sites(potential, position)
        half.update(
            {n: site.possible(np.full(jnp.shape(x), 0.5)) for n, (site, x) in found.items()}
        )
        return {name: site.scale for name, (site, _) in found.items()}

    like = unconstrained_shapes(potential)
    trace, shown = jax.make_jaxpr(scales, return_shape=True)(like)
    above = {name: found for name, found in zip(sorted(shown), sources(trace.jaxpr)) if found}
    return {name: half[name] for name in above}, {
        sorted(like)[i] for found in above.values() for i in found
    }


def _best(
    potential: ModelPotential, half: dict[str, np.ndarray], scales: set[str]
) -> Centring | None:
    """The centrings at which the spread of the sites' coordinates does not follow their scales."""
    # In these coordinates neither much nor little data ties the sites to their scales.
    first = Centring(half)
    written = replace(potential, model=decentred_sites(potential.model, first), known={})
    shapes = unconstrained_shapes(written)
    like = {name: jnp.zeros(x.shape, x.dtype) for name, x in shapes.items()}
    held = np.asarray(ravel({name: jnp.full(x.shape, name in scales) for name, x in like.items()}))
    starts = np.random.default_rng(0).uniform(-2, 2, (_STARTS, len(held)))
    # Wide scales let all else be fitted. Free, they would grow without end, and z shrink.
    starts = np.where(held, np.abs(starts), starts)
    found = descents(written, like, starts, _ITERATIONS, held)
    if not found:
        return None
    mean, variance = _normal(written, like, min(found, key=lambda descent: descent.energy).end)
    variances, place = unravel_like(variance, like), unravel_like(mean, like)
    known = loc_scale_sites(potential, centred(potential, Decentred(place, first)), half)
    chosen = {}
    for name, (site, x) in known.items():
        left = np.asarray(site.share_of_prior(half[name], variances[name]))
        c = site.possible(np.broadcast_to(np.clip(1 - left, 0, 1), jnp.shape(x)))
        little = c.sum() < _NOT_CENTRED * c.size  # False where c is not finite
        c = np.zeros_like(c) if little else np.round(c * _PARTS) / _PARTS
        if np.isfinite(c).all() and c.min(initial=1) < _CENTRED:
            chosen[name] = c
    return Centring(chosen) if chosen else None


def _normal(potential: ModelPotential, like: Any, start: np.ndarray) -> tuple[jax.Array, jax.Array]:
    """The mean and the variances, (d,), of the independent normals that are nearest to a model.

    By stochastic gradients of the evidence lower bound, from a mean.
    """
    first = jnp.asarray(start, jnp.result_type(float))
    at_rows = lambda key, x: potential.minibatch(key, unravel_like(x, like))
    optimizer = Adam(lambda step: _RATE * jnp.minimum(1.0, 2 * (1 - step / _STEPS)))

    def loss(normal: tuple, key: jax.Array) -> jax.Array:
        mean, log_sd = normal
        away = jnp.exp(log_sd) * random.normal(key, mean.shape, mean.dtype)
        pair = jnp.stack([mean + away, mean - away])
        return jax.vmap(partial(at_rows, key))(pair).mean() - log_sd.sum()

    def step(number: Any, carry: tuple) -> tuple:
        state, total = carry
        key = random.fold_in(random.key(0), number)
        slope = jax.grad(loss)(optimizer.get_params(state), key)
        # A draw outside of what the model can compute moves nothing.
        finite = jnp.isfinite(ravel(slope)).all()
        state = optimizer.update(jax.tree.map(lambda x: jnp.where(finite, x, 0), slope), state)
        counted = number >= (1 - _KEPT) * _STEPS
        return state, total + counted * jnp.exp(2 * optimizer.get_params(state)[1])

    begun = optimizer.init((first, jnp.full_like(first, _FIRST_LOG_SD))), jnp.zeros_like(first)
    state, total = jax.jit(lambda carry: lax.fori_loop(0, _STEPS, step, carry))(begun)
    return optimizer.get_params(state)[0], total / (_KEPT * _STEPS)
