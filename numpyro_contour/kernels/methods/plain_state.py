"""The public state of kernels without theta."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from numpyro_contour import checks
from numpyro_contour.core.arrays.vectors import unravel_like


def no_such_field(state: Any, name: str) -> ValueError:
    """The error for a field of a state that does not exist, to be raised by the caller.

    NumPyro asks for `extra_fields` as for entries of a dictionary where no attribute has the name.
    """
    if name.startswith("~"):
        field = "weighted_draw" if hasattr(type(state), "weighted_draw") else "z"
        return ValueError(
            f"`extra_fields` got {name!r}. A site is left out of these draws by '~{field}.' and "
            "its name."
        )
    known = [n for n in dir(type(state)) if not n.startswith("_") and n not in dir(tuple)]
    return ValueError(
        f"`extra_fields` takes fields of the state, but got {name!r}."
        f"{checks.nearest(name, known)} There are {', '.join(known)}."
    )


class SGLDState(NamedTuple):
    """State of a kernel without theta."""

    #: the draw, unconstrained
    z: Any
    #: potential energy of the draw as the chain saw it, in nats
    potential_energy_estimate: jax.Array
    #: log weight of the draw and its window; 0 unless the guard reduced steps or a cycle explores
    log_weight: jax.Array
    #: log weight of the draw alone
    draw_log_weight: jax.Array
    #: step size of the step that left the draw
    step_size: jax.Array
    #: state of the pure sampler, where the chain is and the guard's counts
    sampler: Any
    #: random key of the next draw
    rng_key: jax.Array
    #: what the warm-up has found, as the group `warmup` of `to_inference_data` has it; () where
    #: everything is given
    warmup: Any = ()

    def __getitem__(self, place: Any) -> Any:
        """A field by its place; names of fields that do not exist are refused."""
        if isinstance(place, str):
            raise no_such_field(self, place)
        return tuple.__getitem__(self, place)

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


class ReplicaExchangeState(SGLDState):
    """State of the replica exchange kernels: an `SGLDState`, whose draws are the coldest's."""

    @property
    def swap_rates(self) -> jax.Array:
        """Share of the swaps offered to each pair of neighbours that was made, (R - 1,)."""
        return self.sampler.swap_rates

    @property
    def energy_variance(self) -> jax.Array:
        """Estimated variance of the noise of each replica's energies, (R,)."""
        return self.sampler.energy_variance

    @property
    def round_trips(self) -> jax.Array:
        """Trips of all replicas from the coldest temperature to the hottest and back, so far."""
        return self.sampler.walkers.round_trips.sum(-1)

    @property
    def communication_barrier(self) -> jax.Array:
        """The sum of the rejection rates 1 - `swap_rates` of all pairs."""
        return self.sampler.communication_barrier


def middle(x: Any, form: str) -> str:
    """The number of a chain, or the median of several.

    Args:
        x: the number, or numbers (chains,).
        form: how it is written, for instance ".1f".
    """
    return format(float(np.median(x)), form)


def spread(x: Any, form: str) -> str:
    """As `middle`, with the lowest and the highest of several.

    Args:
        x: the number, or numbers (chains,).
        form: how it is written, for instance ".1f".
    """
    if not np.ndim(x):
        return middle(x, form)
    x = np.asarray(x)
    return f"{middle(x, form)} ({x.min():{form}} to {x.max():{form}})"
