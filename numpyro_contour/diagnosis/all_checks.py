"""All checks in their order, and the report that they make."""

from __future__ import annotations

from collections.abc import Callable

import xarray as xr

from numpyro_contour.diagnosis import (
    chain_checks,
    flattening_checks,
    ladder_checks,
    mixing_checks,
    mode_checks,
    mode_masses,
    noise_checks,
    step_checks,
    warmup_checks,
    weight_checks,
)
from numpyro_contour.diagnosis.causes import explained
from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.diagnosis.report import Report, Verdict

Check = Callable[[Evidence], list[Verdict]]

#: what the run itself has counted, without its draws
PROCESS_CHECKS: tuple[Check, ...] = (
    step_checks.final_temperature,
    noise_checks.anchors,
    warmup_checks.warmup,
    step_checks.guard,
    step_checks.multiplier_bound,
    step_checks.swaps,
)

#: all checks, causes before their consequences
CHECKS: tuple[Check, ...] = (
    weight_checks.record,
    step_checks.final_temperature,
    step_checks.gradient,
    noise_checks.anchors,
    noise_checks.energy_noise,
    warmup_checks.warmup,
    mode_checks.unseen_modes,
    step_checks.multiplier,
    step_checks.guard,
    step_checks.divergences,
    step_checks.curvature,
    flattening_checks.partition,
    step_checks.multiplier_bound,
    mixing_checks.length,
    step_checks.equipartition,
    flattening_checks.against_draws,
    flattening_checks.drift,
    mixing_checks.trips,
    chain_checks.agreement,
    chain_checks.spreads,
    mode_checks.crossings,
    mode_masses.modes,
    mode_checks.modes_by_chain,
    mode_masses.jumps,
    mode_masses.by_bridges,
    flattening_checks.spread,
    weight_checks.by_bin,
    weight_checks.weights,
    mixing_checks.effective,
    step_checks.swaps,
    ladder_checks.ladder,
    ladder_checks.window,
    weight_checks.flatness,
)


def report_of(groups: dict[str, xr.Dataset], checks: tuple[Check, ...] = CHECKS) -> Report:
    """The report on the groups of a run."""
    evidence = Evidence(groups)
    chains, draws = evidence.log_weights.shape
    kernel = evidence.settings.get("kernel", "a run")
    title = f"{kernel}, {chains} {'chain' if chains == 1 else 'chains'} of {draws:,} draws"
    verdicts = [v for check in checks for v in check(evidence)]
    return Report(title, tuple(explained(verdicts, evidence)))
