"""Potential energies of a NumPyro model over minibatches and over all data."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
from jax import random
from numpyro.distributions.constraints import Constraint
from numpyro.infer.util import potential_energy

from numpyro_contour.core.arrays.decentred import Decentred
from numpyro_contour.core.arrays.hosts import everywhere
from numpyro_contour.core.arrays.precision import full_precision
from numpyro_contour.models.disk.on_disk import stored_of
from numpyro_contour.models.disk.stored_array import StoredArray
from numpyro_contour.models.enumeration import (
    check_groups,
    enumerated_energy,
    enumeration_dim,
    plate_scale,
)
from numpyro_contour.models.handlers import (
    initialised,
    model_trace,
    record_plates,
    record_reads,
    subsample_rows,
)
from numpyro_contour.models.indexable_arrays import indexable
from numpyro_contour.models.jit_on_data import JittedOnData
from numpyro_contour.models.loc_scale import decentred_sites
from numpyro_contour.models.local_rows import Part, by_parts, on_part
from numpyro_contour.models.module_state import check_training, in_training
from numpyro_contour.models.nothing_to_sample import WithIdleCoordinate, has_nothing_to_sample
from numpyro_contour.models.plate_search import find_subsample_plates
from numpyro_contour.models.plates import (
    STEP_KEY,
    MinibatchSize,
    Pieces,
    SubsamplePlates,
    subsampled_plates_of,
)
from numpyro_contour.models.seeds import constant_seed

#: among the indices of plates, the rows of arrays that stay on disk, in the order of
#: `ModelPotential.reads`, where they were read with the indices
HELD = "rows read ahead"

# Combinations of rows whose energy is checked at once.
_CHECKED_AT_ONCE = 4096


@dataclass(frozen=True)
class ModelPotential:
    r"""The potential energy of a model in unconstrained space, over any choice of rows.

    .. math:: \tilde U(z) = -\log p(x(z)) - \log|\det \partial x / \partial z|
              - \frac Nn \sum_{i \in B} \log p(y_i \mid x(z))

    with B the n rows of a minibatch out of N, and one such sum for each subsample plate with
    observations. It is made by `ModelPotential.of`. Discrete latent variables are summed out.

    Example:
        >>> import jax, jax.numpy as jnp, numpyro, numpyro.distributions as dist
        >>> from numpyro_contour.models.model_potential import ModelPotential
        >>> def model(y):
        ...     mu = numpyro.sample("mu", dist.Normal(0, 10))
        ...     with numpyro.plate("rows", len(y), subsample_size=2) as idx:
        ...         numpyro.sample("y", dist.Normal(mu, 1), obs=y[idx])
        >>> potential = ModelPotential.of(model, (jnp.arange(4.0),))
        >>> potential.plates.sizes
        {'rows': (4, 2)}
        >>> round(float(potential.full({"mu": jnp.array(0.0)})), 2)
        13.9
        >>> rows = {"rows": jnp.array([1, 3])}
        >>> round(float(potential.at({"mu": jnp.array(0.0)}, rows)), 2)
        16.9
    """

    #: a NumPyro model
    model: Callable
    #: its arguments
    model_args: tuple
    #: its keyword arguments
    model_kwargs: dict
    #: its subsampled plates
    plates: SubsamplePlates
    #: the sets of subsampled plates around observations
    groups: tuple[tuple[str, ...], ...]
    #: the position of the first enumeration dimension, None without enumerated sites
    first_available_dim: int | None
    #: the supports of its latent sites, by name
    latent: Mapping[str, Constraint] = field(default_factory=dict, compare=False)
    #: whether the model asks if it is in training
    asks: bool = False
    #: whether it has modules with a state
    has_state: bool = False
    #: what is found of the model once, by name, without tracing it again
    known: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        model: Callable,
        model_args: tuple = (),
        model_kwargs: dict | None = None,
        minibatch_size: MinibatchSize = None,
    ) -> ModelPotential:
        """Inspect a model, without computing anything.

        Args:
            model: a NumPyro model.
            model_args: its arguments. Defaults to ().
            model_kwargs: its keyword arguments. None (default) for none.
            minibatch_size: as for `SGLD`. None (default) for the model's own.

        Returns:
            The potential energy.

        Raises:
            ValueError: `minibatch_size` does not fit the model's plates; a latent variable is
                inside a subsampled plate; or observations there do not follow its indices.
        """
        model_args, model_kwargs = indexable((model_args, model_kwargs or {}))
        plates = find_subsample_plates(model, model_args, model_kwargs, minibatch_size)
        handled = in_training(subsample_rows(model, plates.first_rows()))
        sites = model_trace(handled, model_args, model_kwargs)
        if has_nothing_to_sample(handled, model_args, model_kwargs, sites):
            return cls.of(WithIdleCoordinate(model), model_args, model_kwargs, minibatch_size)
        groups = {
            subsampled_plates_of(site, plates): None
            for site in sites.values()
            if site["type"] == "sample" and site["is_observed"]
        }
        dim = enumeration_dim(sites)
        if dim is not None and plates:
            check_groups(handled, model_args, model_kwargs, plates, dim)
        latent = {
            name: site["fn"].support
            for name, site in sites.items()
            if site["type"] == "sample" and not site["is_observed"]
        }
        states = [name for name, site in sites.items() if site["type"] == "mutable"]
        check_training(handled, states, plates)
        plates = replace(plates, keyed=handled.asked_for_keys)
        return cls(
            *(model, model_args, model_kwargs, plates, tuple(groups), dim, latent),
            asks=bool(handled.asked),
            has_state=bool(states),
        )

    def rows(self, indices: Mapping[str, jax.Array], given: Collection[str] = ()) -> Callable:
        """The model over the given rows.

        Args:
            indices: the rows of each subsampled plate, `{plate: (n,)}`.
            given: the names of sites that will be given values, or a position of these. The model
                is then written in the position's coordinates. Defaults to ().
        """
        model = self.model
        if isinstance(given, Decentred):
            model = decentred_sites(model, given.centring)
        # A constant seed: anything random besides the latent sites must not change between steps.
        seeded: Callable = constant_seed(model, {*given, *indices})
        if self.asks:
            seeded = in_training(seeded, key=indices.get(STEP_KEY))
        if HELD not in indices:
            return subsample_rows(seeded, indices)
        held = [(*read, rows) for read, rows in zip(self.reads, indices[HELD])]
        return subsample_rows(seeded, indices, held)

    @property
    def reads(self) -> tuple[tuple[str, StoredArray], ...]:
        """Subsampled plates, and the arrays that stay on disk that follow their rows."""
        if "reads" not in self.known:
            first = self.plates.first_rows()
            recorder = record_reads(subsample_rows(self.model, first), first)
            if stored_of((self.model_args, self.model_kwargs)):
                model_trace(recorder, self.model_args, self.model_kwargs)
            found = [read for read in recorder.reads if read[0] in self.plates.sizes]
            self.known["reads"] = tuple(found)
        return self.known["reads"]

    @full_precision
    def at(self, position: dict, indices: Mapping[str, jax.Array]) -> jax.Array:
        """The potential energy over the given rows, scaled to all.

        Args:
            position: unconstrained values of the latent sites, by name.
            indices: the rows of each subsampled plate, `{plate: (n,)}`.

        Returns:
            The potential energy in nats, ().
        """
        if self.first_available_dim is None:
            model = self.rows(indices, position)
            return potential_energy(model, self.model_args, self.model_kwargs, position)
        plates = self.plates.taking(indices)
        energy = self.of_group(position, indices, None)
        for group in self.groups:
            if group:
                energy += plate_scale(group, plates) * self.of_group(position, indices, group)
        return energy

    def of_group(
        self, position: dict, indices: Mapping[str, jax.Array], group: tuple[str, ...] | None
    ) -> jax.Array:
        """As `enumerated_energy`, of a model with sites that are summed out."""
        assert self.first_available_dim is not None
        return enumerated_energy(
            self.rows(indices, position),
            self.model_args,
            self.model_kwargs,
            position,
            self.plates.taking(indices),
            self.first_available_dim,
            group,
        )

    def minibatch(self, key: jax.Array, position: dict) -> jax.Array:
        """An unbiased estimate of the potential energy from a fresh minibatch.

        Args:
            key: random key.
            position: unconstrained values of the latent sites, by name.

        Returns:
            The estimate in nats, ().
        """
        return self.at(position, self.plates.draw(key))

    def full(self, position: dict) -> jax.Array:
        """The potential energy over all data.

        Args:
            position: unconstrained values of the latent sites, by name.

        Returns:
            The potential energy in nats, ().
        """
        return self.at(position, self.plates.all_rows())

    @property
    def whole_plates(self) -> dict[str, int]:
        """The plates that take all their rows, name to size."""
        recorder = record_plates(self.model)
        model_trace(recorder, self.model_args, self.model_kwargs)
        sizes = {name: size for name, (size, _) in recorder.plates.items()}
        return {name: size for name, size in sizes.items() if name not in self.plates.sizes}

    def observations(self) -> dict[str, jax.Array]:
        """The observed values of every observed site, over all rows.

        Returns:
            Arrays by name of site.
        """

        def observe(_: Any, __: Any, args: tuple, kwargs: dict) -> dict[str, jax.Array]:
            args, kwargs = indexable((args, kwargs))
            model = subsample_rows(initialised(self.model, random.key(0)), self.plates.all_rows())
            sites = numpyro.handlers.trace(model).get_trace(*args, **kwargs)
            return {
                name: site["value"]
                for name, site in sites.items()
                if site["type"] == "sample"
                and site["is_observed"]
                and not isinstance(site["fn"], numpyro.distributions.Unit)
            }

        # Compiled, so that what the observations do not need is not computed.
        return everywhere(JittedOnData(observe)(None, None, self.model_args, self.model_kwargs))

    def finite_on_all_rows(self, position: dict) -> jax.Array:
        """Whether the energy of every row is finite, a few thousand rows at a time."""
        finite = [self._finite_on_all_rows_of(group, position) for group in self.groups]
        return jnp.stack(finite).all() if finite else jnp.isfinite(self.full(position))

    def _finite_on_all_rows_of(self, group: tuple[str, ...], position: dict) -> jax.Array:
        """All combinations of rows of nested plates, and the first rows of the other plates."""
        first, data = self.plates.first_rows(), (self.model_args, self.model_kwargs)
        sizes = [self.plates.sizes[name][0] for name in group]

        def energy(data: tuple, rows: Any) -> jax.Array:
            rows = dict(zip(group, rows if isinstance(rows, tuple) else (rows,)))
            return replace(self, model_args=data[0], model_kwargs=data[1]).at(
                position, first | rows
            )

        def finite(part: Part | None) -> jax.Array:
            def and_finite(finite: jax.Array, piece: tuple) -> jax.Array:
                rows = tuple(piece[0].values())  # what does not count repeats a row
                if part is None:
                    return finite & jnp.isfinite(energy(data, rows))
                return finite & jnp.isfinite(on_part(energy, data, sizes[0], part)(*rows))

            inside = sizes if part is None else [len(part.arrays[0])]
            pieces = Pieces.of(group, inside, _CHECKED_AT_ONCE)
            return pieces.fold(and_finite, jnp.ones((), bool))

        # Rows of nested plates are a product, which has no parts.
        return by_parts(data if len(group) == 1 else (), math.prod(sizes), finite).all()
