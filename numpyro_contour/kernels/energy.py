"""The potential energy of a kernel: of which model or function, and by which estimator."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, random
from numpyro.infer.mcmc import MCMCKernel

from numpyro_contour.adaptation.plan import Plan
from numpyro_contour.adaptation.warmup import Place, place
from numpyro_contour.core.arrays.vectors import ravel, unravel_like
from numpyro_contour.core.samplers.chain import PotentialAndGrad
from numpyro_contour.models.all_rows import FullData
from numpyro_contour.models.estimators import choice as estimators
from numpyro_contour.models.estimators.control_variate import (
    Anchor,
    anchor_at,
    least_noisy,
    no_anchor,
)
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.plates import MinibatchSize


class EnergyKernel(MCMCKernel):
    """The part of `SGMCMCKernel` that concerns the potential energy and its anchor."""

    _model: Callable | None
    _potential_fn: Callable | None
    _minibatch_size: MinibatchSize
    _energy: str | Callable | None
    _chunk_bytes: int

    @property
    @abstractmethod
    def _plan(self) -> Plan | None:
        """The plan of the warm-up, None where everything is given."""

    def model_potential(self, model_args: tuple = (), model_kwargs: dict | None = None) -> Any:
        """The potential energy of the kernel's model over minibatches and over all data.

        Args:
            model_args: arguments of the model. Defaults to ().
            model_kwargs: its keyword arguments. None (default) for none.

        Returns:
            A `ModelPotential`.

        Raises:
            ValueError: as `ModelPotential.of`, or the kernel was given `potential_fn`.
        """
        return ModelPotential.of(
            self._model_or_fail(), model_args, model_kwargs, self._minibatch_size
        )

    def _model_or_fail(self) -> Callable:
        if self._model is None:
            raise ValueError("This kernel was given `potential_fn`: it has no model.")
        return self._model

    def _potential(self, model_args: tuple, model_kwargs: dict | None) -> ModelPotential | None:
        return None if self._model is None else self.model_potential(model_args, model_kwargs)

    def energy_estimator(
        self, model_args: tuple = (), model_kwargs: dict | None = None
    ) -> str | Callable:
        """What estimates the potential energy in a run on these arguments.

        Args:
            model_args: arguments of the model. Defaults to ().
            model_kwargs: its keyword arguments. None (default) for none.

        Returns:
            "minibatch", "control_variate", "full", or the callable that was given as `energy`.
        """
        return self._chosen(self._potential(model_args, model_kwargs))

    def _chosen(self, potential: ModelPotential | None) -> str | Callable:
        return estimators.chosen(self._energy, potential, descends=self._plan is not None)

    def has_exact_energy(self, model_args: tuple = (), model_kwargs: dict | None = None) -> bool:
        """Whether the potential energies of a run are exact, not estimates from minibatches.

        Args:
            model_args: arguments of the model. Defaults to ().
            model_kwargs: its keyword arguments. None (default) for none.

        Returns:
            True or False.
        """
        return self.energy_estimator(model_args, model_kwargs) == "full"

    def has_control_variate(self, state: Any) -> bool:
        """Whether the energies of a run's state are relative to an anchor."""
        return bool(_anchor_of(state.warmup))

    def full_data(self, model_args: tuple, model_kwargs: dict | None, like: Any) -> FullData:
        """The model over all rows of its subsample plates, in chunks of bounded memory."""
        return FullData(self.model_potential(model_args, model_kwargs), like, self._chunk_bytes)

    def _estimator(
        self, potential: ModelPotential | None, like: Any, warmup: Any, starts: bool = False
    ) -> Callable[[Any], PotentialAndGrad]:
        """The estimator for each chain, made from the chain's own warm-up.

        Args:
            potential: the model's, None for a potential function.
            like: an unconstrained position.
            warmup: the warm-up of all chains.
            starts: whether there can be no anchor yet.
        """
        chosen = self._chosen(potential)
        if starts and chosen == "control_variate":
            chosen = "minibatch"
        if potential is None:
            assert self._potential_fn is not None
            function = (
                estimators.of_callable(chosen, like)
                if callable(chosen)
                else estimators.of_function(self._potential_fn, like)
            )
        else:
            anchors = _anchor_of(warmup)
            in_use = jnp.any(anchors.weight > 0) if anchors else jnp.zeros((), bool)
            function = estimators.of_model(chosen, potential, like, self._chunk_bytes, in_use)

        def of_chain(warmup: Any) -> PotentialAndGrad:
            anchor = _anchor_of(warmup)
            return lambda key, flat: function(key, flat, anchor)

        return of_chain

    def exact_energy(
        self, model_args: tuple, model_kwargs: dict | None, like: Any
    ) -> Callable[[jax.Array], jax.Array]:
        """The exact potential energy of flat positions, of the model or of `potential_fn`."""
        if self._potential_fn is not None:
            potential_fn = self._potential_fn
            return lambda flat: potential_fn(unravel_like(flat, like))
        full_data = self.full_data(model_args, model_kwargs, like)
        return lambda flat: full_data.at(flat).energy.high

    # ------------------------------------------------------------------ the anchor

    def _no_anchor(self, potential: ModelPotential | None, like: Any) -> Anchor | tuple[()]:
        """The anchor before there is one; () where none will be."""
        if self._chosen(potential) != "control_variate":
            return ()
        return no_anchor(ravel(like).shape[0])

    def _renew_anchor(
        self, plan: Plan, before: Any, after: Any, lift: Callable, potential: ModelPotential | None
    ) -> Any:
        """The state after a draw of descent or tuning, with its anchor found or given up.

        Args:
            plan: the plan of the warm-up.
            before: the state of all chains before the draw.
            after: the state after it.
            lift: makes a function of one chain one of all, one chain after the other.
            potential: the model's potential energy.
        """
        if not _anchor_of(after.warmup):
            return after
        assert potential is not None
        which = "tune" if "tune" in plan.stages else "settle"
        moving = [i for i, stage in enumerate(plan.stages) if stage == which]

        def here(state: Any) -> Place:
            return place(plan, state.warmup)

        where = lift(here)(before)
        # Not after the last window: step size and noise must belong to the final anchor.
        renewing = jnp.asarray([plan.stages.index("descent"), *moving[:-1]])
        descended = where.number == renewing[0]
        return lax.cond(
            jnp.any(where.ends & jnp.isin(where.number, renewing)),
            lift(lambda x: self._anchored(x[0], x[1], x[2], potential)),
            lambda x: x[0],
            (after, before.warmup.tuning.moments.position, descended),
        )

    def _anchored(
        self, state: Any, mean: jax.Array, descended: jax.Array, potential: ModelPotential
    ) -> Any:
        """The state with its anchor where a descent ended, or where there is less noise.

        After a descent that is the chain's position, after a window of tuning the better one of
        the anchor it has and the window's mean.

        The descent ends as far from the bulk of a posterior of very many rows as its minibatches
        scatter. Unless the control variate was asked for by name it is given up where a minibatch
        alone has less noise.
        """
        rng_key, key = random.split(state.rng_key)
        old, position = state.warmup.anchor, state.sampler.chain.position
        full_data = FullData(potential, state.z, self._chunk_bytes)
        new = anchor_at(full_data, jnp.where(descended, position, mean))
        best = least_noisy(
            key,
            potential,
            state.z,
            position,
            jax.tree.map(lambda *both: jnp.stack(both), old, new),
            state.warmup.tuning.preconditioner,
            or_none=self._energy is None,
        )
        return self._relative_to(state._replace(rng_key=rng_key), best)

    def _relative_to(self, state: Any, anchor: Anchor) -> Any:
        """The state with another anchor, and its energies as differences to that."""
        old = state.warmup.anchor.energy
        rise = (old.high - anchor.energy.high) + (old.low - anchor.energy.low)
        history = state.warmup.history
        history = history._replace(energy=history.energy + rise)
        chain = state.sampler.chain
        chain = chain._replace(potential_energy=chain.potential_energy + rise)
        sampler = self._shifted(state.sampler._replace(chain=chain), rise)
        warmup = state.warmup._replace(anchor=anchor, history=history)
        return state._replace(sampler=sampler, warmup=warmup)

    def _anchored_anew(self, state: Any, potential: ModelPotential | None) -> Any:
        """The state with energy and gradient of its anchor on other data."""
        anchor = _anchor_of(state.warmup)
        if not anchor:
            return state
        assert potential is not None
        new = anchor_at(FullData(potential, state.z, self._chunk_bytes), anchor.position)
        new = new._replace(weight=anchor.weight)
        return state._replace(warmup=state.warmup._replace(anchor=new))

    def _shifted(self, sampler: Any, rise: jax.Array) -> Any:
        """A sampler's state whose energies have risen by so much."""
        return sampler


def _anchor_of(warmup: Any) -> Anchor | tuple[()]:
    return warmup.anchor if warmup else ()
