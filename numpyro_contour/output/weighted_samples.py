"""The draws of a finished run and their importance weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpyro.infer import MCMC

from numpyro_contour.checks import warn_user
from numpyro_contour.diagnosis.all_checks import PROCESS_CHECKS, report_of
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
