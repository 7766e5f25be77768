"""A model outside training: the states of its modules at a position, over all rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from numpyro.infer.util import potential_energy

from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.module_state import State, mean_state, with_state


def outside_training(potential: ModelPotential, position: Any) -> ModelPotential:
    """The potential energy with modules as they are after training at a position.

    Args:
        potential: the potential energy of a model.
        position: unconstrained values of the latent sites, by name.

    Returns:
        One whose rows do not depend on each other.
    """
    if not potential.asks:
        return potential
    return replace(potential, state=state_at(potential, position))


def state_at(potential: ModelPotential, position: Any) -> State:
    """The states of a model's modules at a position, {} where they have none.

    Args:
        potential: the potential energy of a model.
        position: unconstrained values of the latent sites, by name.
    """

    def run(state: State | None, rows: Any) -> with_state:
        model = with_state(potential.rows(rows), state)
        potential_energy(model, potential.model_args, potential.model_kwargs, position)
        return model

    return of_minibatches(potential, run)


def of_minibatches(
    potential: ModelPotential, run: Callable[[State | None, Any], with_state]
) -> State:
    """The mean of the states that a model's modules take from the minibatches of all rows."""
    if not potential.has_state:
        return {}
    # The last rows are left out where they do not fill a minibatch: it would count as the others.
    rows = {
        name: jnp.arange(size - size % minibatch).reshape(-1, minibatch)
        for name, (size, minibatch) in potential.plates.sizes.items()
    }
    whole = {name: jnp.arange(size)[None] for name, size in potential.plates.whole.items()}
    if not rows:
        return mean_state(run, whole or {"": jnp.zeros((1, 0))})
    count = len(next(iter(rows.values())))
    all_rows = {name: jnp.repeat(x, count, 0) for name, x in whole.items()}
    return jax.lax.stop_gradient(mean_state(run, rows | all_rows))
