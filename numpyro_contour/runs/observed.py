"""The observations of a run, for ArviZ to look at, where data stay on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpyro
import numpyro.distributions as dist

from numpyro_contour.models.disk.on_disk import IN_MEMORY, stored_of, with_stored
from numpyro_contour.runs.finished_run import FinishedRun


def model_of_observations(run: FinishedRun) -> tuple[Callable | None, tuple, dict[str, Any]]:
    """A model with the observed sites of a run's model, and its arguments.

    It is the run's own model where all data are in memory. ArviZ would read all of those that stay
    on disk: there it is one of the observations alone, and without them from 256 MiB on.

    Args:
        run: a finished run.
    """
    args, kwargs = with_stored((run.model_args, run.model_kwargs))
    if run.model is None or not stored_of((args, kwargs)):
        return run.model, run.model_args, run.model_kwargs
    potential = run.potential(args, kwargs)
    shapes = jax.eval_shape(potential.observations)
    if sum(x.size * x.dtype.itemsize for x in shapes.values()) >= IN_MEMORY:
        return None, (), {}

    def observations(values: dict[str, jax.Array]) -> None:
        for name, value in values.items():
            numpyro.sample(name, dist.Delta(value, event_dim=value.ndim), obs=value)

    return observations, (potential.observations(),), {}
