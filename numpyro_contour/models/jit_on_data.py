"""Functions of a model's arguments, compiled with their arrays as arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from numpyro_contour.models.disk.on_disk import with_stored

# XLA's compiler takes about two thirds of its time with these options, for programs as fast. At a
# lower level of optimization it takes half, but steps on minibatches then take three times as long.
_QUICKLY: dict[str, Any] = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}
# With exact energies steps are as fast at a lower level. For a program that is waited for, in
# parts that are compiled at once: a third less, for a mixture 3.3 s instead of 5.
_WAITED_FOR = _QUICKLY | {
    "xla_cpu_parallel_codegen_split_count": 4,
    "xla_backend_optimization_level": 1,
}


@cache
def quick_options(is_waited_for: bool = False) -> dict[str, Any] | None:
    """Options for a compilation that takes less time; None on other devices than CPUs.

    They are those that this version of the compiler knows.

    Args:
        is_waited_for: whether nothing else is compiled meanwhile, of a program of exact energies.
            Defaults to False.
    """
    if jax.default_backend() != "cpu":
        return None
    probe = jax.jit(lambda x: x).lower(np.zeros(()))
    known = {}
    for name, value in (_WAITED_FOR if is_waited_for else _QUICKLY).items():
        try:
            probe.compile(compiler_options={name: value})
        except Exception:  # XLA's versions say in different ways that they do not know one
            continue
        known[name] = value
    return known or None


def is_tracing() -> bool:
    """Whether JAX traces a program: its operations are not made then, but are parts of it."""
    return isinstance(jnp.zeros(()), jax.core.Tracer)


class JittedOnData:
    """A function of `(one, other, model_args, model_kwargs)`, compiled once a layout.

    Arrays are traced and everything else is static, so that a later run on the same shapes traces
    nothing. A model that needs the values of its arrays, or arguments that cannot be hashed, make
    it run uncompiled.

    Args:
        function: the function.
        quickly: whether it runs so seldom that it is to be compiled with `quick_options`. Defaults
            to False.
    """

    def __init__(self, function: Callable, quickly: bool = False):
        self._function, self._quickly = function, quickly

    @cached_property
    def _inside(self) -> Any:
        return jax.jit(self._call, static_argnums=0)

    @cached_property
    def _outermost(self) -> Any:
        options = quick_options() if self._quickly else None
        return jax.jit(self._call, static_argnums=0, compiler_options=options)

    @property
    def _compiled(self) -> Any:
        # A program inside of another one has no options of its own.
        return self._inside if is_tracing() else self._outermost

    def _call(self, layout: tuple, one: Any, other: Any, arrays: list) -> Any:
        structure, leaves = layout
        remaining = iter(arrays)
        filled = [next(remaining) if leaf is _ARRAY else leaf.value for leaf in leaves]
        model_args, model_kwargs = structure.unflatten(filled)
        return self._function(one, other, model_args, model_kwargs)

    def __call__(self, one: Any, other: Any, model_args: tuple, model_kwargs: dict) -> Any:
        """The function at these arguments."""
        # Arrays that stay on disk are static: each of them is equal to itself only.
        model_args, model_kwargs = with_stored((model_args, model_kwargs))
        layout, arrays = _layout(model_args, model_kwargs)
        try:
            hash(layout)
            return self._compiled(layout, one, other, arrays)
        except (TypeError, jax.errors.JAXTypeError, jax.errors.JAXIndexError):
            return self._function(one, other, model_args, model_kwargs)

    def traced(
        self, one: Any, other: Any, model_args: tuple, model_kwargs: dict
    ) -> tuple[jax.stages.Traced, list]:
        """The function's program for arguments like these, and the arrays that it takes.

        It is a program of `(one, other, arrays)`, to be compiled elsewhere. A model that needs the
        values of its arrays has them as constants.
        """
        layout, arrays = _layout(model_args, model_kwargs)
        try:
            hash(layout)
            return self._compiled.trace(layout, one, other, arrays), arrays
        except (TypeError, jax.errors.JAXTypeError, jax.errors.JAXIndexError):
            of_constants = lambda one, other, _: self._function(
                one, other, model_args, model_kwargs
            )
            return jax.jit(of_constants).trace(one, other, []), []


def _layout(model_args: tuple, model_kwargs: dict) -> tuple[tuple, list]:
    """What is static of the arguments, and their arrays."""
    leaves, structure = jax.tree.flatten((model_args, model_kwargs))
    arrays = [leaf for leaf in leaves if isinstance(leaf, np.ndarray | jax.Array)]
    of_leaf = lambda x: _ARRAY if isinstance(x, np.ndarray | jax.Array) else _Static(x)
    return (structure, tuple(map(of_leaf, leaves))), arrays


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
