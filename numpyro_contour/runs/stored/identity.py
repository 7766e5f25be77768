"""What a stored run is recognized by, so that no other one goes on in its store."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import numpyro
from jax import random
from numpyro.infer import MCMC

from numpyro_contour._version import __version__
from numpyro_contour.core.arrays.hosts import everywhere
from numpyro_contour.core.arrays.vectors import leaf_names
from numpyro_contour.models.same_data import checksum
from numpyro_contour.schedules import Constant

# Where an object lies in memory is no part of a program.
_ADDRESS = re.compile(r"0x[0-9a-f]+")


def identity(
    mcmc: MCMC, key: jax.Array, init_params: Any, args: tuple, kwargs: dict, state: Any, layout: Any
) -> dict[str, Any]:
    """What must be the same in all calls that go on with a run, in words and numbers.

    Args:
        mcmc: the MCMC.
        key: the random key of the run.
        init_params: the first positions that were given, or None.
        args: arguments of the model.
        kwargs: its keyword arguments.
        state: a state of the run.
        layout: what is collected of a draw.

    Returns:
        A dictionary of dictionaries that JSON can hold. "versions" may differ.
    """
    kernel = mcmc.sampler
    like = state.z if mcmc.num_chains == 1 else jax.tree.map(lambda x: x[0], state.z)
    together = mcmc.num_chains > 1 and mcmc.chain_method == "vectorized"
    of_chain = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[together:], x.dtype), layout)
    return {
        "run": {
            "kernel": type(kernel).__name__,
            "num_warmup": mcmc.num_warmup,
            "num_chains": mcmc.num_chains,
            "thinning": mcmc.thinning,
            "chain_method": _name(mcmc.chain_method),
            "key": np.asarray(everywhere(_data(key))).tolist(),
            "init_params": _value(everywhere(init_params)),
            "precision": str(jax.dtypes.canonicalize_dtype(float)),
        },
        "settings": {name: _value(value) for name, value in kernel.settings.items()},
        "model": {
            "model": _name(kernel.source.model or kernel.source.potential_fn),
            "density": _program(kernel, args, kwargs, like),
        },
        "draws": _shapes(of_chain),
        "arguments": _shapes({f"args[{n}]": x for n, x in enumerate(args)}) | _shapes(kwargs),
        "data": {"values": checksum(args, kwargs)},
        "versions": {
            "numpyro_contour": __version__,
            "jax": jax.__version__,
            "numpyro": numpyro.__version__,
            "device": jax.default_backend(),
        },
    }


def differences(kept: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between the identities of two runs, in words; versions are not compared.

    With another version of JAX the same density is another program, and is not compared either.
    """
    found = []
    same_versions = kept["versions"]["jax"] == now["versions"]["jax"]
    for part in ("run", "settings", "model", "draws", "arguments", "data"):
        for name in {**kept[part], **now[part]}:
            here, there = (x[part].get(name, "missing") for x in (now, kept))
            if here == there or ((part, name) == ("model", "density") and not same_versions):
                continue
            if part == "data":
                found.append("the values of the data differ")
            elif name == "density":
                found.append("the density of the model differs")
            else:
                found.append(f"`{name}` is {there} there and {here} here")
    return found


def _shapes(tree: Any) -> dict[str, str]:
    """Types and shapes of arrays, and other values as they are, by their places."""
    return {name: _layout(leaf) for name, leaf in zip(leaf_names(tree), jax.tree.leaves(tree))}


def _layout(leaf: Any) -> str:
    shape = getattr(leaf, "shape", None)
    return repr(leaf) if shape is None else f"{leaf.dtype}{list(shape)}"


def _value(value: Any) -> Any:
    if isinstance(value, Constant):
        value = value.value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    leaves = jax.tree.leaves(value)
    if leaves and all(hasattr(x, "shape") or isinstance(x, int | float) for x in leaves):
        return [f"{_layout(x)} {zlib.crc32(np.asarray(x).tobytes()):08x}" for x in leaves]
    return _name(value)


def _name(value: Any) -> str:
    name = getattr(value, "__qualname__", None)
    return _ADDRESS.sub("", name or str(value))


def _data(key: jax.Array) -> jax.Array:
    is_typed = jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key)
    return random.key_data(key) if is_typed else key


def _program(kernel: Any, args: tuple, kwargs: dict, like: Any) -> str:
    """A number of the computation of the potential energy and of the constants in it."""
    source = kernel.source
    if source.model is None:
        trace = jax.make_jaxpr(source.potential_fn)(like)
    else:
        potential = source.model_potential(args, kwargs)
        trace = jax.make_jaxpr(lambda z: potential.at(z, potential.plates.first_rows()))(like)
    total = zlib.crc32(_ADDRESS.sub("", str(trace.jaxpr)).encode())
    return f"{total ^ checksum(tuple(trace.consts), {}):08x}"
