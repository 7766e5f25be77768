"""Discrete latent variables that are summed out, over minibatches.

NumPyro multiplies log probabilities by N / n before it sums, and log sum_k (p_k q_k)^(N / n) is not
N / n log sum_k p_k q_k. Here each plate's sum is taken first and scaled afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpyro
from jax import random
from numpyro.infer.util import potential_energy

from numpyro_contour.core.arrays.precision import full_precision
from numpyro_contour.models.handlers import initialised
from numpyro_contour.models.plates import SubsamplePlates, subsampled_plates_of


def enumeration_dim(sites: Mapping[str, Any]) -> int | None:
    """The first dimension left of all plates, or None where nothing is to be summed out.

    Raises:
        ValueError: a discrete latent variable is marked for another enumeration, or has none.
    """
    enumerated = False
    nesting = 0
    for name, site in sites.items():
        if site["type"] != "sample":
            continue
        dims = [frame.dim for frame in site["cond_indep_stack"] if frame.dim is not None]
        nesting = max([nesting, *(-dim for dim in dims)])
        if site["is_observed"] or not site["fn"].support.is_discrete:
            continue
        # NumPyro's kernels sum out sites without a mark too, with a warning that this will end.
        marked = site["infer"].get("enumerate") in (None, "parallel")
        if not marked or not site["fn"].has_enumerate_support:
            raise ValueError(
                f"The latent variable {name!r} is discrete, and Langevin dynamics needs gradients. "
                f"Sum it out: mark it `infer={{'enumerate': 'parallel'}}` if its distribution can "
                f"be enumerated (needs the package funsor), or write the mixture as "
                f"`dist.MixtureSameFamily`."
            )
        enumerated = True
    return -nesting - 1 if enumerated else None


def check_groups(
    model: Callable, model_args: tuple, model_kwargs: dict, plates: SubsamplePlates, dim: int
) -> None:
    """Refuse a sum over a variable that several rows share: it has no unbiased estimate.

    Raises:
        ValueError: sites inside a subsampled plate depend on an enumerated variable outside it.
    """
    from numpyro.contrib.funsor import config_enumerate, enum
    from numpyro.contrib.funsor.enum_messenger import trace
    from numpyro.contrib.funsor.infer_util import plate_to_enum_plate

    sites: dict[str, Any] = {}

    def run() -> None:
        enumerated = enum(config_enumerate(initialised(model, random.key(0))), dim)
        with plate_to_enum_plate():
            sites.update(trace(enumerated).get_trace(*model_args, **model_kwargs))

    jax.eval_shape(run)
    for name, site in sites.items():
        if site["type"] != "sample":
            continue
        group = subsampled_plates_of(site, plates)
        for other in site["infer"]["dim_to_name"].values():
            if other in sites and sites[other]["type"] == "sample":
                outer = subsampled_plates_of(sites[other], plates)
                if outer != group:
                    raise ValueError(
                        f"{name!r} inside the subsampled plates {list(group)} depends on the "
                        f"enumerated latent variable {other!r}, which is not inside all of them: "
                        f"the sum over its values needs every row at once. Do not subsample, or "
                        f"sample {other!r} inside the plates."
                    )


@full_precision
def enumerated_energy(
    model: Callable,
    model_args: tuple,
    model_kwargs: dict,
    position: dict,
    plates: SubsamplePlates,
    dim: int,
    group: tuple[str, ...] | None,
) -> jax.Array:
    """The part of one group in a potential energy with discrete sites summed out.

    A group holds the observations inside the same subsampled plates. Their energies are not scaled
    here. None stands for everything outside all subsampled plates.
    """
    from numpyro.contrib.funsor import config_enumerate, enum

    handled = _one_group(model, plates, group)
    enumerated = enum(config_enumerate(handled), dim)
    return potential_energy(enumerated, model_args, model_kwargs, position, enum=True)


def plate_scale(group: tuple[str, ...], plates: SubsamplePlates) -> float:
    """How many rows of the data each row of a minibatch stands for, over all plates named."""
    return math.prod(plates.sizes[name][0] / plates.sizes[name][1] for name in group)


class _one_group(numpyro.primitives.Messenger):
    """Handler that removes the scales of plates and masks everything outside one group."""

    def __init__(self, fn: Callable, plates: SubsamplePlates, keep: tuple[str, ...] | None):
        super().__init__(fn)
        self.plates, self.keep = plates, keep

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] != "sample":
            return
        group = subsampled_plates_of(msg, self.plates)
        if group:
            scale = plate_scale(group, self.plates)
            if scale != 1:  # plates of all rows set none
                msg["scale"] = msg["scale"] / scale
        if msg["is_observed"] or not msg["fn"].support.is_discrete:
            masked = bool(group) if self.keep is None else group != self.keep
        else:
            masked = False  # the probabilities of a discrete variable add up to 1
        if masked:
            msg["fn"] = msg["fn"].mask(False)
