"""The report on a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import xarray as xr

from numpyro_contour.diagnosis import (
    mixing_checks,
    noise_checks,
    partition_checks,
    step_checks,
    theta_checks,
    warmup_checks,
    weight_checks,
)
from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.diagnosis.report import Report, Verdict

Check = Callable[[Evidence], list[Verdict]]

#: what the run itself has counted, without its draws
PROCESS_CHECKS: tuple[Check, ...] = (
    step_checks.final_temperature,
    warmup_checks.warmup,
    step_checks.guard,
    noise_checks.anchors,
    step_checks.multiplier_bound,
    step_checks.swaps,
)

#: all checks, causes before their consequences
CHECKS: tuple[Check, ...] = (
    step_checks.final_temperature,
    warmup_checks.warmup,
    step_checks.guard,
    noise_checks.energy_noise,
    noise_checks.anchors,
    partition_checks.partition,
    step_checks.multiplier_bound,
    mixing_checks.length,
    step_checks.equipartition,
    theta_checks.theta,
    mixing_checks.trips,
    mixing_checks.agreement,
    weight_checks.weights,
    step_checks.swaps,
    weight_checks.flatness,
)


def report_of(groups: dict[str, xr.Dataset], checks: tuple[Check, ...] = CHECKS) -> Report:
    """The report on the groups of a run."""
    evidence = Evidence(groups)
    chains, draws = evidence.log_weights.shape
    kernel = evidence.settings.get("kernel", "a run")
    title = f"{kernel}, {chains} {'chain' if chains == 1 else 'chains'} of {draws:,} draws"
    return Report(title, tuple(v for check in checks for v in check(evidence)))


def diagnose(data: Any) -> Report:
    r"""Whether a run can be trusted, and if not, what is wrong and what to change.

    Every check has a verdict, good, bad or not checked, with its figure, its limit and, where it is
    bad, the argument to change. Causes come before their consequences: mend the first fault first.

    No figure can tell of a mode that no chain has found. What was crossed is told by `round trips`;
    chains that start in several places and agree are the best evidence there is.

    Args:
        data: what `to_inference_data` returns, also when read again from a file; or an `MCMC` with
            a kernel of this package.

    Returns:
        A `Report`: its `repr` is text, in notebooks it is a table, `faults` are the bad verdicts,
        `trusted` says whether there are none, and `to_dict()` is for programs.

    Raises:
        ValueError: there are no weights.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import ContourSGLD, diagnose
        >>> kernel = ContourSGLD(potential_fn=lambda x: x @ x / 2, num_steps=20)
        >>> mcmc = MCMC(kernel, num_warmup=300, num_samples=500, num_chains=4,
        ...             chain_method="vectorized", progress_bar=False)
        >>> mcmc.run(jax.random.key(0), init_params=jnp.ones((4, 2)))
        >>> report = diagnose(mcmc)
        >>> print(report)  # doctest: +ELLIPSIS
        ContourSGLD, 4 chains of 500 draws
        No fault was found.
        <BLANKLINE>
          ok  warm-up: 300 draws found what they were to find.
        ...
        >>> report["chains"].figure < 1.1
        True
    """
    # Not at the head: the outputs report on themselves.
    from numpyro_contour.resampling import weighted_groups

    return report_of(weighted_groups(data))
