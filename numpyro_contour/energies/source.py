"""Potential energies: where a kernel has them from, and one value that evaluates those of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp

from numpyro_contour import checks
from numpyro_contour.core.arrays.precision import full_precision
from numpyro_contour.core.arrays.vectors import unravel_like
from numpyro_contour.core.samplers.chain import PotentialAndGrad
from numpyro_contour.energies import choice
from numpyro_contour.energies.anchors import CONTROL_VARIATES, Expansions, expansions_of
from numpyro_contour.energies.choice import of_callable, of_function
from numpyro_contour.models.all_rows import FullData
from numpyro_contour.models.disk.on_disk import stored_of, with_stored
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.plates import MinibatchSize, check_minibatch_size
from numpyro_contour.models.row_checks import check_rows
from numpyro_contour.models.rows_ahead import check_stored


@dataclass(frozen=True)
class EnergySource:
    """The arguments that decide potential energies and their estimates.

    Raises:
        ValueError: one of them is out of its range, or does not go with another.
    """

    #: a NumPyro model, None for a potential function
    model: Callable | None
    #: a function of a position to a potential energy, None for a model
    potential_fn: Callable | None
    minibatch_size: MinibatchSize
    energy: str | Callable | None
    chunk_bytes: int
    #: whether sites of a model may be sampled in partly non-centred coordinates; not where others
    #: compute with the positions, as `numpyro.infer.Gibbs` on a wrapped model
    recentred: bool = True

    def __post_init__(self) -> None:
        if (self.model is None) == (self.potential_fn is None):
            got = "neither" if self.model is None else "both"
            raise ValueError(f"Give one of `model` and `potential_fn`, but got {got}.")
        for name in ("model", "potential_fn"):
            if getattr(self, name) is not None:
                checks.function(name, getattr(self, name))
        if self.model is None and self.minibatch_size is not None:
            raise checks.fail("minibatch_size", self.minibatch_size, "None with `potential_fn`")
        object.__setattr__(self, "minibatch_size", check_minibatch_size(self.minibatch_size))
        choice.check_energy(self.energy)
        checks.integer("chunk_bytes", self.chunk_bytes, at_least=1)

    @property
    def asks_for_control_variate(self) -> bool:
        """Whether a control variate is asked for by name."""
        return self.energy in CONTROL_VARIATES

    def model_or_fail(self) -> Callable:
        """The model.

        Raises:
            ValueError: there is only a potential function.
        """
        if self.model is None:
            raise ValueError("This kernel was given `potential_fn`: it has no model.")
        return self.model

    def model_potential(self, args: tuple, kwargs: dict | None) -> ModelPotential:
        """The potential energy of the model on these arguments."""
        return ModelPotential.of(self.model_or_fail(), args, kwargs, self.minibatch_size)

    def check_rows(self, args: tuple, kwargs: dict) -> None:
        """As `row_checks.check_rows` and `check_stored`, where there is a model."""
        if self.model is not None:
            check_rows(self.model, args, kwargs)
            if stored_of(with_stored((args, kwargs))):
                check_stored(self.model_potential(args, kwargs))

    def potential(self, args: tuple, kwargs: dict | None) -> ModelPotential | None:
        """The potential energy of the model, None for a potential function."""
        return None if self.model is None else self.model_potential(args, kwargs)

    def on(
        self, potential: ModelPotential | None, like: Any, estimator: str | Callable = "full"
    ) -> Energies:
        """The energies of a run.

        Args:
            potential: what `potential` has given.
            like: an unconstrained position of one chain.
            estimator: what estimates them, as `choice.chosen` says. Defaults to "full".
        """
        return Energies(self, potential, like, estimator)


@dataclass(frozen=True)
class Energies:
    """The potential energies of a run, in all the ways in which they are evaluated.

    It is made where a function is traced, from the data of the run, and holds what they share.
    """

    source: EnergySource
    #: the model's, None for a potential function
    potential: ModelPotential | None
    #: an unconstrained position of one chain
    like: Any
    #: "full", "minibatch", "control_variate" or the user's own callable
    estimator: str | Callable

    @property
    def exact(self) -> bool:
        """Whether chains see exact energies."""
        return self.estimator == "full"

    @property
    def of_rows(self) -> ModelPotential:
        """The potential energy of the model.

        Raises:
            ValueError: there is only a potential function.
        """
        if self.potential is None:
            self.source.model_or_fail()
        assert self.potential is not None
        return self.potential

    @cached_property
    def full_data(self) -> FullData:
        """The model over all rows of its subsample plates, in chunks of bounded memory."""
        return FullData(self.of_rows, self.like, self.source.chunk_bytes)

    @cached_property
    def expansions(self) -> Expansions:
        """The expansions of a control variate that may come."""
        found = expansions_of(self.source.energy, self.of_rows, self.like)
        assert found is not None
        return found

    @property
    def at_vectors(self) -> Callable[[jax.Array], jax.Array]:
        """The exact potential energy of vectors of positions."""
        if self.source.potential_fn is not None:
            potential_fn = full_precision(self.source.potential_fn)
            return lambda vector: potential_fn(unravel_like(vector, self.like))
        return lambda vector: self.full_data.at(vector).energy.high

    @property
    def everywhere(self) -> PotentialAndGrad:
        """The exact potential energy and its gradient."""
        exact = replace(self, estimator="full")
        return exact.of_chains(())(())

    def of_chains(
        self, warmup: Any, tells_noise: bool | None = None
    ) -> Callable[[Any], PotentialAndGrad]:
        """From the warm-up of a chain to its `potential_and_grad`.

        Args:
            warmup: the warm-up of all chains.
            tells_noise: whether a control variate tells the variance of its energy's noise. None
                (default) for as long as the warm-up lasts.
        """
        source, potential, like, chosen = self.source, self.potential, self.like, self.estimator
        if potential is None:
            assert source.potential_fn is not None
            function = (
                of_callable(chosen, like)
                if callable(chosen)
                else of_function(source.potential_fn, like)
            )
        else:
            anchors = anchors_of(warmup)
            # One order for all chains.
            order = jnp.max(jnp.where(anchors.in_use, anchors.order, 0)) if anchors else 0
            tells: Any = tells_noise
            if tells is None:
                tells = jnp.any(warmup.iteration < warmup.length) if warmup else False
            expansions = self.expansions if anchors else None
            function = choice.of_model(
                *(chosen, potential, like, source.chunk_bytes, expansions, order, tells)
            )

        def of_chain(warmup: Any) -> PotentialAndGrad:
            anchors = anchors_of(warmup)
            return lambda key, vector: function(key, vector, anchors)

        return of_chain


def anchors_of(warmup: Any) -> Any:
    """The anchors of a warm-up, () where there are none."""
    return warmup.anchors if warmup else ()
