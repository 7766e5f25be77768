"""The draws of a finished run, their importance weights, and the chains that count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpyro.infer import MCMC

from numpyro_contour import checks
from numpyro_contour.checks import warn_user
from numpyro_contour.diagnosis.all_checks import PROCESS_CHECKS, report_of
from numpyro_contour.diagnosis.report import Report, verdict
from numpyro_contour.runs.draw_weights import weights_of_run
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.runs.groups import run_groups


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
            "final" by the last theta, a window's weight times :math:`(\Psi_\text{final} /
            \Psi_k)^\zeta` at its draw, which is only fit once theta has settled.
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
            of its warm-up; a noisy potential of the user's is not unbiased; or
            `theta="final"` would change the logarithms of a chain's weights by more than 0.2
            (standard deviation).

    Warns:
        UserWarning: fewer than a tenth of the draws were made at the final temperature; the
            warm-up failed, with the cause and what to change; the control variate is
            far noisier in some of the posterior than elsewhere; while draws were
            collected moves were refused in more than 1 % of the steps of a chain, drifts clipped in
            more than 2 % (5 % where the step size was tuned), or its multiplier was decided by
            `multiplier_bound` in more than 25 %, above typical energies;
            replicas made fewer than 0.5 % of the swaps they were offered.

    Source: Deng, Lin and Liang (2020), Theorem 2, for one chain and piecewise weights.

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
    run = FinishedRun.of(mcmc)
    weights = weights_of_run(run, theta, energy)
    groups = run_groups(run, weights, energy, collect_theta=False)
    for fault in report_of(groups, PROCESS_CHECKS).faults:
        warn_user(fault.text)
    return run.samples, weights.log_weights


#: numbers of chains, or one number
Chains = int | Sequence[int]


def without_weight(log_weights: np.ndarray) -> np.ndarray:
    """Which chains have no draw with any weight, (chains,)."""
    return ~np.isfinite(log_weights).any(1)


def chosen_places(
    log_weights: np.ndarray, chains: Chains | None, numbers: np.ndarray | None = None
) -> np.ndarray:
    """The places of the chains that are counted.

    Args:
        log_weights: log importance weights, (chains, draws).
        chains: the numbers of the chains. None for all that have any weight.
        numbers: the numbers of all chains. None (default) for 0, 1, ...

    Raises:
        ValueError: there is no such chain, or none of them has any weight.

    Warns:
        UserWarning: a chain without any weight is left out.
    """
    dead = without_weight(log_weights)
    numbers = np.arange(len(dead)) if numbers is None else numbers
    asked = np.ones(len(dead), bool)
    if chains is not None:
        named = np.atleast_1d(np.asarray(chains))
        if not named.size or not np.isin(named, numbers).all():
            raise checks.fail("chains", chains, f"None or some of the chains {numbers.tolist()}")
        asked = np.isin(numbers, named)
    why = "every move was refused, or made while a cycle explored"
    if not (asked & ~dead).any():
        if np.isnan(log_weights).any():
            raise checks.fail("log_weights", "NaN", "numbers, or minus infinity for a weight of 0")
        raise ValueError(f"{_named(numbers[asked])}: {why}.")
    if (asked & dead).any():
        warn_user(
            f"{_named(numbers[asked & dead])}: {why}. The others are counted; give their numbers "
            "as `chains` to say that this is meant."
        )
    return np.flatnonzero(asked & ~dead)


def chosen(groups: dict[str, xr.Dataset], chains: Chains | None) -> dict[str, xr.Dataset]:
    """The groups with the chains that are counted, as `chosen_places`."""
    numbers = groups["posterior"]["chain"].values
    kept = chosen_places(_log_weights(groups), chains, numbers)
    return groups if len(kept) == len(numbers) else _with_chains(groups, kept)


def report_on(groups: dict[str, xr.Dataset]) -> Report:
    """The report on a run; where chains have no weight, on the others, with them named first."""
    numbers = groups["posterior"]["chain"].values
    dead = without_weight(_log_weights(groups))
    if dead.all() or not dead.any():
        return report_of(groups)
    rest = report_of(_with_chains(groups, np.flatnonzero(~dead)))
    advice = (
        "Every move was refused, or made while a cycle explored: check the model around the "
        "start, and `init_strategy`. All that follows is about the others."
    )
    named = verdict("dead chains", dead.sum(), 0, True, f"{_named(numbers[dead])}.", advice)
    return Report(report_of(groups, ()).title, (named, *rest.verdicts))


def _named(numbers: np.ndarray) -> str:
    names = ", ".join(map(str, numbers))
    return f"No draw of chain{'' if len(numbers) == 1 else 's'} {names} has any weight"


def _log_weights(groups: dict[str, xr.Dataset]) -> np.ndarray:
    return groups["sample_stats"]["log_weight"].transpose("chain", "draw").values


def _with_chains(groups: dict[str, xr.Dataset], places: np.ndarray) -> dict[str, Any]:
    """The groups with these chains; draws from the prior are of no chain."""
    return {
        name: group.isel(chain=places)
        if "chain" in group.dims and not name.startswith("prior")
        else group
        for name, group in groups.items()
    }
