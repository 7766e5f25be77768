"""Posterior expectations with their Monte Carlo errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from numpyro_contour.output.resample import added_later, weighted_groups, where_to_add
from numpyro_contour.output.weighted_samples import Chains
from numpyro_contour.statistics import errors
from numpyro_contour.statistics.blocks import Block, in_blocks
from numpyro_contour.statistics.estimates import checked

# An event that came, or stopped, less often has no error; and more so where all draws that show it
# weigh less than one draw.
_FEWEST_VISITS, _FEWEST_WITHOUT_WEIGHT = 2, 10


class Expectation(NamedTuple):
    """An estimate of a posterior expectation; each an array of the shape of one value of f."""

    #: the weighted mean
    mean: np.ndarray
    #: Monte Carlo standard error of the mean
    mcse: np.ndarray
    #: effective sample size for this mean
    ess: np.ndarray


def expectation(
    data: Any,
    f: str | Callable,
    *,
    group: str = "posterior",
    chains: Chains | None = None,
) -> Expectation:
    r"""The posterior expectation of a function of the draws, with its standard error.

    .. math:: E_\pi[f] \approx \frac1C \sum_c \frac{\sum_d w_{cd} f(x_{cd})}{\sum_d w_{cd}}

    Args:
        data: what `to_inference_data` returns, an `MCMC` with a kernel of this package, or the
            folder of a stored run.
        f: the name of a variable; or a function of the group, an `xarray.Dataset` with dimensions
            (chain, draw, ...), that returns an `xarray.DataArray` or an array (chains, draws,
            ...); booleans count as 0 and 1, so that an event gives its probability.
        group: the group that f is of, "posterior" (default) or another with one draw for each
            posterior draw, such as "posterior_predictive".
        chains: numbers of the chains to take, one or several. None (default) for all that have any
            weight.

    Returns:
        An `Expectation`: mean, mcse and ess. Two means differ where they are several mcse apart.
        Where nothing tells how large the error is, mcse and ess are NaN: for an event that came,
        or stopped, less than twice in all chains (or less than ten times, with less weight in all
        than a draw has), and for a mean over modes between which no chain made a round trip.

    Raises:
        ValueError: there are no weights, the group or variable is missing, or f returns something
            else.

    Warns:
        UserWarning: a chain without any weight was left out.

    Source: as `weighted_mcse`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import ContourSGLD, EnergyPartition, expectation
        >>> kernel = ContourSGLD(potential_fn=lambda x: x**2 / 2, step_size=0.1, num_steps=10,
        ...                      partition=EnergyPartition(0.0, 5.0, 10))
        >>> mcmc = MCMC(kernel, num_warmup=200, num_samples=1000, progress_bar=False)
        >>> mcmc.run(jax.random.key(0), init_params=jnp.array(0.0))
        >>> positive = expectation(mcmc, lambda posterior: posterior["z"] > 0)
        >>> bool(abs(positive.mean - 0.5) < 4 * positive.mcse)
        True
    """
    groups = weighted_groups(data, chains)
    if group not in groups:
        raise ValueError(f"`group` takes one of {list(groups)}, but got {group!r}.")
    draws = groups[group]
    log_weights = groups["sample_stats"]["log_weight"].transpose("chain", "draw").values
    if callable(f):
        values = f(draws)
    elif f in draws:
        values = draws[f]
    else:
        if f in added_later(data, group):
            raise ValueError(f"`f` takes no {where_to_add([f], group)}")
        raise ValueError(
            f"`f` takes a function or one of the variables {list(draws.data_vars)}, but got {f!r}."
        )
    if hasattr(values, "dims") and {"chain", "draw"} <= set(values.dims):
        values = values.transpose("chain", "draw", ...)
    array = np.asarray(values)
    if array.dtype.kind not in "biuf" or array.shape[:2] != log_weights.shape:
        raise ValueError(
            f"`f` takes a function that returns numbers of a shape that begins with (chains, "
            f"draws) = {log_weights.shape}, but it returned {array.dtype} of shape {array.shape}."
        )
    mean, mcse, ess = np.moveaxis(in_blocks(_of_block, *checked(array, log_weights)), -1, 0)
    if array.dtype.kind == "b":
        seldom = _is_seldom(array, mean)
        mcse, ess = np.where(seldom, np.nan, mcse), np.where(seldom, np.nan, ess)
    return Expectation(mean, mcse, ess)


def _of_block(block: Block) -> np.ndarray:
    return np.stack([block.mean, errors.mcse(block), errors.ess(block, "mean")], -1)


def _is_seldom(events: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Whether events came, or stopped, so seldom that nothing tells how rare they are."""
    before = np.concatenate([np.zeros_like(events[:, :1]), events[:, :-1]], 1)
    came = (events & ~before).sum((0, 1))
    # What was there from the first draw to the last has come once, and has never stopped.
    before = np.concatenate([np.ones_like(events[:, :1]), events[:, :-1]], 1)
    stopped = (~events & before).sum((0, 1))
    visits = np.minimum(came, stopped)
    # A few steps up a barrier, and down again on the same side, have next to no weight: they say
    # nothing of the mode behind it.
    weighs_nothing = np.minimum(mean, 1 - mean) * events.shape[0] * events.shape[1] < 1
    return (visits < _FEWEST_VISITS) | (weighs_nothing & (visits < _FEWEST_WITHOUT_WEIGHT))
