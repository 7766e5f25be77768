"""The state of a model's modules, such as the running means of batch normalisation.

In a step a module takes the statistics of its minibatch, so that nothing has to be carried from
step to step: the state follows from the position and the data. After a run it is evaluated anew at
each draw, as the mean over minibatches of all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
from jax import lax

from numpyro_contour.models.plates import SubsamplePlates

#: the states of modules, by name of the `numpyro.mutable` site
State = Mapping[str, Any]


class with_state(numpyro.primitives.Messenger):
    """Handler that gives modules their state, and keeps what they make of it.

    Args:
        fn: a model. None (default) to use the handler as a context manager.
        state: the state of each module. None (default) for those that they begin with.
    """

    def __init__(self, fn: Callable | None = None, state: State | None = None):
        super().__init__(fn)
        self._given = {} if state is None else state
        #: the states that modules began with, and as they left them
        self.before: dict[str, Any] = {}
        self.after: dict[str, Any] = {}

    def process_message(self, msg: dict[str, Any]) -> None:
        """Fill the holder of a module's state."""
        # A module asks for its state with nothing first, and then registers what it begins with.
        if msg["type"] != "mutable" or msg["args"][0] is None:
            return
        name, holder = msg["name"], msg["args"][0]
        if name in self._given:
            # In place: modules go on with the holder that they registered.
            holder.update(jax.tree.map(lambda x: x, self._given[name]))
        self.before[name] = jax.tree.map(lambda x: x, dict(holder))
        self.after[name] = holder


def mean_state(run: Callable[[State | None, Any], with_state], minibatches: Any) -> State:
    r"""The state of modules over all rows, as the mean of that of minibatches.

    A module updates its state to :math:`m s + (1 - m) b`, with b that of the minibatch. From the
    updates of 0 and of 1 both m and b follow, whatever m is.

    Args:
        run: `(state, rows) -> handler`, which runs the model on rows of a minibatch.
        minibatches: rows of plates, each with a leading axis of minibatches.

    Returns:
        The mean of b, by name of site. What is not a floating-point number stays as it was.
    """
    first = run(None, jax.tree.map(lambda x: x[0], minibatches)).before

    def filled(value: float) -> State:
        return jax.tree.map(lambda x: jnp.full_like(x, value) if _is_float(x) else x, first)

    def updated(value: float, rows: Any) -> State:
        return run(filled(value), rows).after

    def seen(first: Any, none: Any, one: Any) -> Any:
        if not _is_float(first):
            return first
        share = 1 - (one - none)
        # Where a module leaves its state alone, m is 1.
        return jnp.where(share > 0, none / jnp.where(share > 0, share, 1.0), first)

    def of_minibatch(total: Any, rows: Any) -> tuple[Any, None]:
        found = jax.tree.map(seen, first, updated(0.0, rows), updated(1.0, rows))
        return jax.tree.map(lambda x, y: x + y if _is_float(x) else x, total, found), None

    count = len(jax.tree.leaves(minibatches)[0])
    totals, _ = lax.scan(of_minibatch, filled(0.0), minibatches)
    return jax.tree.map(lambda x: x / count if _is_float(x) else x, totals)


def _is_float(x: Any) -> bool:
    return jnp.issubdtype(jnp.result_type(x), jnp.floating)


def state_over_all_rows(
    plates: SubsamplePlates, run: Callable[[State | None, Any], with_state]
) -> State:
    """The mean of the states that a model's modules take from the minibatches of all rows.

    Args:
        plates: the subsampled plates of the model.
        run: as for `mean_state`.
    """
    # The last rows are left out where they do not fill a minibatch: it would count as the others.
    rows = {
        name: jnp.arange(size - size % minibatch).reshape(-1, minibatch)
        for name, (size, minibatch) in plates.sizes.items()
    }
    whole = {name: jnp.arange(size)[None] for name, size in plates.whole.items()}
    if not rows:
        return mean_state(run, whole or {"": jnp.zeros((1, 0))})
    count = len(next(iter(rows.values())))
    all_rows = {name: jnp.repeat(x, count, 0) for name, x in whole.items()}
    return mean_state(run, rows | all_rows)
