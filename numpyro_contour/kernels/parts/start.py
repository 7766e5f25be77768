"""Where chains start: initial positions, and their checks where values are concrete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.util import initialize_model

from numpyro_contour.checks import warn_user
from numpyro_contour.core.arrays.decentred import in_coordinates_of
from numpyro_contour.core.arrays.hosts import everywhere
from numpyro_contour.core.arrays.vectors import ravel
from numpyro_contour.kernels.parts.parts import Parts
from numpyro_contour.models.either_mode import in_either_mode
from numpyro_contour.models.handlers import subsample_rows
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.nothing_to_sample import IDLE


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
        return _numbers(init_params)

    def initialized(forward: bool) -> dict[str, jax.Array]:
        return initialize_model(
            key,
            subsample_rows(potential.model, potential.plates.first_rows()),
            init_strategy=init_strategy,
            model_args=potential.model_args,
            model_kwargs=potential.model_kwargs,
            forward_mode_differentiation=forward,
        ).param_info.z

    def by_strategy() -> dict[str, jax.Array]:
        return in_either_mode(initialized)

    if init_params is None:
        return by_strategy()
    if IDLE in potential.latent and isinstance(init_params, dict):
        init_params = {IDLE: jnp.zeros(()), **init_params}
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
    given = {name: jnp.asarray(init_params[name], x.dtype) for name, x in expected.items()}
    return in_coordinates_of(init_params, given)


def _numbers(init_params: Any) -> Any:
    """The position of a potential function in floating point.

    Raises:
        ValueError: there are no numbers in it, or other things.
    """
    takes = "`init_params` takes arrays of numbers, at least one number in all"
    try:
        found = jax.tree.map(lambda x: jnp.asarray(x, jnp.result_type(x, float)), init_params)
    except TypeError as error:
        raise ValueError(f"{takes}, but got {init_params!r}.") from error
    if not sum(x.size for x in jax.tree.leaves(found)):
        raise ValueError(f"{takes}, but got the shapes {jax.tree.map(jnp.shape, found)}.")
    return found


def with_first_anchors(parts: Parts, state: Any, model_args: tuple, model_kwargs: dict) -> Any:
    """The state of one chain or of all at the start, with slots for the anchors that are to come.

    They are not made while the start is traced, which hides the values of the data.

    Args:
        parts: the parts of the kernel.
        state: the state.
        model_args: arguments of the model.
        model_kwargs: its keyword arguments.
    """
    chains = jnp.shape(state.potential_energy_estimate)
    like = jax.tree.map(lambda x: x[0], state.z) if chains else state.z
    energies = parts.energies(parts.source.potential(model_args, model_kwargs), like)
    if parts.plan is None or energies.estimator != "control_variate":
        return state
    blank = energies.expansions.no_anchors(ravel(like).shape[0])
    anchors = jax.tree.map(lambda x: jnp.broadcast_to(x, chains + x.shape), blank)
    return state._replace(warmup=state.warmup._replace(anchors=anchors))


def check_chains(init_params: Any, chains: int) -> None:
    """Check that the values of several chains have an axis of chains.

    Raises:
        ValueError: one of them has not.
    """
    if any(np.shape(x)[:1] != (chains,) for x in jax.tree.leaves(init_params)):
        raise ValueError(
            f"`init_params` takes the values of {chains} chains along the first axis of each "
            f"array, but got the shapes {jax.tree.map(np.shape, init_params)}."
        )


def warn_if_idle(position: Any) -> None:
    """Say that a run samples nothing.

    Warns:
        UserWarning: the position has the coordinate that a model without any is given.
    """
    if isinstance(position, dict) and IDLE in position:
        warn_user(
            "`model` has no continuous latent variable: all its sites are observed, deterministic "
            "or summed out, or can take one value only. There is nothing to sample. If some should "
            "be latent, look for an `obs` or a handler that gives them values."
        )


def raise_if_unusable(usable: dict[str, jax.Array], energy: jax.Array) -> None:
    """Raise if a chain cannot start. While JAX traces, nothing is raised: the counters show it.

    Raises:
        ValueError: the potential energy or its gradient is not finite.
    """
    if any(isinstance(flag, jax.core.Tracer) for flag in usable.values()):
        return
    usable, energy = everywhere((usable, energy))
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
