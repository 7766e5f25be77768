r"""A check of the draws against the gradient of the potential energy, whatever made them.

Where draws are of the density :math:`\propto e^{-U/\tau}`, the mean of
:math:`(x_i - \mu_i)\, \partial U / \partial x_i` is :math:`\tau` for each unconstrained coordinate:
the theorem of equipartition, an identity of Stein. Steps that are too large, gradients that are too
noisy and weights that do not belong to the drift move it: for a Gaussian it is the draws' variance
over the true one.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import xarray as xr
from jax import lax
from numpyro.distributions import biject_to
from numpyro.infer import MCMC

from numpyro_contour.diagnostics import mcse_of_mean
from numpyro_contour.draw_temperatures import draw_temperatures
from numpyro_contour.flat import coordinate_names, ravel
from numpyro_contour.minibatch import ModelPotential
from numpyro_contour.on_data import JittedOnData

# Gradients over all data of so many draws, and of fewer where that takes more than so many rows.
_DRAWS = 2000
_ROWS = 100_000_000
# With fewer draws nothing could be told.
_FEWEST = 100
# Of more coordinates than this, so many evenly spaced ones are looked at.
_COORDINATES = 200
# Draws at once where a pass over all rows is not cut into pieces.
_AT_ONCE = 8


def equipartition(mcmc: MCMC, log_weights: np.ndarray) -> xr.Dataset | None:
    r"""Of each unconstrained coordinate the mean of :math:`(x_i - \mu_i) \partial_i U / \tau`.

    Args:
        mcmc: a finished run.
        log_weights: the log weights of its draws, (chains, draws).

    Returns:
        The variables `ratio`, 1 where draws are right, and `mcse`, its standard error, both
        (coordinate,), and the same of the mean over coordinates, `mean_ratio` and `mean_mcse`. None
        where there are too few draws, no temperature, or so many rows that gradients over all of
        them would take long.
    """
    tau = _temperature(mcmc)
    chains, draws = log_weights.shape
    at_most = min(_DRAWS, _ROWS // _rows(mcmc)) // chains
    kept = np.linspace(0, draws - 1, min(draws, max(at_most, 1))).round().astype(int)
    if tau <= 0 or kept.size * chains < _FEWEST:
        return None
    names = coordinate_names(_like(mcmc))
    chosen = np.linspace(0, len(names) - 1, min(len(names), _COORDINATES)).round().astype(int)
    x, gradient = _gradients(mcmc, kept, chosen)
    usable = np.isfinite(x).all(-1) & np.isfinite(gradient).all(-1)
    weights = np.where(usable, np.exp(log_weights[:, kept]), 0.0)
    if weights.sum(1).min() <= 0:
        return None
    weights /= weights.mean(1, keepdims=True)
    x, gradient = (np.where(usable[..., None], values, 0.0) for values in (x, gradient))
    mean = (weights[..., None] * x).mean((0, 1))
    products = (x - mean) * gradient / tau
    found = [_mean(products[..., i], weights) for i in range(len(chosen))]
    ratio, mcse = np.transpose(found)
    mean_ratio, mean_mcse = _mean(products.mean(-1), weights)
    return xr.Dataset(
        {"ratio": (("coordinate",), ratio), "mcse": (("coordinate",), mcse)}
        | {"mean_ratio": mean_ratio, "mean_mcse": mean_mcse},
        {"coordinate": [names[i] for i in chosen]},
    )


def _mean(values: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    mcse = mcse_of_mean(values, weights) if values.shape[1] >= 4 else np.nan
    return float((weights * values).mean()), float(mcse)


def _temperature(mcmc: MCMC) -> float:
    """That of the draws that have weight."""
    temperatures = draw_temperatures(mcmc)
    if temperatures is not None:
        return float(temperatures[1][0, -1])
    return mcmc.sampler.settings["temperature"].value


def _like(mcmc: MCMC) -> Any:
    z = mcmc.last_state.z
    return z if mcmc.num_chains == 1 else jax.tree.map(lambda leaf: leaf[0], z)


def _rows(mcmc: MCMC) -> int:
    if mcmc.sampler.model is None:
        return 1
    return max(1, mcmc.sampler.full_data(mcmc._args, mcmc._kwargs, _like(mcmc)).size)


def _gradients(mcmc: MCMC, kept: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Chosen coordinates of kept draws and of the gradients there, (chains, kept, chosen) each."""
    kernel, like = mcmc.sampler, _like(mcmc)
    draws = mcmc.get_extra_fields(group_by_chain=True).get("unconstrained")
    flat_already = draws is not None and np.shape(draws)[-1] > 0
    if not flat_already:
        draws = mcmc.get_samples(group_by_chain=True)
    draws = jax.tree.map(lambda leaf: jnp.asarray(leaf)[:, kept], draws)

    def at(draw: Any, args: tuple, kwargs: dict) -> tuple[jax.Array, jax.Array]:
        if kernel.model is None:
            flat = ravel(draw)
            gradient = jax.grad(kernel.exact_energy(args, kwargs, like))(flat)
        else:
            full_data = kernel.full_data(args, kwargs, like)
            potential = full_data.potential
            flat = draw if flat_already else ravel(unconstrained(potential, draw, like))
            gradient = full_data.energy_and_gradient(flat)[1]
        return flat[chosen], gradient[chosen]

    def of_all(draws: Any, _: None, args: tuple, kwargs: dict) -> Any:
        at_once = 1 if kernel.model is not None and _rows(mcmc) > 1 else _AT_ONCE
        flattened = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), draws)
        return lax.map(lambda draw: at(draw, args, kwargs), flattened, batch_size=at_once)

    found = JittedOnData(of_all)(draws, None, mcmc._args, mcmc._kwargs)
    shape = (-1, kept.size, chosen.size)
    x, gradient = (np.asarray(values, np.float64).reshape(shape) for values in found)
    return x, gradient


def unconstrained(potential: ModelPotential, values: dict, like: dict) -> dict[str, jax.Array]:
    """The inverse of `minibatch.constrained`, of the latent sites."""
    model = potential.rows(potential.plates.first_rows())
    latent = {name: values[name] for name in like}
    substituted = numpyro.handlers.substitute(model, data=latent)
    sites = numpyro.handlers.trace(substituted).get_trace(
        *potential.model_args, **potential.model_kwargs
    )
    return {name: biject_to(sites[name]["fn"].support).inv(x) for name, x in latent.items()}
