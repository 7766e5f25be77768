"""Ways of running that cannot work with rows on several devices."""

from __future__ import annotations

from typing import Any

import jax

from numpyro_contour.models.local_rows import number_of_devices
from numpyro_contour.models.operands import is_compiled


def check_start(rng_key: jax.Array, model_args: tuple, model_kwargs: dict) -> None:
    """Refuse chains that start inside of a compiled program, with rows outside of it.

    Args:
        rng_key: the random key, or keys, with which chains start.
        model_args: arguments of the model.
        model_kwargs: its keyword arguments.

    Raises:
        ValueError: the rows lie on several devices.
    """
    devices = _devices(model_args, model_kwargs)
    if devices > 1 and is_compiled(rng_key):
        raise ValueError(
            f"`chain_method` takes 'vectorized' or 'sequential' where the rows of the data lie on "
            f"several devices, here {devices}: 'parallel' and other compiled functions would copy "
            "all rows to each of them. To have chains on several devices too, give `run` random "
            "keys that lie there."
        )


def check_data(state: Any, model_args: tuple, model_kwargs: dict) -> None:
    """Refuse rows that become constants of a compiled program.

    Args:
        state: the state of one chain or of all.
        model_args: arguments of the model.
        model_kwargs: its keyword arguments.

    Raises:
        ValueError: the rows lie on several devices.
    """
    devices = _devices(model_args, model_kwargs)
    if devices > 1 and is_compiled(state.rng_key):
        raise ValueError(
            f"`jit_model_args` of MCMC takes True where the rows of the data lie on several "
            f"devices, here {devices}: with False JAX copies all rows to each of them, and each "
            "computes everything."
        )


def _devices(model_args: tuple, model_kwargs: dict) -> int:
    """The devices over which concrete arrays are spread."""
    arrays = [
        leaf
        for leaf in jax.tree.leaves((model_args, model_kwargs))
        if isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)
    ]
    return max(map(number_of_devices, arrays), default=1)
