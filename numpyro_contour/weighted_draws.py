"""The draws of a finished run and their importance weights."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer import MCMC

from numpyro_contour import checks
from numpyro_contour.draw_temperatures import at_final_temperature
from numpyro_contour.flat import by_chain, leaf_names
from numpyro_contour.full_energies import full_energies
from numpyro_contour.full_weights import anchor_fault, full_data_correction
from numpyro_contour.kernels.base import SGMCMCKernel
from numpyro_contour.kernels.contour_base import ContourKernel
from numpyro_contour.warmup_report import warmup_faults
from numpyro_contour.weights import NormalisedWeights, log_normalisers

_THETAS = ("online", "final")
# Below this share of draws at the final temperature a schedule has hardly ended.
_FEWEST_FINAL = 0.1
# Below this share of swaps a hot replica is of no use to its colder neighbour.
_FEWEST_SWAPS = 0.005


def weighted_samples(
    mcmc: MCMC, theta: str = "online", energy: str | None = None
) -> tuple[Any, np.ndarray]:
    r"""The draws of a run, grouped by chain, with their log importance weights.

    .. math:: E_\pi[f] \approx \frac{1}{C D} \sum_{c, d} w_{cd} f(x_{cd}),
              \qquad \frac1D \sum_d w_{cd} = 1

    Each chain's weights are normalised to mean 1 on their own: the constants of two chains with
    their own theta say nothing about each other.

    Args:
        mcmc: a `numpyro.infer.MCMC` with a kernel of this package, after `run`.
        theta: "online" (default) weighs a draw by the theta of its own time, which is always valid;
            "final" by the last theta, which is only fit once theta has settled.
        energy: None (default) weighs draws of a run on minibatches, or on a noisy potential, at
            their potential energy over all data, by :math:`E[\log\Psi(U + \sigma\xi)]` with
            :math:`\sigma` the noise at each draw: one pass over all data a draw, once for a run;
            "estimate" by the noisy energies that the run saw, which is biased. The same where
            energies are exact.

    Returns:
        `(samples, log_weights)`: the samples as `mcmc.get_samples(group_by_chain=True)` gives
        them, and an array (chains, draws). A weight is -inf where a move was refused, where a
        cycle explores, and where a schedule had not yet reached the temperature of the last draw.

    Raises:
        ValueError: the run has no weights, or an argument is unknown; the run's data are not those
            of its warm-up; or a noisy potential of the user's is not unbiased.

    Warns:
        UserWarning: fewer than a tenth of the draws were made at the final temperature; the
            warm-up failed, with the cause and what to change; the control variate is
            far noisier in some of the posterior than elsewhere; moves were refused or
            drifts clipped in more than 1 % of the steps of a chain (clipped in 5 % where the step
            size was tuned), or its multiplier was decided by `multiplier_bound` in more than 25 %;
            replicas made fewer than 0.5 % of the swaps they were offered.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import ContourSGLD, EnergyPartition, weighted_samples
        >>> kernel = ContourSGLD(potential_fn=lambda x: x**2 / 2, step_size=0.1,
        ...                      partition=EnergyPartition(0.0, 5.0, 10))
        >>> mcmc = MCMC(kernel, num_warmup=2000, num_samples=100, progress_bar=False)
        >>> mcmc.run(jax.random.key(0), init_params=jnp.array(0.0))
        >>> samples, log_weights = weighted_samples(mcmc)
        >>> samples.shape, log_weights.shape
        ((1, 100), (1, 100))
    """
    weights = weights_of_run(mcmc, theta, energy)
    return mcmc.get_samples(group_by_chain=True), weights.log_weights


def weights_of_run(mcmc: MCMC, theta: str, energy: str | None) -> NormalisedWeights:
    """The normalised log weights of `weighted_samples`, and each chain's log normaliser.

    A chain whose moves were all refused has no weight, and a normaliser of -inf.
    """
    checks.one_of("theta", theta, _THETAS)
    if energy is not None:
        checks.one_of("energy", energy, ("estimate",))
    kernel = kernel_of(mcmc)
    fields = mcmc.get_extra_fields(group_by_chain=True)
    if theta == "final":
        log_weight = _by_final_theta(mcmc, kernel, fields)
    else:
        log_weight = np.asarray(fields["log_weight"], dtype=np.float64)
    if energy is None and has_full_data_weights(mcmc):
        log_weight = log_weight + full_data_correction(mcmc, theta)
    final = at_final_temperature(mcmc)
    if final is not None:
        log_weight = np.where(final, log_weight, -np.inf)
        _warn_of_few(final)
    _warn_of_counters(mcmc)
    normalisers = log_normalisers(log_weight)
    shift = np.where(np.isfinite(normalisers), normalisers, 0.0)[:, None]
    normalised = NormalisedWeights(log_weight - shift, normalisers)
    if energy is None and kernel.has_control_variate(mcmc.last_state):
        _warn_of_anchor(mcmc, normalised.log_weights)
    return normalised


def _warn_of_few(final: np.ndarray) -> None:
    share = final.mean()
    if share < _FEWEST_FINAL:
        warn_user(
            f"Only {share:.1%} of the draws were made at the final temperature, and the others "
            "have no weight: let the schedule `temperature` end earlier, or raise `num_samples`."
        )


def _warn_of_anchor(mcmc: MCMC, log_weights: np.ndarray) -> None:
    if has_full_data_weights(mcmc):
        width = by_chain(mcmc.last_state.partition.width, 0).astype(np.float64)
        fault = anchor_fault(full_energies(mcmc).noise, log_weights, width)
        if fault is not None:
            warn_user(fault)


def kernel_of(mcmc: Any) -> SGMCMCKernel:
    """The kernel of a finished run.

    Raises:
        ValueError: `mcmc` is not an MCMC with a kernel of this package, or has not been run.
    """
    kernel = getattr(mcmc, "sampler", None)
    if not isinstance(kernel, SGMCMCKernel):
        raise ValueError(
            "`mcmc` takes a numpyro.infer.MCMC with a kernel of numpyro_contour, but got "
            f"{type(kernel or mcmc).__name__}."
        )
    if mcmc.last_state is None:
        raise ValueError("`mcmc` takes an MCMC after `run`, but it has not been run.")
    return kernel


def has_full_data_weights(mcmc: MCMC) -> bool:
    """Whether the weights of a run are those at its draws' potential energies over all data."""
    kernel = kernel_of(mcmc)
    if not isinstance(kernel, ContourKernel) or kernel.settings["weight"] != "consistent":
        return False  # no weights, or the paper's own
    return not kernel.has_exact_energy(mcmc._args, mcmc._kwargs)


def named_draws(samples: Any) -> dict[str, np.ndarray]:
    """Draws of a potential function may be any pytree: name its leaves after their places."""
    return {name: np.asarray(x) for name, x in zip(leaf_names(samples), jax.tree.leaves(samples))}


def _by_final_theta(mcmc: MCMC, kernel: SGMCMCKernel, fields: dict) -> np.ndarray:
    """Log weights by the last theta: those of the chosen draws corrected from the online one."""
    online = np.asarray(fields["log_weight"], dtype=np.float64)
    if not isinstance(kernel, ContourKernel):
        return online
    state = mcmc.last_state
    if mcmc.num_chains == 1:
        state = jax.tree.map(lambda x: jnp.asarray(x)[None], state)
    final = np.asarray(
        jax.vmap(kernel.log_flattening)(state, jnp.asarray(fields["potential_energy_estimate"])),
        dtype=np.float64,
    )
    draw = np.asarray(fields["draw_log_weight"], dtype=np.float64)
    own = final + np.asarray(fields["log_time_weight"], dtype=np.float64)
    weighed = np.isfinite(draw)
    return np.where(weighed, online - np.where(weighed, draw, 0.0) + own, -np.inf)


def _warn_of_counters(mcmc: MCMC) -> None:
    tuned = "tune" in mcmc.sampler.stage_names()
    sampler = mcmc.last_state.sampler
    steps = np.maximum(by_chain(sampler.chain.steps, 0), 1)
    # Refused moves and clipped drifts bias the draws. A bounded multiplier does not, since the
    # weights follow the same bounded Psi, but a large share means that little is flattened.
    counters = {
        "moves were refused because the potential energy or its gradient was not finite, or rose "
        "far above a partition found in warm-up": (
            sampler.chain.guard.refused,
            0.01,
            "check the data and the model for NaN, or lower `step_size`",
        ),
        "drifts were clipped to three standard deviations of the noise": (
            sampler.chain.guard.clipped,
            # A step size that was accepted as aimed is clipped where energies are high: measured on
            # the mixture, 1.1 % clipped and the same mode masses without the clip.
            0.05 if tuned else 0.01,
            "raise `num_warmup`, or give a smaller `step_size`" if tuned else "lower `step_size`",
        ),
    }
    if hasattr(sampler, "bounded"):
        counters["gradient multipliers were decided by `multiplier_bound`"] = (
            sampler.bounded,
            0.25,
            "theta has not settled: run longer, or check `partition`",
        )
    for fault in warmup_faults(mcmc) + _swap_faults(sampler):
        warn_user(fault)
    for what, (counter, tolerated, advice) in counters.items():
        share = by_chain(counter, 0) / steps
        if share.max() > tolerated:
            warn_user(
                f"{share.max():.1%} of the steps of chain {int(share.argmax())}: {what}; {advice}."
            )


def _swap_faults(sampler: Any) -> list[str]:
    """Neighbours in a ladder of temperatures that hardly exchange anything."""
    if not hasattr(sampler, "swap_attempts"):
        return []
    rates = by_chain(sampler.swap_rates, 1).mean(0)
    pair = int(rates.argmin())
    if rates[pair] >= _FEWEST_SWAPS:
        return []
    return [
        f"Replicas {pair} and {pair + 1} made {rates[pair]:.2%} of the swaps that they were "
        "offered: put a temperature between theirs in `temperatures`, or use larger minibatches "
        "where energies are noisy."
    ]


def warn_user(message: str) -> None:
    """A warning that points to the line outside this package that called it."""
    level = 2  # the line that calls this function
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals["__name__"].startswith("numpyro_contour."):
        frame = frame.f_back
        level += 1
    warnings.warn(message, stacklevel=level)
