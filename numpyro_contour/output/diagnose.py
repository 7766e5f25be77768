"""The report on a run, for users."""

from __future__ import annotations

from typing import Any

from numpyro_contour.diagnosis.report import Report
from numpyro_contour.output.groups_of_run import groups_of, report_of_run
from numpyro_contour.output.resample import groups_of_run
from numpyro_contour.output.weighted_samples import report_on
from numpyro_contour.runs.finished_run import FinishedRun, is_mcmc


def diagnose(data: Any) -> Report:
    r"""Whether a run can be trusted, and if not, what is wrong and what to change.

    Every check has a verdict, good, bad or not checked, with its figure, its limit and, where it is
    bad, the argument to change. Causes come before their consequences: mend the first fault first.

    Chains without any weight are named first, and the other checks are made on the rest.

    No figure can tell of a mode that no chain has found. What was crossed is told by `round trips`;
    chains that start in several places and agree are the best evidence there is.

    Args:
        data: what `to_inference_data` returns, also when read again from a file; an `MCMC` with a
            kernel of this package; or the folder of a stored run.

    Returns:
        A `Report`: its `repr` is text, in notebooks it is a table, `faults` are the bad verdicts,
        `untold` the checks that matter and could not be made, as with one chain, `trusted` says
        whether there are none of both, and `to_dict()` is for programs.

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
          ok  gradient: Along lines between draws the potential energy changes as ...
          ok  energy noise: Potential energies were exact.
          ok  warm-up: 300 draws found what they were to find.
        ...
        >>> report["chains"].figure < 1.1
        True
    """
    if is_mcmc(data):
        run = FinishedRun.of(data)
        return report_of_run(run, groups_of(run))
    return report_on(groups_of_run(data))
