"""The warm-up of one chain: its stages one after the other, and what each of them found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from numpyro_contour.adaptation.energies import (
    BIN_WIDTH,
    Energies,
    Spread,
    carry_over,
    fitting_partition,
    no_energies,
    no_spread,
    remember,
    spread,
)
from numpyro_contour.adaptation.plan import Plan
from numpyro_contour.adaptation.tuning import Tuning, end_of_stage
from numpyro_contour.core.flattening.energy_partition import EnergyPartition
from numpyro_contour.core.flattening.theta import ThetaState, initial_theta

#: The spread of energies that a window finds counts within these factors of the pilot's.
SD_RANGE = (0.3, 3.0)


class History(NamedTuple):
    """What each stage found, (stages,); not a number where a stage does not look for it."""

    step_size: jax.Array
    #: mean acceptance statistic
    acceptance: jax.Array
    #: mean potential energy and its standard deviation, weighted, in nats
    energy: jax.Array
    energy_sd: jax.Array
    #: the partition at the end of the stage, in nats
    lower: jax.Array
    upper: jax.Array


class Warmup(NamedTuple):
    """Warm-up of one chain, kept in the kernel's state."""

    #: draws so far, and how many the warm-up takes
    iteration: jax.Array
    length: jax.Array
    tuning: Tuning
    energies: Energies
    #: standard deviation of the energy in the pilot
    pilot_sd: jax.Array
    #: steps of the chain before theta was first updated
    gain_origin: jax.Array
    history: History
    #: the point to which energies are differences, () where they are not
    anchor: Any = ()


def initial_warmup(plan: Plan, tuning: Tuning, anchor: Any = ()) -> Warmup:
    """Before the first draw; `length` is set when it is known."""
    dtype = jnp.result_type(float)
    count = jnp.zeros((), jnp.int32)
    blank = jnp.full((len(plan.stages),), jnp.nan, dtype)
    return Warmup(
        iteration=count,
        length=count,
        tuning=tuning,
        energies=no_energies(),
        pilot_sd=jnp.zeros((), dtype),
        gain_origin=count,
        history=History(*([blank] * len(History._fields))),
        anchor=anchor,
    )


class Place(NamedTuple):
    """Where in its plan a warm-up is."""

    #: number of the stage
    number: jax.Array
    #: draws since the stage began, and draws that it takes
    since: jax.Array
    total: jax.Array
    #: whether the draw that is being made ends the stage
    ends: jax.Array


def place(plan: Plan, warmup: Warmup) -> Place:
    """Where in its plan a warm-up is, before its next draw."""
    bounds = plan.bounds(warmup.length)
    number = plan.number(warmup.iteration, warmup.length)
    starts = jnp.concatenate([jnp.zeros((1,), jnp.int32), bounds])
    start = starts[number]
    end = bounds[jnp.minimum(number, len(plan.stages) - 1)]
    return Place(number, warmup.iteration - start, end - start, warmup.iteration + 1 == end)


def record(history: History, here: Place, **found: jax.Array) -> History:
    """Note what the stage found, if it ends."""
    row = jnp.arange(history.step_size.shape[-1]) == here.number
    write = row & here.ends
    return history._replace(
        **{name: jnp.where(write, value, getattr(history, name)) for name, value in found.items()}
    )


def after_tuning(
    plan: Plan,
    warmup: Warmup,
    tuning: Tuning,
    temperature: jax.Array,
    steps: jax.Array,
    keep_preconditioner: bool,
    keep_step_size: bool,
) -> Warmup:
    """The warm-up after a draw of descent or tuning, `steps` steps of the chain in all."""
    here = place(plan, warmup)
    last_tune = max((i for i, s in enumerate(plan.stages) if s == "tune"), default=-1)
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
    ended = end_of_stage(
        tuning,
        temperature,
        plan.is_one_of(here.number, "descent"),
        plan.is_one_of(here.number, "tune"),
        plan.is_one_of(here.number, "settle"),
        here.number == last_tune,
        keep_preconditioner,
        keep_step_size,
    )
    tuning = jax.tree.map(lambda a, b: jnp.where(here.ends, a, b), ended, tuning)
    return warmup._replace(
        iteration=warmup.iteration + 1, tuning=tuning, gain_origin=steps, history=history
    )


class Observed(NamedTuple):
    """A draw of pilot, window or learning: where it stands, and what ended with it."""

    here: Place
    #: of the energies since the stage began, if it ends; else nothing
    found: Spread
    #: whether the stage is the pilot
    is_pilot: jax.Array
    #: whether the partition is to be renewed now
    renews: jax.Array


def observed(
    plan: Plan,
    warmup: Warmup,
    energies: jax.Array,
    log_weights: jax.Array,
    log_psi: Callable[[jax.Array], jax.Array] | None = None,
) -> tuple[Warmup, Observed]:
    """The warm-up with the energies of a draw of pilot, window or learning, and what they say.

    Args:
        plan: the plan.
        warmup: the warm-up so far.
        energies: potential energies of the draw's steps, (steps,).
        log_weights: their log importance weights.
        log_psi: log weights of energies by the last theta, in place of those of their own time:
            where theta has moved by many nats, these are those of a few steps. None (default) for
            their own.
    """
    here = place(plan, warmup)
    per_draw = energies.shape[0]
    fresh = no_energies()
    start = here.since == 0
    buffer = jax.tree.map(lambda a, b: jnp.where(start, a, b), fresh, warmup.energies)
    buffer = remember(buffer, energies, log_weights, here.since * per_draw, here.total * per_draw)

    def ended(buffer: Energies) -> Spread:
        if log_psi is None:
            return spread(buffer)
        weights = jnp.where(jnp.isfinite(buffer.log_weights), log_psi(buffer.values), -jnp.inf)
        return spread(buffer._replace(log_weights=weights))

    found = lax.cond(here.ends, ended, lambda _: no_spread(), buffer)
    is_pilot = plan.is_one_of(here.number, "pilot")
    pilot_sd = jnp.where(is_pilot & here.ends, found.sd, warmup.pilot_sd)
    renews = here.ends & plan.is_one_of(here.number, "pilot", "window")
    seen = Observed(here, found, is_pilot, renews)
    return warmup._replace(energies=buffer, pilot_sd=pilot_sd), seen


def noted(
    warmup: Warmup, seen: Observed, steps: jax.Array, partition: EnergyPartition | None
) -> Warmup:
    """The warm-up after the draw, with what its stage found.

    Args:
        warmup: the warm-up, `observed`.
        seen: what the draw said.
        steps: steps of the chain so far.
        partition: the chain's partition after the draw, None for kernels without one.
    """
    here, found = seen.here, seen.found
    history = record(warmup.history, here, energy=found.mean, energy_sd=found.sd)
    if partition is not None:
        history = record(history, here, lower=partition.lower, upper=partition.upper)
    history = record(history, here, step_size=jnp.exp(warmup.tuning.step_size.log_average))
    return warmup._replace(
        iteration=warmup.iteration + 1,
        gain_origin=jnp.where(seen.is_pilot, steps, warmup.gain_origin),
        history=history,
    )


def renewed(
    warmup: Warmup,
    seen: Observed,
    partition: EnergyPartition,
    theta: ThetaState,
    bin_width: float = BIN_WIDTH,
) -> tuple[EnergyPartition, ThetaState]:
    """The partition that is found at the end of pilot or window, and theta on it.

    Args:
        warmup: the warm-up, `observed`.
        seen: what the draw said.
        partition: the chain's partition.
        theta: its theta.
        bin_width: width of the bins, in standard deviations of the energy.
    """
    found, num_bins = seen.found, partition.num_bins
    sd = jnp.clip(found.sd, SD_RANGE[0] * warmup.pilot_sd, SD_RANGE[1] * warmup.pilot_sd)
    new = fitting_partition(found.low, sd, num_bins, bin_width)
    # The lower edge never rises: what lies below the partition is not flattened.
    lower = jnp.where(seen.is_pilot, new.lower, jnp.minimum(new.lower, partition.lower))
    new = EnergyPartition.tree_unflatten(num_bins, (lower, lower + (new.upper - new.lower)))
    blank = initial_theta(num_bins)
    log_theta = carry_over(theta.log_theta, partition, new)
    carried = blank._replace(log_theta=jnp.where(seen.is_pilot, blank.log_theta, log_theta))
    usable = jnp.isfinite(new.lower) & (sd > 0)
    return jax.tree.map(
        lambda a, b: jnp.where(seen.renews & usable, a, b), (new, carried), (partition, theta)
    )
