"""The subsample plates of a NumPyro model, and the rows that a minibatch takes of them.

NumPyro's own subsampling shuffles the whole plate at every step. Here a handler hands every
subsample plate indices that were drawn, with replacement, in time proportional to the minibatch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
from jax import random
from numpyro.infer import init_to_uniform

from numpyro_contour import checks
from numpyro_contour.core.arrays.random_bits import bits

MinibatchSize = int | Mapping[str, int] | None


@dataclass(frozen=True)
class SubsamplePlates:
    """The plates of a model whose rows are chosen here."""

    #: subsampled plates, name to (size, minibatch size)
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    #: plates that take all their rows against the model's own `subsample_size`, name to size
    whole: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.sizes)

    def draw(self, key: jax.Array) -> dict[str, jax.Array]:
        """Fresh indices for each plate, uniform with replacement, in O(n).

        Args:
            key: random key.

        Returns:
            Indices of rows by name of plate, (n,) each.
        """
        keys = [key] if len(self.sizes) == 1 else random.split(key, max(len(self.sizes), 1))
        drawn = {
            name: draw_indices(k, size, minibatch)
            for k, (name, (size, minibatch)) in zip(keys, self.sizes.items())
        }
        return drawn | self._whole_rows()

    def first_rows(self) -> dict[str, jax.Array]:
        """Indices without randomness, for what must not depend on the data rows."""
        first = {name: jnp.arange(minibatch) for name, (_, minibatch) in self.sizes.items()}
        return first | self._whole_rows()

    def all_rows(self) -> dict[str, jax.Array]:
        """The indices of every row.

        Returns:
            Indices by name of plate, (N,) each.
        """
        rows = {name: jnp.arange(size) for name, (size, _) in self.sizes.items()}
        return rows | self._whole_rows()

    def taking(self, indices: Mapping[str, jax.Array]) -> SubsamplePlates:
        """These plates with as many rows as are given."""
        sizes = {name: (size, indices[name].shape[0]) for name, (size, _) in self.sizes.items()}
        return SubsamplePlates(sizes, self.whole)

    def _whole_rows(self) -> dict[str, jax.Array]:
        return {name: jnp.arange(size) for name, size in self.whole.items()}


def draw_indices(key: jax.Array, size: int, minibatch: int) -> jax.Array:
    """`minibatch` row numbers below `size`, uniform with replacement.

    The upper half of the product of 32 random bits and `size`: half the random bits of
    `random.randint`. A row's probability is off by at most 2**-32, which matters for none of the
    sizes that use it.
    """
    if size > 2**24:
        return random.randint(key, (minibatch,), 0, size)
    words = bits(key, (minibatch,))
    low, high = words & 0xFFFF, words >> 16
    size_low, size_high = size & 0xFFFF, size >> 16
    middle = high * size_low + (low * size_low >> 16)
    carried = low * size_high + (middle & 0xFFFF)
    return (high * size_high + (middle >> 16) + (carried >> 16)).astype(jnp.int32)


class subsample_rows(numpyro.primitives.Messenger):
    """Handler that gives plates the rows in `indices`, whatever their own subsample size.

    Args:
        fn: a model. None (default) to use the handler as a context manager.
        indices: rows by name of plate, (n,) each. None (default) for no plate.

    Example:
        >>> import jax, jax.numpy as jnp, numpyro
        >>> from numpyro_contour.models.plates import subsample_rows
        >>> def model():
        ...     with numpyro.plate("rows", 100, subsample_size=10) as idx:
        ...         return idx
        >>> subsample_rows(model, {"rows": jnp.array([7, 7, 3])})().tolist()
        [7, 7, 3]
    """

    def __init__(self, fn: Callable | None = None, indices: Mapping[str, jax.Array] | None = None):
        super().__init__(fn)
        self.indices = {} if indices is None else indices

    def process_message(self, msg: dict[str, Any]) -> None:
        """Give a plate its rows."""
        if msg["type"] == "plate" and msg["name"] in self.indices:
            rows = self.indices[msg["name"]]
            msg["value"] = rows
            msg["args"] = (msg["args"][0], rows.shape[0])


class whole_rows(numpyro.primitives.Messenger):
    """Handler that gives every plate all its rows, against a `subsample_size` of the model.

    Args:
        fn: a model. None (default) to use the handler as a context manager.

    Example:
        >>> import numpyro
        >>> from numpyro_contour.models.plates import whole_rows
        >>> def model():
        ...     with numpyro.plate("rows", 100, subsample_size=10) as idx:
        ...         return idx
        >>> whole_rows(model)().shape
        (100,)
    """

    def process_message(self, msg: dict[str, Any]) -> None:
        """Give a plate its rows."""
        if msg["type"] != "plate":
            return
        size, minibatch = msg["args"]
        if msg["value"] is None or minibatch in (None, size):
            with jax.ensure_compile_time_eval():  # so that it indexes NumPy's arrays too
                msg["value"] = jnp.arange(size)
            msg["args"] = (size, size)


class _record_plates(numpyro.primitives.Messenger):
    """Handler that notes the plates of a model and keeps their rows cheap."""

    def __init__(self, fn: Callable | None = None):
        super().__init__(fn)
        self.plates: dict[str, tuple[int, int | None]] = {}

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] == "plate":
            size, minibatch = msg["args"]
            self.plates[msg["name"]] = (size, minibatch)
            if msg["value"] is None:
                msg["value"] = jnp.arange(minibatch)


def initialised(model: Callable, key: jax.Array) -> Callable:
    """A model whose latent variables have values, those of improper priors too."""
    seeded = numpyro.handlers.seed(model, key)
    return numpyro.handlers.substitute(seeded, substitute_fn=init_to_uniform)


def model_trace(model: Callable, model_args: tuple, model_kwargs: dict) -> dict[str, Any]:
    """The sites of one execution of a model, traced but not computed."""
    sites: dict[str, Any] = {}

    def run() -> None:
        started = initialised(model, random.key(0))
        sites.update(numpyro.handlers.trace(started).get_trace(*model_args, **model_kwargs))

    jax.eval_shape(run)
    return sites


def plates_of(site: Mapping[str, Any]) -> list[str]:
    """The names of the plates around a site."""
    return [frame.name for frame in site["cond_indep_stack"]]


def subsampled_plates_of(site: Mapping[str, Any], plates: SubsamplePlates) -> tuple[str, ...]:
    """The names of the subsampled plates around a site, in one order for all sites."""
    return tuple(sorted(name for name in plates_of(site) if name in plates.sizes))


def find_subsample_plates(
    model: Callable,
    model_args: tuple = (),
    model_kwargs: dict | None = None,
    minibatch_size: MinibatchSize = None,
) -> SubsamplePlates:
    """The plates of a model that are subsampled, and by how much.

    Args:
        model: a NumPyro model.
        model_args: its arguments.
        model_kwargs: its keyword arguments.
        minibatch_size: None for the `subsample_size` that the model itself gives; an int for its
            only subsample plate, or, where it has none, for the only plate with observations; or
            `{plate: int}`. A minibatch as large as its plate is no subsampling.

    Raises:
        ValueError: `minibatch_size` names no plate of the model, is larger than the plate or
            could mean several plates; or a latent variable is inside a subsampled plate; or
            observations inside one do not follow its indices.
    """
    model_kwargs = {} if model_kwargs is None else model_kwargs
    recorder = _record_plates(model)
    sites = model_trace(recorder, model_args, model_kwargs)
    plates = recorder.plates
    chosen = {
        name: minibatch
        for name, (size, minibatch) in plates.items()
        if minibatch is not None and minibatch != size
    }
    requested = _requested_sizes(minibatch_size, plates, chosen, sites)
    chosen.update(requested)
    for name, minibatch in chosen.items():
        if minibatch > plates[name][0]:
            raise ValueError(
                f"`minibatch_size` takes at most the size of the plate, {plates[name][0]} for "
                f"{name!r}, but got {minibatch}."
            )
    result = SubsamplePlates(
        {name: (plates[name][0], n) for name, n in chosen.items() if n < plates[name][0]},
        {name: n for name, n in chosen.items() if n == plates[name][0]},
    )
    if requested:
        sites = _trace_minibatch(model, model_args, model_kwargs, result, list(requested))
    _check_latents(sites, result)
    _check_observations(sites, result)
    return result


def _requested_sizes(
    minibatch_size: MinibatchSize,
    plates: Mapping[str, tuple[int, int | None]],
    subsampled: Mapping[str, int],
    sites: Mapping[str, Any],
) -> dict[str, int]:
    if minibatch_size is None:
        return {}
    if not plates:
        raise ValueError(
            f"`minibatch_size` takes a model with a plate of rows, but got {minibatch_size!r} and "
            'a model without plates: put its likelihood into `numpyro.plate("rows", N)`.'
        )
    known = ", ".join(f"{name!r} (size {size})" for name, (size, _) in plates.items())
    if isinstance(minibatch_size, Mapping):
        for name in minibatch_size:
            if name not in plates:
                raise ValueError(
                    f"`minibatch_size` takes the names of the model's plates ({known}), "
                    f"but got {name!r}."
                )
        return dict(minibatch_size)
    candidates = list(subsampled)
    if not candidates:
        candidates = _plates_with_observations_only(sites)
    if len(candidates) != 1:
        raise ValueError(
            f"`minibatch_size` takes a dict {{plate: int}} where an int could mean several plates "
            f"or none, but got {minibatch_size}; the model's plates are {known}."
        )
    return {candidates[0]: minibatch_size}


def _plates_with_observations_only(sites: Mapping[str, Any]) -> list[str]:
    observed: dict[str, None] = {}
    latent: set[str] = set()
    for site in sites.values():
        if site["type"] != "sample":
            continue
        if site["is_observed"]:
            observed.update(dict.fromkeys(plates_of(site)))
        elif not site["fn"].support.is_discrete:
            latent.update(plates_of(site))
    return [name for name in observed if name not in latent]


def _trace_minibatch(
    model: Callable, model_args: tuple, model_kwargs: dict, plates: SubsamplePlates, named: list
) -> dict[str, Any]:
    try:
        handled = subsample_rows(model, plates.first_rows())
        return model_trace(handled, model_args, model_kwargs)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"`minibatch_size` takes plates whose data follow the plate's indices, but with "
            f"{dict(plates.sizes)} (plate: (size, minibatch)) the model fails: {error}\n"
            f"Write `with numpyro.plate({named[0]!r}, N) as idx:` and use `X[idx]`, or "
            f"`numpyro.subsample(X, event_dim=...)` inside the plate."
        ) from error


def _check_latents(sites: Mapping[str, Any], plates: SubsamplePlates) -> None:
    for name, site in sites.items():
        if site["type"] != "sample" or site["is_observed"] or site["fn"].support.is_discrete:
            continue
        for plate in plates_of(site):
            if plate in plates.sizes:
                raise ValueError(
                    f"The latent variable {name!r} is inside the subsampled plate {plate!r}, so a "
                    f"minibatch would sample only some of it. Sample it outside the plate, with "
                    f"`.expand([N])`, and index it by the plate's indices inside; or do not "
                    f"subsample that plate."
                )


def _check_observations(sites: Mapping[str, Any], plates: SubsamplePlates) -> None:
    for name, site in sites.items():
        if site["type"] != "sample" or not site["is_observed"]:
            continue
        shape = jnp.shape(site["value"])
        for frame in site["cond_indep_stack"]:
            if frame.name not in plates.sizes:
                continue
            axis = len(shape) - len(site["fn"].event_shape) + frame.dim
            if axis >= 0 and shape[axis] not in (1, frame.size):
                raise ValueError(
                    f"The observations {name!r} inside the subsampled plate {frame.name!r} have "
                    f"{shape[axis]} rows where the minibatch has {frame.size}. Index them by the "
                    f"plate's indices, `y[idx]`, or use `numpyro.subsample(y, event_dim=...)`."
                )


def check_minibatch_size(value: MinibatchSize) -> MinibatchSize:
    """The argument `minibatch_size`, as far as it can be checked without the model."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {
            str(name): checks.integer(f"minibatch_size[{name!r}]", n, at_least=1)
            for name, n in value.items()
        }
    return checks.integer("minibatch_size", value, at_least=1)
