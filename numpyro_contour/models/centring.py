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
from numpyro_contour.models.jaxprs import depending
from numpyro_contour.models.kept_on_data import KeptOnData
from numpyro_contour.models.loc_scale import decentred_sites
from numpyro_contour.models.local_rows import number_of_devices
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.typical_positions import typical_positions

# Steps of the variational approximation, their first rate, and the first log standard deviations.
_STEPS = 1_500
_RATE = 0.03
_FIRST_LOG_SD = -2.0
# The share of the last steps over which variances are averaged.
_KEPT = 0.25
# Sites that are as good as centred stay as they are written.
_CENTRED = 0.9
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
    try:
        with jax.ensure_compile_time_eval():
            sites = _sites_with_latent_scales(potential)
            return _best(potential, sites) if sites else None
    except _ERRORS:
        return None


_kept = KeptOnData(_found)


def _sites_with_latent_scales(potential: ModelPotential) -> dict[str, tuple[int, ...]]:
    """Names and shapes of sites whose scale depends on other latent sites."""
    shapes: dict[str, tuple[int, ...]] = {}

    def scales(position: dict) -> dict[str, jax.Array]:
        found = loc_scale_sites(potential, position)
        shapes.update({name: jnp.shape(x) for name, (_, x) in found.items()})
        return {name: site.scale for name, (site, _) in found.items()}

    trace, shown = jax.make_jaxpr(scales, return_shape=True)(unconstrained_shapes(potential))
    depends = dict(zip(sorted(shown), depending(trace.jaxpr)))
    return {name: shapes[name] for name in shown if depends[name]}


def _best(potential: ModelPotential, sites: dict[str, tuple[int, ...]]) -> Centring | None:
    """The centrings at which the spread of the sites' coordinates does not follow their scales."""
    none = Centring({name: np.zeros(shape) for name, shape in sites.items()})
    written = replace(potential, model=decentred_sites(potential.model, none), known={})
    like, positions = typical_positions(written)
    mean, variance = _normal(written, like, positions)
    variances, place = unravel_like(variance, like), unravel_like(mean, like)
    known = loc_scale_sites(potential, centred(potential, Decentred(place, none)), sites)
    chosen = {}
    for name, shape in sites.items():
        c = np.clip(1 - np.asarray(variances[name] * known[name][0].information), 0, 1)
        c = np.round(known[name][0].possible(np.broadcast_to(c, shape)) * _PARTS) / _PARTS
        if np.isfinite(c).all() and c.min(initial=1) < _CENTRED:
            chosen[name] = c
    return Centring(chosen) if chosen else None


def _normal(
    potential: ModelPotential, like: Any, positions: np.ndarray
) -> tuple[jax.Array, jax.Array]:
    """The mean and the variances, (d,), of the independent normals that are nearest to a model.

    From the best of the positions, by stochastic gradients of the evidence lower bound.
    """
    real = jnp.result_type(float)
    at_rows = lambda key, x: potential.minibatch(key, unravel_like(x, like))
    starts = jnp.asarray(positions, real)
    energies = jax.jit(lambda x: lax.map(partial(at_rows, random.key(0)), x))(starts)
    start = starts[jnp.argmin(jnp.where(jnp.isfinite(energies), energies, jnp.inf))]
    optimizer = Adam(lambda step: _RATE * jnp.minimum(1.0, 2 * (1 - step / _STEPS)))

    def loss(normal: tuple, key: jax.Array) -> jax.Array:
        mean, log_sd = normal
        away = jnp.exp(log_sd) * random.normal(key, mean.shape, mean.dtype)
        return (at_rows(key, mean + away) + at_rows(key, mean - away)) / 2 - log_sd.sum()

    def step(number: Any, carry: tuple) -> tuple:
        state, total = carry
        key = random.fold_in(random.key(0), number)
        slope = jax.grad(loss)(optimizer.get_params(state), key)
        # A draw outside of what the model can compute moves nothing.
        finite = jnp.isfinite(ravel(slope)).all()
        state = optimizer.update(jax.tree.map(lambda x: jnp.where(finite, x, 0), slope), state)
        counted = number >= (1 - _KEPT) * _STEPS
        return state, total + counted * jnp.exp(2 * optimizer.get_params(state)[1])

    first = optimizer.init((start, jnp.full_like(start, _FIRST_LOG_SD)))
    state, total = jax.jit(
        lambda first: lax.fori_loop(0, _STEPS, step, (first, jnp.zeros_like(start)))
    )(first)
    return optimizer.get_params(state)[0], total / (_KEPT * _STEPS)
