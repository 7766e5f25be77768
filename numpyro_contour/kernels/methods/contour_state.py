"""The public state of contour kernels.

The log weight of a draw is a row among its sites in NumPyro's own table. That table, and all that
takes `mcmc.get_samples()`, know nothing of weights: the row says that the others are not the
posterior's.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from numpyro_contour.core.arrays.decentred import in_coordinates_of
from numpyro_contour.core.arrays.vectors import unravel_like
from numpyro_contour.core.flattening.energy_partition import EnergyPartition
from numpyro_contour.core.flattening.psi import (
    Flattening,
    log_flattening,
    log_psi,
)
from numpyro_contour.core.samplers.climbing import ClimbingState
from numpyro_contour.core.samplers.contour import ContourSamplerState
from numpyro_contour.core.samplers.window import Window
from numpyro_contour.kernels.methods.method import Carried
from numpyro_contour.kernels.methods.plain_state import middle, no_such_field, spread


class ContourState(NamedTuple):
    """State of a contour kernel."""

    #: the draw, unconstrained
    z: Any
    #: potential energy of the draw as the chain saw it, in nats; with a control variate all of the
    #: state's energies are differences to that of the first of `warmup.anchors`
    potential_energy_estimate: jax.Array
    #: log importance weight of the draw and its window, not normalised
    log_weight: jax.Array
    #: log importance weight of the draw alone
    draw_log_weight: jax.Array
    #: the part of it that is time, 0 unless the guard reduced the step
    log_time_weight: jax.Array
    #: bin of the draw's potential energy, from 0
    energy_bin: jax.Array
    #: gradient multiplier at the draw
    gradient_multiplier: jax.Array
    #: step size of the step that left the draw
    step_size: jax.Array
    #: lowest potential energy of the positions that the draw stands for, in nats
    lowest_energy: jax.Array
    #: highest potential energy of the positions that the draw stands for, in nats
    highest_energy: jax.Array
    #: state of the pure sampler, where the chain is, theta, the partition and all counts
    sampler: ContourSamplerState | ClimbingState
    #: random key of the next draw
    rng_key: jax.Array
    #: the draw as one vector, (d,), where its energy is to be computed over all data; else (0,)
    unconstrained: jax.Array
    #: what the warm-up has found, as the group `warmup` of `to_inference_data` has it; () where
    #: everything is given
    warmup: Any = ()

    def __getitem__(self, place: Any) -> Any:
        """A field by its place; names of fields that do not exist are refused."""
        if isinstance(place, str):
            raise no_such_field(self, place)
        return tuple.__getitem__(self, place)

    @property
    def weighted_draw(self) -> Any:
        """The draw as it is collected where draws have weights."""
        return with_weight(self.z, self.log_weight)

    @property
    def position(self) -> Any:
        """Where the chain is; equal to `z` unless the draw stands for a window."""
        return unravel_like(self.sampler.chain.position, self.z)

    @property
    def steps(self) -> jax.Array:
        """Steps attempted since the start."""
        return self.sampler.chain.steps

    @property
    def refused(self) -> jax.Array:
        """How many of them were refused."""
        return self.sampler.chain.guard.refused

    @property
    def clipped(self) -> jax.Array:
        """In how many of them the drift was clipped."""
        return self.sampler.chain.guard.clipped

    @property
    def moved(self) -> jax.Array:
        """How many steps of the sampler a Metropolis-Hastings test accepted, where there is one."""
        return self.sampler.chain.memory.moved

    @property
    def bounded(self) -> jax.Array:
        """In how many of them `multiplier_bound` decided the gradient multiplier."""
        return self.sampler.bounded

    @property
    def log_normaliser(self) -> jax.Array:
        """Log of the normaliser that is a factor of the draw's weights, 0 where theta stands."""
        if isinstance(self.sampler, ClimbingState):
            return jnp.zeros_like(self.log_weight)
        return self.sampler.log_normaliser

    @property
    def log_theta(self) -> jax.Array:
        """Log of the estimated probability of each energy bin, (num_bins,)."""
        return self.sampler.theta.log_theta - self.sampler.theta.decay[..., None]

    @property
    def partition(self) -> EnergyPartition:
        """The chain's energy partition."""
        return self.sampler.partition


def contour_fields(collect_theta: bool) -> tuple[str, ...]:
    """The fields that are collected for each draw."""
    fields = (
        "weighted_draw",
        "potential_energy_estimate",
        "log_weight",
        "draw_log_weight",
        "log_time_weight",
        "log_normaliser",
        "energy_bin",
        "gradient_multiplier",
        "step_size",
        "lowest_energy",
        "highest_energy",
        "steps",
        "refused",
        "clipped",
        "bounded",
        "unconstrained",
    )
    return (*fields, "log_theta") if collect_theta else fields


def contour_state(z: Any, window: Window, carried: Carried) -> ContourState:
    """The public state around a window of steps."""
    return ContourState(
        z=z,
        potential_energy_estimate=window.draw.potential_energy,
        log_weight=window.log_weight,
        draw_log_weight=window.draw.log_weight,
        log_time_weight=window.draw.log_time_weight,
        energy_bin=window.draw.energy_bin,
        gradient_multiplier=window.draw.gradient_multiplier,
        step_size=window.draw.step_size,
        lowest_energy=window.lowest_energy,
        highest_energy=window.highest_energy,
        **carried._asdict(),
    )


def contour_progress_text(state: ContourState) -> str:
    """The text of the progress bar, of one chain or of all that run together."""
    visited = np.mean(np.asarray(state.sampler.theta.bin_counts) > 0)
    return (
        f"energy {spread(state.potential_energy_estimate, '.1f')}, "
        f"step size {middle(state.step_size, '.1e')}, "
        f"multiplier {middle(state.gradient_multiplier, '.2f')}, "
        f"bins visited {visited:.0%}"
    )


def log_flattening_at(
    state: ContourState,
    energy: jax.Array,
    temperature: jax.Array,
    flattening: Flattening,
    weight: str = "consistent",
) -> jax.Array:
    """The log weights of potential energies by the theta of one chain.

    Args:
        state: the state of one chain.
        energy: potential energies in nats, (n,).
        temperature: tau.
        flattening: zeta and the shape of Psi.
        weight: "consistent" (default) or "piecewise".

    Returns:
        Log weights, (n,), up to a constant of the chain.
    """
    sampler = state.sampler

    def weigh(u: jax.Array) -> jax.Array:
        psi = log_psi(sampler.theta.log_theta, u, sampler.partition, temperature, flattening)
        energy_bin = sampler.partition.index(u)
        return log_flattening(sampler.theta, psi, energy_bin, flattening, weight)

    return jax.vmap(weigh)(energy)


NAME = "log_weight"


def with_weight(z: Any, log_weight: jax.Array) -> Any:
    """The draw, with its log weight beside its sites where it is a dictionary without one."""
    if not isinstance(z, dict) or NAME in z:
        return z
    return in_coordinates_of(z, {**z, NAME: log_weight})


def of_sites(constrain: Callable[[dict], dict], latent: Container[str], z: dict) -> dict:
    """Constrained values of a draw, with its log weight unless a site has that name.

    Args:
        constrain: from unconstrained values of the latent sites to the values of all sites.
        latent: the names of the latent sites.
        z: the draw as it was collected.
    """
    weight = {name: z[name] for name in z if name == NAME and name not in latent}
    sites = {name: x for name, x in z.items() if name not in weight}
    return {**weight, **constrain(in_coordinates_of(z, sites))}
