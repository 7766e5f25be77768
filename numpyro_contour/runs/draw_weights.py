"""The importance weights of a finished run."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer import MCMC

from numpyro_contour import checks
from numpyro_contour.runs.draw_temperatures import at_final_temperature
from numpyro_contour.runs.finished_run import has_full_data_weights, kernel_of
from numpyro_contour.runs.weights_over_all_rows import full_data_correction
from numpyro_contour.statistics.weights import NormalisedWeights, log_normalisers

_THETAS = ("online", "final")
# Where the last theta would change the logarithms of the weights by more than this, as a standard
# deviation over the draws of a chain, it was another theta that shaped the draws.
_MOST_CHANGE = 0.2


def weights_of_run(mcmc: MCMC, theta: str, energy: str | None) -> NormalisedWeights:
    """The normalised log weights of `weighted_samples`, and each chain's log normaliser.

    A chain whose moves were all refused has no weight, and a normaliser of -inf.
    """
    checks.one_of("theta", theta, _THETAS)
    if energy is not None:
        checks.one_of("energy", energy, ("estimate",))
    kernel_of(mcmc)
    found = _normalised(_log_weights(mcmc, theta, energy))
    if theta == "final":
        online = _normalised(_log_weights(mcmc, "online", energy))
        _refuse_drift(found.log_weights, online.log_weights)
    return found


def _normalised(log_weights: np.ndarray) -> NormalisedWeights:
    normalisers = log_normalisers(log_weights)
    shift = np.where(np.isfinite(normalisers), normalisers, 0.0)[:, None]
    return NormalisedWeights(log_weights - shift, normalisers)


def _log_weights(mcmc: MCMC, theta: str, energy: str | None) -> np.ndarray:
    fields = mcmc.get_extra_fields(group_by_chain=True)
    log_weight = np.asarray(fields["log_weight"], dtype=np.float64)
    if theta == "final" and mcmc.sampler.flattening is not None:
        log_weight = _by_final_theta(mcmc, fields)
    if energy is None and has_full_data_weights(mcmc):
        log_weight = log_weight + full_data_correction(mcmc, theta)
    final = at_final_temperature(mcmc)
    return log_weight if final is None else np.where(final, log_weight, -np.inf)


def _by_final_theta(mcmc: MCMC, fields: dict) -> np.ndarray:
    """Log weights by the last theta: those of the chosen draws corrected from the online one."""
    online = np.asarray(fields["log_weight"], dtype=np.float64)
    state = mcmc.last_state
    if mcmc.num_chains == 1:
        state = jax.tree.map(lambda x: jnp.asarray(x)[None], state)
    energies = jnp.asarray(fields["potential_energy_estimate"])
    final = np.asarray(jax.vmap(mcmc.sampler.log_flattening)(state, energies), dtype=np.float64)
    draw = np.asarray(fields["draw_log_weight"], dtype=np.float64)
    own = final + np.asarray(fields["log_time_weight"], dtype=np.float64)
    weighed = np.isfinite(draw)
    return np.where(weighed, online - np.where(weighed, draw, 0.0) + own, -np.inf)


def _refuse_drift(final: np.ndarray, online: np.ndarray) -> None:
    """Refuse the last theta where it is not the one that shaped the draws.

    Raises:
        ValueError: the weights would change by more than `_MOST_CHANGE`.
    """
    weighed = np.isfinite(online)
    change = np.where(weighed, final, 0.0) - np.where(weighed, online, 0.0)
    weights = np.exp(online)
    mean = np.mean(weights * change, axis=1, keepdims=True)
    sd = np.sqrt(np.mean(weights * (change - mean) ** 2, axis=1))
    if sd.max() > _MOST_CHANGE:
        raise ValueError(
            "`theta` takes 'final' only where theta has settled, but that of chain "
            f"{int(sd.argmax())} moved while draws were collected: the logarithms of their weights "
            f"would change by {sd.max():.2f} (standard deviation), at most {_MOST_CHANGE} is "
            "taken. Use 'online', which is always valid, or raise `num_warmup`."
        )
