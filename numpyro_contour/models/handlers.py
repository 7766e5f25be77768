"""Handlers that choose the rows of a model's plates, and traces of models that compute nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import random
from numpyro.distributions import biject_to
from numpyro.infer import init_to_uniform

from numpyro_contour.models.disk.stored_array import ROWS, StoredArray, subsample

#: the rows of one array that stays on disk, which follow a plate: the plate's name, the array, and
#: its rows
Held = tuple[str, StoredArray, jax.Array]


class subsample_rows(numpyro.primitives.Messenger):
    """Handler that gives plates the rows in `indices`, whatever their own subsample size.

    Args:
        fn: a model. None (default) to use the handler as a context manager.
        indices: rows by name of plate, (n,) each. None (default) for no plate.
        held: what arrays that stay on disk have at these rows, where it was read before. Defaults
            to ().

    Example:
        >>> import jax, jax.numpy as jnp, numpyro
        >>> from numpyro_contour.models.handlers import subsample_rows
        >>> def model():
        ...     with numpyro.plate("rows", 100, subsample_size=10) as idx:
        ...         return idx
        >>> subsample_rows(model, {"rows": jnp.array([7, 7, 3])})().tolist()
        [7, 7, 3]
    """

    def __init__(
        self,
        fn: Callable | None = None,
        indices: Mapping[str, jax.Array] | None = None,
        held: Sequence[Held] = (),
    ):
        super().__init__(fn)
        self.indices = {} if indices is None else indices
        self.held = held

    def process_message(self, msg: dict[str, Any]) -> None:
        """Give a plate its rows, and those of an array on disk if they have been read."""
        if msg["type"] == "plate" and msg["name"] in self.indices:
            rows = self.indices[msg["name"]]
            msg["value"] = rows
            msg["args"] = (msg["args"][0], rows.shape[0])
        if msg["type"] == ROWS:
            array, asked = msg["args"]
            for plate, known, rows in self.held:
                # The plate's own indices, not what a model has computed from them.
                if known == array and self.indices[plate] is asked:
                    msg["value"] = rows
        subsample(msg)


class whole_rows(numpyro.primitives.Messenger):
    """Handler that gives every plate all its rows, against a `subsample_size` of the model.

    Args:
        fn: a model. None (default) to use the handler as a context manager.

    Example:
        >>> import numpyro
        >>> from numpyro_contour.models.handlers import whole_rows
        >>> def model():
        ...     with numpyro.plate("rows", 100, subsample_size=10) as idx:
        ...         return idx
        >>> whole_rows(model)().shape
        (100,)
    """

    def __eq__(self, other: object) -> bool:
        """Whether it is around the same model: `numpyro.infer.Gibbs` asks this of its blocks."""
        if self.fn is None:
            return self is other
        return bool(self.fn == (other.fn if isinstance(other, whole_rows) else other))

    def __hash__(self) -> int:
        return id(self) if self.fn is None else hash(self.fn)

    def process_message(self, msg: dict[str, Any]) -> None:
        """Give a plate its rows."""
        subsample(msg)
        if msg["type"] != "plate":
            return
        size, minibatch = msg["args"]
        if msg["value"] is None or minibatch in (None, size):
            with jax.ensure_compile_time_eval():  # so that it indexes NumPy's arrays too
                msg["value"] = jnp.arange(size)
            msg["args"] = (size, size)


class record_plates(numpyro.primitives.Messenger):
    """Handler that records the plates of a model, and gives each its first rows."""

    def __init__(self, fn: Callable | None = None):
        super().__init__(fn)
        self.plates: dict[str, tuple[int, int | None]] = {}

    def process_message(self, msg: dict[str, Any]) -> None:
        """Record a plate."""
        subsample(msg)
        if msg["type"] == "plate":
            size, minibatch = msg["args"]
            self.plates[msg["name"]] = (size, minibatch)
            if msg["value"] is None:
                msg["value"] = jnp.arange(minibatch)


class record_reads(numpyro.primitives.Messenger):
    """Handler that records what a model reads of arrays that stay on disk.

    Args:
        fn: a model whose plates have the rows of `indices`.
        indices: those rows, by name of plate.
    """

    def __init__(self, fn: Callable, indices: Mapping[str, jax.Array]):
        super().__init__(fn)
        self.indices = indices
        #: plates, and the arrays that are indexed by the plate's rows
        self.reads: dict[tuple[str, StoredArray], None] = {}
        #: the most rows of each array that are read at once
        self.most: dict[StoredArray, int] = {}

    def process_message(self, msg: dict[str, Any]) -> None:
        """Record an array with its plate."""
        if msg["type"] == ROWS:
            array, asked = msg["args"]
            self.most[array] = max(asked.size, self.most.get(array, 0))
            plates = [name for name, rows in self.indices.items() if rows is asked]
            self.reads |= {(name, array): None for name in plates}


def initialised(model: Callable, key: jax.Array) -> Callable:
    """A model whose latent variables have values, those of improper priors too."""
    seeded = numpyro.handlers.seed(model, key)
    return numpyro.handlers.substitute(seeded, substitute_fn=init_to_uniform)


def unconstrained_values(model: Callable, model_args: tuple, model_kwargs: dict) -> dict:
    """The unconstrained values of a model's continuous latent sites, by name.

    Args:
        model: a model whose latent variables have values.
        model_args: its arguments.
        model_kwargs: its keyword arguments.
    """
    sites = numpyro.handlers.trace(model).get_trace(*model_args, **model_kwargs)
    return {
        name: biject_to(site["fn"].support).inv(site["value"])
        for name, site in sites.items()
        if site["type"] == "sample" and not site["is_observed"] and not site["fn"].is_discrete
    }


def model_trace(model: Callable, model_args: tuple, model_kwargs: dict) -> dict[str, Any]:
    """The sites of one execution of a model, traced but not computed."""
    sites: dict[str, Any] = {}

    def run() -> None:
        started = initialised(model, random.key(0))
        sites.update(numpyro.handlers.trace(started).get_trace(*model_args, **model_kwargs))

    try:
        jax.eval_shape(run)
    except (TypeError, ValueError, AssertionError) as error:
        unusable = next(_unusable(model_args, model_kwargs), None)
        if unusable is None:
            raise
        raise ValueError(
            f"The model cannot be run: {unusable} It raised {type(error).__name__}: "
            f"{str(error).partition(chr(10))[0]}"
        ) from error
    return sites


def _unusable(model_args: tuple, model_kwargs: dict) -> Iterator[str]:
    """Data with which no model can compute, in words."""
    for argument, values in {"model_args": model_args, "model_kwargs": model_kwargs}.items():
        empty = lambda x: isinstance(x, list) and not x
        for place, leaf in jax.tree_util.tree_leaves_with_path(values, is_leaf=empty):
            where = f"`{argument}{jax.tree_util.keystr(place)}`"
            # A word among the arguments themselves is an option; in a list it is data.
            is_word = isinstance(leaf, str) and len(place) > 1
            if is_word or getattr(getattr(leaf, "dtype", None), "kind", "f") in "OSU":
                yield f"{where} holds strings or objects; give numbers, for instance codes."
            elif 0 in np.shape(leaf):
                yield f"{where} has no rows, its shape is {np.shape(leaf)}."
