"""Models without a continuous latent variable, which NumPyro's kernels run as well.

A loop over models may come to one whose sites are all observed, or to a simplex of one share.
Nothing in adaptation and diffusions is written for positions without coordinates; so such a model
is given one, a standard normal, which no output shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax import random

from numpyro_contour.models.handlers import initialised, unconstrained_values

#: the name of the coordinate that such a model is given
IDLE = "_idle"


@dataclass(frozen=True)
class WithIdleCoordinate:
    """A model with one coordinate more, on which nothing depends."""

    model: Callable

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model."""
        numpyro.sample(IDLE, dist.Normal(0.0, 1.0))
        return self.model(*args, **kwargs)


def has_nothing_to_sample(
    model: Callable, model_args: tuple, model_kwargs: dict, sites: Mapping[str, Any]
) -> bool:
    """Whether no latent site of a model has an unconstrained coordinate.

    Args:
        model: a NumPyro model whose plates have their rows.
        model_args: its arguments.
        model_kwargs: its keyword arguments.
        sites: its sites, which spare most models another trace.
    """
    if not all(_may_be_empty(site) for site in sites.values()):
        return False
    started = initialised(model, random.key(0))
    position = jax.eval_shape(lambda: unconstrained_values(started, model_args, model_kwargs))
    return not any(x.size for x in position.values())


def _may_be_empty(site: Mapping[str, Any]) -> bool:
    """Whether a site may have no coordinate: a share that is 1, a correlation matrix of one."""
    if site["type"] != "sample" or site["is_observed"] or site["fn"].support.is_discrete:
        return True
    event = site["fn"].event_shape
    return 0 in jnp.shape(site["value"]) or (bool(event) and set(event) == {1})
