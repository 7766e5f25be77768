"""A finished run of `ModeJumping`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer import MCMC

from numpyro_contour.energies.source import Energies
from numpyro_contour.kernels import after_run
from numpyro_contour.kernels.kernel import Kernel
from numpyro_contour.kernels.mode_jumping import ModeJumping
from numpyro_contour.models.all_rows import FullData
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.modes.mode_list import ModeList
from numpyro_contour.modes.mode_shapes import ModeShapes, standardised
from numpyro_contour.modes.moves import Here
from numpyro_contour.modes.tries import Counts
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.schedules import Constant, Schedule
from numpyro_contour.warmup.stages.relaxation_times import RelaxationTimes


class _Position(NamedTuple):
    """What is asked for of the state of a kernel of NumPyro's."""

    #: the last draw of each chain, unconstrained
    z: Any


@dataclass(frozen=True, eq=False, kw_only=True)
class JumpingRun(FinishedRun):
    """A run of `ModeJumping` around a kernel of NumPyro's; draws have equal weights."""

    #: the kernel of the run
    jumping: ModeJumping
    #: its last state, with an axis of chains where it has one
    last: Any

    # ------------------------------------------------------------------ modes

    @cached_property
    def mode_list(self) -> ModeList | None:
        """The modes that were known before the run; None in another process than the run's."""
        return self.jumping.modes_of(*self.model_args, **self.model_kwargs)

    @property
    def shapes(self) -> ModeShapes | None:
        """The modes as the first chain has learnt them; None where fewer than two are known."""
        if not self.last.jumping:
            return None
        shapes = self.last.jumping.plan.modes
        # Chains that run together have theirs in common, without an axis of chains.
        apart = np.ndim(shapes.mean) == 3
        return jax.tree.map(lambda x: np.asarray(x)[0] if apart else np.asarray(x), shapes)

    @property
    def counts(self) -> Counts | None:
        """Tries and jumps of each chain; None where fewer than two modes are known."""
        if not self.last.counts:
            return None
        single = np.ndim(self.last.counts.tried) == 2
        return jax.tree.map(
            lambda x: np.asarray(x)[None] if single else np.asarray(x), self.last.counts
        )

    @property
    def jumps(self) -> Any:
        """Jumps tried and made between modes by each chain; () where it cannot jump."""
        counts = self.counts
        if counts is None:
            return ()
        others = ~np.eye(counts.tried.shape[-1], dtype=bool)
        return counts.tried * others, counts.made * others

    def place_among(self, modes: Any, position: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The number of the mode that a position belongs to, and half |z|^2 in each."""
        shapes = jax.tree.map(jnp.asarray, self.shapes)
        return Here.of(shapes, position).mode, 0.5 * jnp.sum(
            standardised(shapes, position) ** 2, -1
        )

    # ------------------------------------------------------------------ the kernel

    @property
    def kernel_name(self) -> str:
        """The name of the kernel, with that of the one inside."""
        return f"ModeJumping({type(self.jumping.inner_kernel).__name__})"

    @property
    def settings(self) -> dict[str, Any]:
        """The settings by the names of arguments."""
        own = {"temperature": self.temperature, "adjusted": True}
        return self.jumping.settings | own | {"num_steps": 1}

    @property
    def temperature(self) -> Schedule:
        """It is 1."""
        return Constant(1.0)

    @property
    def is_contour(self) -> bool:
        """The density is not flattened."""
        return False

    @property
    def model(self) -> Callable | None:
        """The model, None for a run of a potential function."""
        return self.jumping.model

    # ------------------------------------------------------------------ energies

    @property
    def energy_estimator(self) -> str:
        """Energies are exact."""
        return "full"

    @property
    def changes_after_training(self) -> bool:
        """The model is what it was in the run."""
        return False

    @property
    def anchors(self) -> Any:
        """There is no control variate."""
        return ()

    def potential(self, model_args: tuple, model_kwargs: dict) -> ModelPotential:
        """The potential energy of the model on these arguments."""
        return self.jumping.source.model_potential(model_args, model_kwargs)

    def energies(self, model_args: tuple, model_kwargs: dict) -> Energies:
        """The potential energies of the run, or those of its model on other data."""
        source = self.jumping.source
        return source.on(source.potential(model_args, model_kwargs), self.like)

    def full_data(self, model_args: tuple, model_kwargs: dict) -> FullData:
        """The model over all rows of these arguments, in chunks of bounded memory."""
        return self.energies(model_args, model_kwargs).full_data

    def exact_energy(self) -> Callable[[jax.Array], jax.Array]:
        """The exact potential energy of positions as vectors."""
        return self.energies(self.model_args, self.model_kwargs).at_vectors

    # ------------------------------------------------------------------ the warm-up

    @property
    def stage_names(self) -> tuple[str, ...]:
        """The warm-up is that of the inner kernel, and has no stages."""
        return ()

    @property
    def began_on_other_data(self) -> bool:
        """Nothing is known of it."""
        return False

    def relaxation_times(self) -> RelaxationTimes | None:
        """They are not known."""
        return None

    def move_scales(self) -> Any:
        """Moves are accepted by Metropolis-Hastings: None."""
        return None


class OursJumpingRun(JumpingRun):
    """A run of `ModeJumping` around an adjusted kernel of this package."""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings by the names of arguments."""
        return self.jumping.settings

    temperature = FinishedRun.temperature
    anchors = FinishedRun.anchors
    stage_names = FinishedRun.stage_names
    relaxation_times = FinishedRun.relaxation_times
    move_scales = FinishedRun.move_scales


def jumping_run(
    mcmc: MCMC,
    jumping: ModeJumping,
    data: tuple[tuple, dict],
    state: Any,
    samples: Any,
    fields: Mapping[str, Any],
    computed: dict[Hashable, Any],
) -> FinishedRun:
    """Some draws of an `MCMC` of `ModeJumping` as a run; the arguments are those of `of_draws`."""
    fields = dict(fields)
    ours = isinstance(jumping.inner_kernel, Kernel)
    if ours:
        of_chains = after_run.of_each_chain(state.inner, mcmc.num_chains)
        samples = after_run.without_weight(samples, fields["log_weight"])
    else:
        # Of the state of the inner kernel only the draw is asked for.
        of_chains = _Position(state.z)
        if mcmc.num_chains == 1:
            of_chains = jax.tree.map(lambda x: x[None], of_chains)
        energy = np.asarray(fields.pop("potential_energy"))
        fields["potential_energy_estimate"] = energy
        fields["log_weight"] = np.zeros(energy.shape, np.float32)
    kind = OursJumpingRun if ours else JumpingRun
    return kind(
        kernel=jumping.inner_kernel,
        model_args=data[0],
        model_kwargs=data[1],
        num_chains=mcmc.num_chains,
        thinning=mcmc.thinning,
        progress_bar=mcmc.progress_bar,
        state=of_chains,
        samples=samples,
        fields=fields,
        computed=computed,
        jumping=jumping,
        last=state,
    )
