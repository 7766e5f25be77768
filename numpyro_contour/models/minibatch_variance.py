"""The variance that the choice of a minibatch gives to an energy, from sums over all rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from numpyro_contour.models.plates import SubsamplePlates

Group = tuple[str, ...]
#: sums of the rows' energies over the plates that are not named, for names of a group's plates
Marginals = Mapping[Group, jax.Array]


def subsets(group: Group) -> list[Group]:
    """The subsets of a group in its order, the empty one first, the group itself last."""
    return [s for n in range(len(group) + 1) for s in itertools.combinations(group, n)]


def needed_marginals(group: Group, groups: tuple[Group, ...]) -> list[Group]:
    """The sums that `minibatch_variance` takes of a group's rows."""
    inside_another = any(set(group) < set(other) for other in groups)
    return subsets(group) if inside_another else subsets(group)[:-1]


def minibatch_variance(
    plates: SubsamplePlates,
    marginals: Mapping[Group, Marginals],
    squares: Mapping[Group, jax.Array],
) -> jax.Array:
    r"""The variance of an energy estimated from rows that are drawn with replacement.

    .. math:: \mathrm{Var} = \sum_{T \neq \emptyset} \prod_{p \in T} \frac{N_p^2}{n_p}
              \sum_{S \subseteq T} (-1)^{|T \setminus S|} \overline{m_S^2}

    over the sets T of plates, with :math:`m_S` the mean energy over the other plates of T, of
    all rows that lie inside T. For one plate it is :math:`N^2 / n` times the variance of its rows.
    Rows of nested plates, drawn as the product of their plates' rows, are not independent, and
    this is their analysis of variance.

    Args:
        plates: sizes and minibatch sizes.
        marginals: for each group of rows, its `needed_marginals`.
        squares: the sum of squares of each group's rows.

    Source: Hoeffding (1948), section 5, for the decomposition.
    """
    sizes = {name: size for name, (size, _) in plates.sizes.items()}
    groups = [group for group in marginals if group]
    variance = jnp.zeros((), jnp.result_type(float))
    for inside in dict.fromkeys(t for group in groups for t in subsets(group) if t):
        around = [group for group in groups if set(inside) <= set(group)]
        count = math.prod(sizes[name] for name in inside)
        if around == [inside]:
            sums = marginals[inside]
            squared = {
                s: jnp.mean((sums[s] * (math.prod(sizes[p] for p in s) / count)) ** 2)
                for s in subsets(inside)[:-1]
            }
            squared[inside] = squares[inside] / count
        else:
            energies = sum(marginals[group][inside] for group in around)
            squared = {}
            for s in subsets(inside):
                axes = tuple(i for i, name in enumerate(inside) if name not in s)
                squared[s] = jnp.mean(jnp.mean(energies, axes) ** 2)
        component = sum((-1) ** (len(inside) - len(s)) * x for s, x in squared.items())
        rows = math.prod(plates.sizes[name][1] for name in inside)
        variance += count**2 / rows * jnp.maximum(component, 0.0)
    return variance
