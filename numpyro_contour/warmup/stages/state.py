"""The warm-up of one chain: its state, and what each draw adds to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from numpyro_contour.core.arrays.entries import tree_where
from numpyro_contour.core.flattening.energy_partition import EnergyPartition
from numpyro_contour.warmup.stages.dual_averaging import DualAveraging
from numpyro_contour.warmup.stages.energies import (
    Energies,
    Spread,
    no_energies,
    no_spread,
    record_energies,
    spread,
)
from numpyro_contour.warmup.stages.moments import DrawMoments, no_draw_moments, no_moments
from numpyro_contour.warmup.stages.plan import TUNE, Plan, Progress
from numpyro_contour.warmup.stages.tune import measure_noise, renew_step, with_walls_felt
from numpyro_contour.warmup.stages.tuning import Tuning, bearable_noise

# Energies with more noise than flattening can bear count only where there are no others: their log
# weights are so much lower.
_DISCOUNT = 50.0


#: what is kept of each stage: the step size, the mean acceptance statistic, mean and standard
#: deviation of the potential energy, weighted, and the partition at its end; energies in nats
COLUMNS = "step_size", "acceptance", "energy", "energy_sd", "lower", "upper"


class History(NamedTuple):
    """What each stage found; not a number where a stage does not look for it."""

    #: (columns, stages)
    table: jax.Array

    def __getattr__(self, name: str) -> jax.Array:
        """One of the columns, (stages,)."""
        if name not in COLUMNS:
            raise AttributeError(f"a history has the columns {COLUMNS}, but not {name!r}")
        return self.table[..., COLUMNS.index(name), :]

    def raised(self, rise: jax.Array) -> History:
        """The same with other energies to which all are differences, lower by `rise`."""
        return History(self.table.at[COLUMNS.index("energy")].add(rise))


class Warmup(NamedTuple):
    """The warm-up of one chain, kept in the kernel's state."""

    #: draws of the warm-up so far, and how many it takes
    iteration: jax.Array
    length: jax.Array
    #: how many of them NumPyro makes; the first of its draws makes the others
    given: jax.Array
    tuning: Tuning
    #: moments over the draws that are kept
    draw_moments: DrawMoments
    #: () once it is over
    energies: Energies
    #: where the energies lay in the pilot
    pilot: Spread
    #: the lowest low end of the energies of a stage, since the pilot
    low: jax.Array
    #: steps of the chain before theta was first updated
    gain_origin: jax.Array
    history: History
    #: a number that stands for the data of the run, 0 where it is not known
    data: jax.Array
    #: the chain whose place this one was given after a descent that led nowhere, -1 for none
    taken_from: jax.Array
    #: steps of the chain whose drift was clipped, up to the last draw of the kernel's sampler
    clipped: jax.Array
    #: draws of NumPyro's warm-up to come, where the host has made the warm-up: they change nothing
    #: but the number of steps of a draw;
    #: below 0 in its stages, and once draws are kept
    idle: jax.Array
    #: the anchors of the control variate, () where there are none
    anchors: Any = ()
    #: the modes that chains jump between, () where they do not
    modes: Any = ()
    #: the tries to jump since the warm-up, as `JumpCounts`; () where there are none
    jumps: Any = ()
    #: the steps of a draw, as `DrawLength`; () where they are given
    draw_length: Any = ()

    @property
    def is_over(self) -> bool:
        """Whether the host has made it, and what only it needs is gone."""
        return not self.energies


def initial_warmup(plan: Plan, tuning: Tuning, anchors: Any = ()) -> Warmup:
    """Before the first draw; `length`, `given` and `data` are set when they are known."""
    dtype = jnp.result_type(float)
    count = jnp.zeros((), jnp.int32)
    return Warmup(
        iteration=count,
        length=count,
        given=count,
        data=count,
        tuning=tuning,
        draw_moments=no_draw_moments(tuning.preconditioner.shape[-1]),
        energies=no_energies(),
        pilot=no_spread(),
        low=jnp.full((), jnp.inf, dtype),
        gain_origin=count,
        history=History(jnp.full((len(COLUMNS), len(plan.stages)), jnp.nan, dtype)),
        taken_from=jnp.full((), -1, jnp.int32),
        clipped=count,
        idle=count - 1,
        anchors=anchors,
    )


def without_descent(state: Any) -> Any:
    """The state of chains that do not descend, as they begin in modes."""
    descent: Any = ()
    tuning = state.warmup.tuning._replace(descent=descent)
    return state._replace(warmup=state.warmup._replace(tuning=tuning))


def without_scratch(warmup: Warmup) -> Warmup:
    """A warm-up that is over, without what only it needs."""
    frame = warmup.tuning.frame
    nothing: Any = ()
    if frame:
        frame = frame._replace(seen=nothing, swept=nothing)
    found = warmup.tuning.step_size.log_average
    step_size = DualAveraging(nothing, found, nothing, nothing, nothing)
    tuning = warmup.tuning._replace(
        step_size=step_size, limit=nothing, moments=nothing, descent=nothing, frame=frame
    )
    return warmup._replace(energies=nothing, pilot=nothing, low=nothing, tuning=tuning)


def progress(plan: Plan, warmup: Warmup) -> Progress:
    """Where in its plan a warm-up is, before its next draw."""
    return plan.progress(warmup.iteration, warmup.length)


def record(history: History, here: Progress, **found: jax.Array) -> History:
    """The history with what the stage found, if it ends."""
    table = history.table
    write = (jnp.arange(table.shape[-1]) == here.number) & here.ends
    for name, value in found.items():
        place = COLUMNS.index(name)
        table = table.at[place].set(jnp.where(write, value, table[place]))
    return History(table)


# ---------------------------------------------------------------------- draws of tuning steps


def end_tuning_draw(
    plan: Plan,
    warmup: Warmup,
    tuning: Tuning,
    temperature: jax.Array,
    steps: jax.Array,
    keep_preconditioner: bool,
    keep_step_size: bool,
    adjusted: bool = False,
) -> Warmup:
    """The warm-up after a draw of descent, tuning or settling.

    Args:
        plan: the plan.
        warmup: the warm-up before the draw.
        tuning: what is tuned, after the draw.
        temperature: tau.
        steps: steps of the chain so far.
        keep_preconditioner: whether the preconditioner was given.
        keep_step_size: whether the step size was given.
        adjusted: whether moves are accepted by Metropolis-Hastings. Defaults to False.
    """
    here = progress(plan, warmup)
    moments = tuning.moments
    count = jnp.maximum(moments.steps, 1)
    history = record(
        warmup.history,
        here,
        step_size=jnp.exp(tuning.step_size.log_average),
        acceptance=moments.acceptance / count,
        energy=moments.energy,
        energy_sd=jnp.sqrt(moments.energy_squares / count),
    )
    ended = end_tuning_stage(
        tuning,
        temperature,
        plan.flag("descends", here.number),
        plan.flag("searches", here.number),
        here.number == plan.last(TUNE),
        keep_preconditioner,
        keep_step_size,
        adjusted,
    )
    tuning = tree_where(here.ends, ended, tuning)
    return warmup._replace(tuning=tuning, gain_origin=steps, history=history)


def end_tuning_stage(
    tuning: Tuning,
    temperature: jax.Array,
    descended: jax.Array,
    searched: jax.Array,
    last: jax.Array,
    keep_preconditioner: bool,
    keep_step_size: bool,
    adjusted: bool = False,
) -> Tuning:
    """What is tuned after a stage of tuning steps, with sums for the next stage.

    Args:
        tuning: what is tuned.
        temperature: tau.
        descended: whether the stage was a descent.
        searched: whether it searched for the step size.
        last: whether it was the last one that did.
        keep_preconditioner: whether the preconditioner was given.
        keep_step_size: whether the step size was given.
        adjusted: whether moves are accepted by Metropolis-Hastings. Defaults to False.
    """
    moments = tuning.moments
    if adjusted:
        felt = with_walls_felt(tuning, moments, temperature)
        tuning, moments = tree_where(searched, felt, (tuning, moments))
    ended = measure_noise(tuning, moments)
    if not tuning.frame:  # else `with_frames_turned` needs them
        ended = ended._replace(moments=no_moments(tuning.preconditioner.shape[-1]))
    if keep_step_size:
        return ended
    return renew_step(ended, moments, temperature, descended, searched, last, keep_preconditioner)


# ------------------------------------------------------------------ draws of the kernel's sampler


class StageEnergies(NamedTuple):
    """What a draw of pilot, window or learning says of the energies."""

    #: where the draw stands in the plan
    here: Progress
    #: the energies since the stage began, if it ends with this draw; else nothing
    found: Spread
    #: whether theta begins when the stage ends: whether it is the pilot
    is_pilot: jax.Array
    #: whether the partition is to be renewed now
    renews: jax.Array


def record_draw(
    plan: Plan,
    warmup: Warmup,
    energies: jax.Array,
    log_weights: jax.Array,
    noise: jax.Array,
    log_psi: Callable[[jax.Array], jax.Array] | None = None,
) -> tuple[Warmup, StageEnergies]:
    """The warm-up with the energies of a draw of the kernel's sampler, and what they say.

    Args:
        plan: the plan.
        warmup: the warm-up so far.
        energies: potential energies of the draw's steps, (steps,).
        log_weights: their log importance weights.
        noise: the variances of their noise, 0 where it is not known.
        log_psi: log weights of energies by the last theta, in place of those of their own time:
            where theta has moved by many nats, these are those of a few steps. None (default) for
            their own.
    """
    here = progress(plan, warmup)
    per_draw = energies.shape[0]
    start = here.since == 0
    buffer = tree_where(start, no_energies(), warmup.energies)
    limit = bearable_noise(warmup.tuning.preconditioner.shape[-1])
    if log_psi is not None:
        log_weights = jnp.where(jnp.isfinite(log_weights), 0.0, -jnp.inf)
    log_weights = jnp.where(noise > limit, log_weights - _DISCOUNT, log_weights)
    buffer = record_energies(
        buffer, energies, log_weights, here.since * per_draw, here.total * per_draw
    )

    def ended(buffer: Energies) -> Spread:
        if log_psi is None:
            return spread(buffer)
        return spread(buffer._replace(log_weights=buffer.log_weights + log_psi(buffer.values)))

    found = lax.cond(here.ends, ended, lambda _: no_spread(), buffer)
    is_pilot = plan.flag("begins_theta", here.number)
    pilot = tree_where(is_pilot & here.ends, found, warmup.pilot)
    renews = here.ends & plan.flag("renews_partition", here.number)
    low = jnp.where(is_pilot, found.low, jnp.fmin(found.low, warmup.low))
    low = jnp.where(here.ends, low, warmup.low)
    seen = StageEnergies(here, found, is_pilot, renews)
    # The mean over the stage, where it is told: anchors may have come since it was measured.
    told, known = jnp.mean(noise), warmup.tuning.energy_noise
    mean = jnp.where(start, told, known + (told - known) / (here.since + 1))
    tuning = warmup.tuning._replace(energy_noise=jnp.where(told > 0, mean, known))
    return warmup._replace(energies=buffer, pilot=pilot, low=low, tuning=tuning), seen


def end_draw(
    warmup: Warmup, seen: StageEnergies, steps: jax.Array, partition: EnergyPartition | None
) -> Warmup:
    """The warm-up after the draw, with what its stage found.

    Args:
        warmup: the warm-up with the draw's energies.
        seen: what the draw says of them.
        steps: steps of the chain so far.
        partition: the chain's partition after the draw, None for kernels without one.
    """
    here, found = seen.here, seen.found
    history = record(warmup.history, here, energy=found.mean, energy_sd=found.sd)
    if partition is not None:
        history = record(history, here, lower=partition.lower, upper=partition.upper)
    history = record(history, here, step_size=jnp.exp(warmup.tuning.step_size.log_average))
    return warmup._replace(
        gain_origin=jnp.where(seen.is_pilot, steps, warmup.gain_origin), history=history
    )
