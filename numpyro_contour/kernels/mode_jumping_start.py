"""Where chains of `ModeJumping` begin, and what they know then."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from numpyro.util import is_prng_key

from numpyro_contour.core.arrays.vectors import coordinate_names, leaf_names
from numpyro_contour.kernels.inner_kernels import Inner
from numpyro_contour.kernels.mode_jumping_state import Jumping, ModeJumpingState
from numpyro_contour.models.same_data import checksum
from numpyro_contour.modes.learning import no_lessons, pooled_covariance
from numpyro_contour.modes.mode_list import ModeList
from numpyro_contour.modes.mode_shapes import mode_shapes
from numpyro_contour.modes.tries import Point, first_plan, no_counts
from numpyro_contour.warmup.mode_finder import generator_of

# Modes between which chains jump at most: all labellings of five components, but fewer where a mode
# has many coordinates. The largest number of elements of all their factors; the fewest modes.
_MOST_MODES, _ELEMENTS, _FEWEST_MODES = 128, 130_000, 32
_MOST_OF_MANY, _MANY = 16, 250
# How much less than the heaviest one a mode may weigh, in nats, in many coordinates.
_UNCERTAIN = 5.0
# A chain that starts by itself begins in one of this number of modes.
_MOST_STARTS = 8
# Makes another key out of that of the inner kernel.
_OF_START = 0x73746172


def first_state(
    known: ModeList,
    inner: Inner,
    state: Any,
    num_warmup: int,
    tries: int,
    moves: bool,
    centring: Any,
) -> ModeJumpingState:
    """The first state, of one chain or of all.

    Args:
        known: the modes.
        inner: the inner kernel.
        state: its first state.
        num_warmup: draws of warm-up to come.
        tries: tries to jump after each draw.
        moves: whether chains begin in the modes.
        centring: how much sites are centred in the coordinates that are sampled, or ().
    """
    keys = state.rng_key
    chains = () if is_prng_key(keys) else (len(keys),)
    if len(known) < 2 or not tries:
        first: Any = np.zeros(chains, np.int32)
        return ModeJumpingState(state, first, (), (), centring)
    size = known.mean.shape[1]
    many = size > _MANY
    most = min(_MOST_MODES, max(_FEWEST_MODES, _ELEMENTS // size**2))
    known = known.heaviest(_MOST_OF_MANY if many else most)
    log_mass = known.log_integral
    if many:  # the volumes of such modes are uncertain by several nats
        log_mass = np.maximum(log_mass, log_mass.max() - _UNCERTAIN)
    modes = mode_shapes(known.mean, known.factor, log_mass)
    dtype = modes.mean.dtype
    of_type = lambda x: x.astype(dtype) if x.dtype.kind == "f" else x
    plan = first_plan(modes, jax.tree.map(of_type, known.flips), tries)
    counts = jax.tree.map(
        lambda x: np.broadcast_to(x, (*chains, *x.shape)), no_counts(modes.number)
    )
    numbers = _first_modes(keys, modes.number)
    if moves:
        state = _at_bottoms(inner, state, numbers, known, dtype)
    state = inner.with_metric(state, partial(pooled_covariance, modes))
    length: Any = np.asarray(num_warmup)
    jumping = Jumping(plan, no_lessons(modes), length)
    return ModeJumpingState(state, numbers, counts, jumping, centring)


def _first_modes(keys: jax.Array, number: int) -> Any:
    """The mode that each chain begins in: the heaviest ones in turn, or any of these."""
    if not is_prng_key(keys):
        return np.arange(len(keys), dtype=np.int32) % number
    most = min(_MOST_STARTS, number)
    if isinstance(keys, jax.core.Tracer):
        return random.randint(random.fold_in(keys, _OF_START), (), 0, most)
    return np.int32(generator_of(keys).integers(most))


def _at_bottoms(inner: Inner, state: Any, numbers: Any, known: ModeList, dtype: Any) -> Any:
    """Chains at the bottoms of modes."""
    xp: Any = jnp if isinstance(numbers, jax.core.Tracer) else np
    bottoms = (x.astype(dtype) for x in (known.mean, known.energy, known.gradient))
    return inner.moved(state, Point(*(xp.asarray(x)[numbers] for x in bottoms)))


def size_of(like: Any) -> int:
    """The number of coordinates of positions in these shapes."""
    return sum(math.prod(x.shape) for x in jax.tree.leaves(like))


def rows_of(name: str, positions: Any, like: Any, batched: bool = True) -> np.ndarray:
    """Unconstrained positions as vectors, (n, d).

    Args:
        name: the argument that they come from.
        positions: in the structure of `like`, with an axis for their number in front.
        like: the shapes of one.
        batched: whether they have that axis. Defaults to True.

    Raises:
        ValueError: they have other sites or shapes.
    """
    leaves: list[Any]
    structure: Any
    leaves, structure = jax.tree.flatten(like)
    takes = ", ".join(f"{n}: {x.shape}" for n, x in zip(leaf_names(like), leaves))
    try:
        given: list[Any] = [np.asarray(x, np.float64) for x in structure.flatten_up_to(positions)]
        given = given if batched else [x[None] for x in given]
        number = len(given[0])
        rows = [x.reshape(number, *y.shape).reshape(number, -1) for x, y in zip(given, leaves)]
        return np.concatenate(rows, 1)
    except (ValueError, TypeError, KeyError):
        shapes = jax.tree.map(np.shape, positions)
        raise ValueError(
            f"`{name}` takes unconstrained positions, {{{takes}}}, each with one more axis in "
            f"front for their number, but got {shapes}."
        ) from None


def known_before(
    found: Mapping[int, ModeList], like: Any, args: tuple, kwargs: dict
) -> ModeList | None:
    """The modes that were found before on these data; None where they are to be searched for.

    Args:
        found: lists of modes, by a number of their data.
        like: the shapes of an unconstrained position.
        args: arguments of the model.
        kwargs: its keyword arguments.

    Raises:
        ValueError: data are traced, so that nothing can be searched for.
    """
    known = found.get(checksum(args, kwargs))
    if known is not None:
        return known if known.coordinates == tuple(coordinate_names(like)) else None
    if not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((args, kwargs))):
        return None
    if len(found) != 1:
        raise ValueError(
            "`ModeJumping` searches for modes on the data's values, but they are traced, as inside "
            "of `jax.jit` or `jax.vmap`. Call its `find_modes(key, *args, **kwargs)` with the data "
            "before, or give `modes`."
        )
    return next(iter(found.values()))


def check_coordinates(name: str, modes: ModeList, like: Any) -> None:
    """Refuse the modes of another model.

    Raises:
        ValueError: the coordinates differ.
    """
    expected = tuple(coordinate_names(like))
    if modes.coordinates != expected:
        raise ValueError(
            f"`{name}` takes modes in the coordinates {', '.join(expected)}, but got modes in "
            f"{', '.join(modes.coordinates)}."
        )
