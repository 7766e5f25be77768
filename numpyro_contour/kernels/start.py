"""Where chains start: initial positions, compiled once, and checked where values are concrete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.util import initialize_model

from numpyro_contour.minibatch import ModelPotential
from numpyro_contour.plates import subsample_rows


class JittedStart:
    """A function of `(rng_key, init_params, model_args, model_kwargs)`, compiled once a layout.

    Arrays are traced and everything else is static, so that a later run on the same shapes traces
    nothing. A model that needs the values of its arrays, or arguments that cannot be hashed, make
    it run uncompiled.
    """

    def __init__(self, function: Callable):
        self._function = function
        self._compiled = jax.jit(self._call, static_argnums=0)

    def _call(self, layout: tuple, rng_key: jax.Array, init_params: Any, arrays: list) -> Any:
        structure, leaves = layout
        remaining = iter(arrays)
        filled = [next(remaining) if leaf is _ARRAY else leaf.value for leaf in leaves]
        model_args, model_kwargs = structure.unflatten(filled)
        return self._function(rng_key, init_params, model_args, model_kwargs)

    def __call__(
        self, rng_key: jax.Array, init_params: Any, model_args: tuple, model_kwargs: dict
    ) -> Any:
        """The function at these arguments."""
        leaves, structure = jax.tree.flatten((model_args, model_kwargs))
        arrays = [leaf for leaf in leaves if isinstance(leaf, np.ndarray | jax.Array)]
        layout = (
            structure,
            tuple(
                _ARRAY if isinstance(leaf, np.ndarray | jax.Array) else _Static(leaf)
                for leaf in leaves
            ),
        )
        try:
            hash(layout)
            return self._compiled(layout, rng_key, init_params, arrays)
        except (TypeError, jax.errors.JAXTypeError, jax.errors.JAXIndexError):
            return self._function(rng_key, init_params, model_args, model_kwargs)


class _Static:
    """A static argument; equal only to its own type, so that 1, 1.0 and True stay apart."""

    def __init__(self, value: Any):
        self.value = value

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Static)
            and type(self.value) is type(other.value)
            and bool(self.value == other.value)
        )


_ARRAY = _Static("an array")


def find_position(
    key: jax.Array, potential: ModelPotential | None, init_strategy: Callable, init_params: Any
) -> Any:
    """An unconstrained initial position: `init_params`, or one found by `init_strategy`.

    Raises:
        ValueError: `init_params` is missing, or its sites or shapes are not the model's.
    """
    if potential is None:
        if init_params is None:
            raise ValueError("`init_params` must be given with `potential_fn`, but got None.")
        return jax.tree.map(lambda x: jnp.asarray(x, jnp.result_type(x, float)), init_params)

    def by_strategy() -> dict[str, jax.Array]:
        return initialize_model(
            key,
            subsample_rows(potential.model, potential.plates.first_rows()),
            init_strategy=init_strategy,
            model_args=potential.model_args,
            model_kwargs=potential.model_kwargs,
        ).param_info.z

    if init_params is None:
        return by_strategy()
    expected = jax.eval_shape(by_strategy)
    takes = ", ".join(f"{name!r}: {x.shape}" for name, x in expected.items())
    got = (
        {name: jnp.shape(x) for name, x in init_params.items()}
        if isinstance(init_params, dict)
        else type(init_params).__name__
    )
    if got != {name: x.shape for name, x in expected.items()}:
        raise ValueError(
            f"`init_params` takes unconstrained values of the model's latent variables, "
            f"{{{takes}}} a chain, but got {got}."
        )
    return {name: jnp.asarray(init_params[name], x.dtype) for name, x in expected.items()}


def raise_if_unusable(usable: dict[str, jax.Array], energy: jax.Array) -> None:
    """Raise where a chain cannot start; under a transformation the state's counters show it.

    Raises:
        ValueError: the potential energy or its gradient is not finite.
    """
    if any(isinstance(flag, jax.core.Tracer) for flag in usable.values()):
        return
    start = np.atleast_1d(usable["start"])
    if not start.all():
        chain = int(np.argmin(start))
        raise ValueError(
            f"The potential energy or its gradient is not finite at the initial position of chain "
            f"{chain}: the energy is {np.atleast_1d(energy)[chain]}. Check the data for NaN and "
            f"infinite values, and `init_params` and `init_strategy` for a start outside the "
            f"support."
        )
    if not np.all(usable.get("rows", True)):
        raise ValueError(
            "The potential energy is not finite over some rows of the data: check the data for NaN "
            "and infinite values. A chain would refuse every minibatch that holds such a row."
        )
