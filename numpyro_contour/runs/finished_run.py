"""A finished run: all that is known of it afterwards, in one object.

Everything after a run is computed from a `FinishedRun`. No other file reads NumPyro's `MCMC`, and
no other file of the rooms above the kernels reads a kernel.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer import MCMC

from numpyro_contour.core.arrays.hosts import everywhere, is_here
from numpyro_contour.core.arrays.vectors import leaf_names
from numpyro_contour.energies.clusters import Clusters
from numpyro_contour.energies.source import Energies
from numpyro_contour.kernels import after_run
from numpyro_contour.kernels.kernel import Kernel
from numpyro_contour.kernels.mode_jumping import ModeJumping
from numpyro_contour.models.all_rows import FullData
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.nothing_to_sample import IDLE
from numpyro_contour.models.same_data import UNKNOWN, checksum
from numpyro_contour.modes.mode_list import ModeList
from numpyro_contour.schedules import Schedule
from numpyro_contour.warmup.stages.draw_length import steps_of
from numpyro_contour.warmup.stages.relaxation_times import RelaxationTimes
from numpyro_contour.warmup.stages.tuning_step import TARGET_ACCEPTANCE

#: the name of the weight among the draws of a model
WEIGHT_SITE = after_run.WEIGHT_SITE
# Draws whose theta is shaped at once.
_DRAWS_AT_ONCE = 1024


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A run of a kernel of this package; arrays have the chain as first axis."""

    kernel: Kernel
    #: arguments of the model
    model_args: tuple
    #: keyword arguments of the model
    model_kwargs: dict
    num_chains: int
    #: draws of the chain for each one that was kept
    thinning: int
    #: whether the user wants to see progress bars
    progress_bar: bool
    #: the last state of the kernel
    state: Any
    #: the draws, a pytree of arrays (chains, draws, ...)
    samples: Any
    #: what was collected with each draw, arrays (chains, draws, ...) by name
    fields: Mapping[str, Any]
    #: results that are computed once, by name or a tuple of what they depend on
    computed: dict[Hashable, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, mcmc: Any) -> FinishedRun:
        """The run of an `MCMC`.

        Raises:
            ValueError: `mcmc` is not an MCMC with a kernel of this package, or has not been run;
                or its model has nothing to sample.
        """
        require_kernel(mcmc)
        state = mcmc.last_state
        if state is None:
            raise ValueError("`mcmc` takes an MCMC after `run`, but it has not been run.")
        if isinstance(state.z, dict) and IDLE in state.z:
            raise ValueError(
                "`mcmc` takes a run with something to look at, but its model has no continuous "
                "latent variable, so nothing was sampled. `numpyro.infer.Predictive` runs the "
                "model, and `mcmc.get_samples()` has the values of its deterministic sites."
            )
        computed = computed_from(mcmc, state)
        samples, fields = (
            collected(group_by_chain=True)
            for collected in (mcmc.get_samples, mcmc.get_extra_fields)
        )
        if not all(map(is_here, jax.tree.leaves((state, samples, fields)))):
            if "gathered" not in computed:  # chains on other hosts are sent once
                computed["gathered"] = everywhere((state, samples, fields))
            state, samples, fields = computed["gathered"]
        data = mcmc._args, mcmc._kwargs  # NumPyro has no public name for these two
        return cls.of_draws(mcmc, data, state, samples, fields, computed)

    @classmethod
    def of_draws(
        cls,
        mcmc: MCMC,
        data: tuple[tuple, dict],
        state: Any,
        samples: Any,
        fields: Mapping[str, Any],
        computed: dict[Hashable, Any],
    ) -> FinishedRun:
        """Some draws of an `MCMC` as a run.

        Args:
            mcmc: the MCMC.
            data: arguments and keyword arguments of the model.
            state: the state after the last of the draws.
            samples: the draws, a pytree of arrays (chains, draws, ...).
            fields: what was collected with each draw, arrays (chains, draws, ...) by name.
            computed: results that are computed once.
        """
        kernel = require_kernel(mcmc)
        if isinstance(kernel, ModeJumping):
            # It is a kind of what this file defines.
            from numpyro_contour.runs.jumping_run import jumping_run

            return jumping_run(mcmc, kernel, data, state, samples, fields, computed)
        return cls(
            kernel=kernel,
            model_args=data[0],
            model_kwargs=data[1],
            num_chains=mcmc.num_chains,
            thinning=mcmc.thinning,
            progress_bar=mcmc.progress_bar,
            state=after_run.of_each_chain(state, mcmc.num_chains),
            samples=after_run.without_weight(samples, fields["log_weight"]),
            fields=fields,
            computed=computed,
        )

    # ------------------------------------------------------------------ draws

    @property
    def num_draws(self) -> int:
        """Draws of each chain that were kept."""
        return jnp.shape(self.fields["log_weight"])[1]

    @cached_property
    def like(self) -> Any:
        """One unconstrained position."""
        # In NumPy: it may be asked for first while a function is traced.
        return jax.tree.map(lambda x: np.asarray(x)[0], self.state.z)

    @cached_property
    def named_samples(self) -> dict[str, np.ndarray]:
        """The draws by name: the leaves of any other pytree are named after their places."""
        names = leaf_names(self.samples)
        return {n: np.asarray(x) for n, x in zip(names, jax.tree.leaves(self.samples))}

    def per_draw(self, name: str) -> np.ndarray:
        """A field that was collected with each draw, (chains, draws, ...)."""
        return np.asarray(self.fields[name])

    # ------------------------------------------------------------------ the kernel

    @property
    def kernel_name(self) -> str:
        """The name of the kernel's class."""
        return type(self.kernel).__name__

    @property
    def target_acceptance(self) -> float:
        """The mean acceptance that the warm-up aimed at."""
        aims_at = self.kernel.parts.moves.aims_at
        return TARGET_ACCEPTANCE if aims_at is None else aims_at

    @property
    def settings(self) -> dict[str, Any]:
        """The kernel's settings by the names of its arguments."""
        settings = self.kernel.settings
        most = self.kernel.parts.num_steps
        warmup = getattr(self.state, "warmup", ())
        return settings | {"num_steps": int(np.max(steps_of(most, warmup)))}

    @property
    def temperature(self) -> Schedule:
        """The temperature by the number of the step."""
        return self.settings["temperature"]

    @property
    def is_contour(self) -> bool:
        """Whether the kernel flattens the density by theta."""
        return self.kernel.parts.method.flattening is not None

    @property
    def model(self) -> Callable | None:
        """The model over all its rows, None for a run of a potential function."""
        return self.kernel.model

    # ------------------------------------------------------------------ energies

    @cached_property
    def energy_estimator(self) -> str | Callable:
        """What estimated the potential energy: "full", "minibatch", ... or the user's function."""
        return self.kernel.energy_estimator(self.model_args, self.model_kwargs)

    @property
    def has_exact_energies(self) -> bool:
        """Whether the potential energies that the run saw are exact."""
        return self.energy_estimator == "full"

    @cached_property
    def changes_after_training(self) -> bool:
        """Whether rows have other energies after training than in the steps."""
        return self.model is not None and self.potential(self.model_args, self.model_kwargs).asks

    @property
    def has_full_data_weights(self) -> bool:
        """Whether the weights are those at the draws' potential energies over all data."""
        weighs = self.is_contour and self.settings["weight"] == "consistent"  # not the paper's
        return weighs and not (self.has_exact_energies or self.changes_after_training)

    @property
    def anchors(self) -> Any:
        """The anchors of the control variate of each chain; () where there are none."""
        return getattr(getattr(self.state, "warmup", ()), "anchors", ())

    @cached_property
    def energy_offsets(self) -> np.ndarray:
        """What is added to the energies of the state for those of the model, in nats, (chains,)."""
        return self.anchors.reference.float64() if self.anchors else np.zeros(self.num_chains)

    def potential(self, model_args: tuple, model_kwargs: dict) -> ModelPotential:
        """The potential energy of the kernel's model on these arguments."""
        return self.kernel.model_potential(model_args, model_kwargs)

    def energies(self, model_args: tuple, model_kwargs: dict) -> Energies:
        """The potential energies of the run, or those of its model on other data."""
        return self.kernel.energies(self.like, model_args, model_kwargs)

    def clusters(self) -> Clusters | tuple[()]:
        """The clusters of the rows for an expansion in the data, () without one."""
        return self.energies(self.model_args, self.model_kwargs).expansions.clusters

    def full_data(self, model_args: tuple, model_kwargs: dict) -> FullData:
        """The model over all rows of these arguments, in chunks of bounded memory."""
        return self.energies(model_args, model_kwargs).full_data

    def exact_energy(self) -> Callable[[jax.Array], jax.Array]:
        """The exact potential energy of positions as vectors."""
        return self.energies(self.model_args, self.model_kwargs).at_vectors

    # ------------------------------------------------------------------ the flattening

    def log_flattening(self, energies: Any) -> np.ndarray:
        """Log weights of potential energies by each chain's last theta, (chains, draws)."""
        weigh = jax.vmap(partial(after_run.log_flattening, self.kernel))
        return np.asarray(weigh(self.state, jnp.asarray(energies)), dtype=np.float64)

    def log_psi_nodes(self, chain: int, log_theta: Any) -> np.ndarray:
        """Log Psi of a chain at the nodes of its bins, for each theta of (n, bins)."""
        state = jax.tree.map(lambda x: x[chain], self.state)
        begins = range(0, len(log_theta), _DRAWS_AT_ONCE)
        parts = [
            self._log_psi_nodes(state, log_theta[begin : begin + _DRAWS_AT_ONCE])
            for begin in begins
        ]
        return np.concatenate([np.asarray(part, np.float64) for part in parts])

    @cached_property
    def _log_psi_nodes(self) -> Callable:
        """From the state of a chain and its thetas, (n, bins): compiled once for all chains."""
        nodes = partial(after_run.log_psi_nodes, self.kernel)
        return jax.jit(jax.vmap(nodes, (None, 0)))

    @property
    def node_offset(self) -> float:
        """Distance from a bin's left edge to its node in bin widths."""
        return after_run.node_offset(self.kernel)

    # ------------------------------------------------------------------ the warm-up

    @property
    def stage_names(self) -> tuple[str, ...]:
        """The stages of the warm-up in their order; none where everything was given."""
        return self.kernel.stage_names()

    @property
    def began_on_other_data(self) -> bool:
        """Whether the run went on from the state of a run on other data, as far as is known."""
        began = int(np.ravel(self.state.warmup.data)[0])
        return UNKNOWN != began != checksum(self.model_args, self.model_kwargs) != UNKNOWN

    def relaxation_times(self) -> RelaxationTimes | None:
        """Relaxation times and the shares of noise in the steps, (chain, coordinate) each.

        None where the step size was given.
        """
        found = jax.vmap(partial(after_run.relaxation_times_of, self.kernel))(self.state)
        return None if found is None else RelaxationTimes(*[np.asarray(x, float) for x in found])

    @property
    def found_modes(self) -> Any:
        """The modes that the warm-up of each chain has found; () where chains cannot jump."""
        return getattr(getattr(self.state, "warmup", ()), "modes", ())

    @property
    def jumps(self) -> Any:
        """Jumps tried and made between these modes by each chain; () where it cannot jump."""
        return getattr(getattr(self.state, "warmup", ()), "jumps", ())

    @property
    def mode_list(self) -> ModeList | None:
        """The modes that were searched for before the run; None where chains find them."""
        return None

    def place_among(self, modes: Any, position: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The number of the mode that a position belongs to, and half |z|^2 in each."""
        return after_run.place_among(modes, position)

    def move_scales(self) -> Any:
        """L and the diagonal of D by chain, whose moves are preconditioned by L D L'.

        None where moves are accepted by Metropolis-Hastings, or follow the gradients by "rmsprop".
        """
        return jax.vmap(partial(after_run.move_scales_of, self.kernel))(self.state)

    def stable_below(self, step_size: np.ndarray) -> np.ndarray:
        """The product of step size and curvature from which on moves are unstable."""
        return np.asarray(self.kernel.parts.moves.stable_below(step_size), np.float64)


def require_kernel(mcmc: Any) -> Kernel | ModeJumping:
    """The kernel of an `MCMC`.

    Raises:
        ValueError: `mcmc` is not an MCMC with a kernel of this package.
    """
    kernel = getattr(mcmc, "sampler", None)
    if not isinstance(kernel, Kernel | ModeJumping):
        raise ValueError(
            "`mcmc` takes a numpyro.infer.MCMC with a kernel of numpyro_contour, but got "
            f"{type(kernel or mcmc).__name__}."
        )
    return kernel


def hand_over(mcmc: MCMC, args: tuple, kwargs: dict, state: Any, by_chain: Any, flat: Any) -> None:
    """Make a run that was made elsewhere the last one of an `MCMC`.

    Args:
        mcmc: the MCMC.
        args: arguments of the model.
        kwargs: its keyword arguments.
        state: the last state.
        by_chain: what was collected by field, (chains, draws, ...), the draws among them.
        flat: the same, (chains x draws, ...).
    """
    # NumPyro has no public names for these.
    mcmc._args, mcmc._kwargs, mcmc._last_state = args, kwargs, state
    mcmc._states, mcmc._states_flat = by_chain, flat


def is_mcmc(data: Any) -> bool:
    """Whether this is an `MCMC` and not what `to_inference_data` returns."""
    return isinstance(data, MCMC)


_computed: weakref.WeakKeyDictionary[MCMC, tuple[Any, dict[Hashable, Any]]]
_computed = weakref.WeakKeyDictionary()


def computed_from(mcmc: MCMC, state: Any) -> dict[Hashable, Any]:
    """The results computed once from the last run of an `MCMC`; empty after another run."""
    known = _computed.get(mcmc)
    if known is None or known[0] is not state:
        known = _computed[mcmc] = (state, {})
    return known[1]
