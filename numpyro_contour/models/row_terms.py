"""The potential energy of a model term by term, so that differences are taken row by row.

The energies of all rows add up to so much that float32 cannot tell two positions apart by their
sums; the differences of the terms are small and can be summed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro
from numpyro.infer.util import potential_energy

from numpyro_contour.core.arrays.precision import full_precision
from numpyro_contour.models.enumeration import plate_scale
from numpyro_contour.models.model_potential import ModelPotential


class Term(NamedTuple):
    """The part of one site in a potential energy."""

    #: energies in nats of the site's rows, scaled to all rows of the data
    values: jax.Array
    #: the plates around the site: name to axis, counted from the right
    axes: dict[str, int]


class _record_terms(numpyro.primitives.Messenger):
    """Handler that records the energy of every site, not summed over its rows.

    Around all others, it is the first to see a site that has its value: NumPyro adds up the
    densities of samples, and would trace each of them a second time.
    """

    def __init__(self, fn: Callable | None = None):
        super().__init__(fn)
        self.terms: dict[str, Term] = {}

    def postprocess_message(self, msg: dict[str, Any]) -> None:
        """Record the site's energy, as `numpyro.infer.util.log_density` computes it."""
        if msg["type"] != "sample":
            return
        intermediates = [msg["intermediates"]] if msg["intermediates"] else []
        log_prob = msg["fn"].log_prob(msg["value"], *intermediates)
        if msg["scale"] is not None:
            log_prob = msg["scale"] * log_prob
        axes = {frame.name: frame.dim for frame in msg["cond_indep_stack"]}
        self.terms[msg["name"]] = Term(-jnp.asarray(log_prob), axes)
        msg["type"] = "deterministic"


@full_precision
def site_terms(
    potential: ModelPotential, position: dict, indices: Mapping[str, jax.Array]
) -> dict[str, Term]:
    """The terms of a model without enumerated sites, over the given rows."""
    recorder = _record_terms()
    with recorder:
        model = potential.rows(indices, position)
        potential_energy(model, potential.model_args, potential.model_kwargs, position)
    return recorder.terms


def terms(
    potential: ModelPotential, position: dict, indices: Mapping[str, jax.Array]
) -> dict[str, jax.Array]:
    """Energies, scaled to all rows, that add up to the potential energy over the given rows."""
    if potential.first_available_dim is None:
        found = site_terms(potential, position, indices)
        return {name: term.values for name, term in found.items()}
    energies = {"": potential.of_group(position, indices, None)}
    for group in potential.groups:
        if group:
            scale = plate_scale(group, potential.plates.taking(indices))
            energies["/".join(group)] = scale * row_energies(potential, position, group, indices)
    return energies


def axes_of_terms(
    potential: ModelPotential, position: Any, indices: Mapping[str, jax.Array]
) -> dict[str, dict[str, int]]:
    """The subsampled plates around each of the `terms`: name to axis, counted from the right."""
    if potential.first_available_dim is not None:
        return {
            "/".join(group): {name: place - len(group) for place, name in enumerate(group)}
            for group in potential.groups
            if group
        }
    axes: dict[str, dict[str, int]] = {}

    def run(position: Any, indices: Any) -> None:
        for name, term in site_terms(potential, position, indices).items():
            axes[name] = {p: axis for p, axis in term.axes.items() if p in potential.plates.sizes}

    jax.eval_shape(run, position, dict(indices))
    return axes


def terms_outside(potential: ModelPotential, position: dict) -> dict[str, jax.Array]:
    """Energies that add up to the potential energy outside all subsampled plates."""
    first = potential.plates.first_rows()
    if potential.first_available_dim is not None:
        return {"": potential.of_group(position, first, None)}
    found = site_terms(potential, position, first)
    return {name: term.values for name, term in found.items() if not _group(term, potential)}


def row_energies(
    potential: ModelPotential,
    position: dict,
    group: tuple[str, ...],
    indices: Mapping[str, jax.Array],
) -> jax.Array:
    """The energies of rows inside the plates of a group, in nats, an axis for each plate."""
    if potential.first_available_dim is not None:
        return _enumerated_rows(potential, position, group, indices)
    counts = [indices[name].shape[0] for name in group]
    scale = plate_scale(group, potential.plates.taking(indices))
    found = [
        _along(term, group, counts)
        for term in site_terms(potential, position, indices).values()
        if _group(term, potential) == group
    ]
    return sum(found[1:], found[0]) / scale


def _group(term: Term, potential: ModelPotential) -> tuple[str, ...]:
    return tuple(sorted(name for name in term.axes if name in potential.plates.sizes))


def _along(term: Term, group: tuple[str, ...], counts: list[int]) -> jax.Array:
    """A term with the plates of its group as axes, summed over all others."""
    depth = max(-term.axes[name] for name in group)
    values = term.values
    values = values.reshape((1,) * max(depth - values.ndim, 0) + values.shape)
    kept = [values.ndim + term.axes[name] for name in group]
    values = values.sum([axis for axis in range(values.ndim) if axis not in kept], keepdims=True)
    values = jnp.moveaxis(values, kept, range(len(kept))).reshape([values.shape[a] for a in kept])
    # A term that does not vary along a plate is counted once by NumPyro: a share for each row.
    lacking = math.prod(n for n, size in zip(counts, values.shape) if size != n)
    return jnp.broadcast_to(values / lacking, counts)


def _enumerated_rows(
    potential: ModelPotential,
    position: dict,
    group: tuple[str, ...],
    indices: Mapping[str, jax.Array],
) -> jax.Array:
    """Row by row, since the sum over a discrete variable is not one over rows of terms."""
    others = potential.plates.first_rows()

    def of_row(*rows: jax.Array) -> jax.Array:
        chosen = others | {name: row[None] for name, row in zip(group, rows)}
        return potential.of_group(position, chosen, group)

    for place in reversed(range(len(group))):
        of_row = jax.vmap(of_row, [0 if i == place else None for i in range(len(group))])
    return of_row(*(indices[name] for name in group))
