"""Draws of equal weight beside the weighted ones: two forms of the groups of one run.

In memory the groups `posterior` and `sample_stats` hold weighted draws. As they are handed out,
they hold draws of equal weight, which is what every function of ArviZ takes them for, and the
weighted ones stand beside them with a prefix.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from numpyro_contour.statistics.resampling import systematic
from numpyro_contour.statistics.weights import normalise, normalised

#: what the names of groups of weighted draws begin with
PREFIX = "weighted_"
# What is of the weighted draws alone, and would be misread beside others.
_OF_WEIGHTS = ("log_weight", "log_theta", "theta_draw")


def weights_of(groups: dict[str, xr.Dataset]) -> np.ndarray:
    """The weights of the draws, (chains, draws), of mean 1 in each chain."""
    return normalise(groups["sample_stats"]["log_weight"].transpose("chain", "draw")).weights


def with_equal_weights(groups: dict[str, xr.Dataset]) -> dict[str, xr.Dataset]:
    """The groups as they are handed out: draws of equal weight, and the weighted ones beside them.

    Each chain is resampled systematically, always in the same way, and its draws stay in the order
    of time. A chain without any weight has no such draws, and is left out of these groups. Draws
    that have equal weights anyhow are kept once, under the plain names.
    """
    log_weights = groups["sample_stats"]["log_weight"].transpose("chain", "draw").values
    # A weight that is not a number is none.
    weights = normalised(np.where(log_weights < np.inf, log_weights, -np.inf)).weights
    live = np.flatnonzero(weights.any(1))
    if not live.size or (len(live) == len(weights) and np.ptp(weights) == 0):
        return groups
    rng = np.random.default_rng(0)
    draws = np.stack([systematic(rng, weights[chain], weights.shape[1]) for chain in live])
    found = {}
    for name, group in groups.items():
        if not is_weighted(name, group):
            found[name] = group
            continue
        plain = group.drop_vars([n for n in _OF_WEIGHTS if n in group.variables])
        # Numbers of chains and draws stay: what is of time or of a chain is still told by them.
        chosen = plain.isel(chain=live)
        found[name] = draws_taken(
            chosen, (len(live), weights.shape[1]), np.arange(len(live))[:, None], draws
        ).assign_coords({dim: chosen[dim] for dim in ("chain", "draw")})
        found[PREFIX + name] = group
    return found


def is_weighted(name: str, group: xr.Dataset) -> bool:
    """Whether a group has a draw for each draw of the posterior."""
    return {"chain", "draw"} <= set(group.dims) and not name.startswith("prior")


def weighted_of(groups: dict[str, xr.Dataset]) -> dict[str, xr.Dataset]:
    """The groups of weighted draws under their plain names, of groups as they were handed out.

    Files of versions that had weighted draws under the plain names, and theta itself, are read too.
    """
    beside = {name.removeprefix(PREFIX): g for name, g in groups.items() if name.startswith(PREFIX)}
    # Other groups with draws are of those of equal weight, as what a user added after the run.
    rest = {
        name: g
        for name, g in groups.items()
        if not name.startswith(PREFIX) and not (beside and is_weighted(name, g))
    }
    found = rest | beside
    stats = found.get("sample_stats")
    if stats is not None and "theta" in stats:
        with np.errstate(divide="ignore"):
            log_theta = np.log(stats["theta"])
        found["sample_stats"] = stats.drop_vars("theta").assign(log_theta=log_theta)
    return found


def draws_taken(
    group: xr.Dataset, shape: tuple[int, ...], chains: np.ndarray, draws: np.ndarray
) -> xr.Dataset:
    """Draws by their numbers in all variables of a group that have them.

    Args:
        group: the group.
        shape: chains and draws that there are.
        chains: the places of the chains that are taken, of a shape that broadcasts to that of
            `draws`.
        draws: the places of the draws in them, (chains, draws).

    Raises:
        ValueError: a variable has other draws than the posterior.
    """
    places = {"chain": xr.Variable(("chain", "draw"), np.broadcast_to(chains, draws.shape))}
    places["draw"] = xr.Variable(("chain", "draw"), draws)

    def take(variable: xr.DataArray) -> xr.Variable:
        if "draw" not in variable.dims:
            return variable.variable
        ordered = variable.variable.transpose("chain", "draw", ...)
        if ordered.shape[:2] != shape:
            raise ValueError(
                f"`data` takes groups with one draw for each posterior draw, but {variable.name!r} "
                f"has {ordered.shape[:2]} (chains, draws), not {shape}."
            )
        # Not read yet, where the draws are in a file.
        return ordered.isel(places)

    coords = {name: c for name, c in group.coords.items() if not {"chain", "draw"} & set(c.dims)}
    coords |= {"chain": np.arange(draws.shape[0]), "draw": np.arange(draws.shape[1])}
    if "theta_draw" in group.coords:
        coords["theta_draw"] = group.coords["theta_draw"]
    variables = {
        name: take(x)
        for name, x in group.data_vars.items()
        if "draw" in x.dims or "chain" not in x.dims or draws.shape[0] == shape[0]
    }
    return xr.Dataset(variables, coords, group.attrs)
