"""What a model may ask of a step, and the state of its modules, such as running means.

In a step a module takes the statistics of its minibatch, so that nothing has to be carried from
step to step: the state follows from the position and the data. After a run it is evaluated again at
each draw, as the mean over minibatches of all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
from jax import lax, random
from numpyro.primitives import apply_stack

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


_TRAINING, _STEP_KEY = "training", "step_key"


def training() -> bool:
    """Whether a model is evaluated by a step of a sampler, not after the run or for predictions.

    A network with batch normalisation takes the statistics of its minibatch in steps, and those of
    all rows afterwards. Augmentations belong to steps alone. A model that is not run by a kernel of
    this package is in training.

    Returns:
        True in steps, during warm-up and sampling; False in log likelihoods, in `predictive` and in
        `predictive_mean`.

    Example:
        >>> import jax.numpy as jnp, numpyro, numpyro.distributions as dist
        >>> from numpyro_contour import step_key, training
        >>> def model(x, y):
        ...     w = numpyro.sample("w", dist.Normal(0, 1))
        ...     with numpyro.plate("rows", len(y), subsample_size=2) as idx:
        ...         rows = x[idx]
        ...         if training():
        ...             rows += 0.1 * jax.random.normal(step_key(), rows.shape)
        ...         numpyro.sample("y", dist.Normal(w * rows, 1), obs=y[idx])
        >>> training()
        True
    """
    return _ask(_TRAINING, lambda: True)


def step_key() -> jax.Array:
    """A random key that is new in each step of a sampler, for augmentations of a minibatch.

    The energies of a run are those of a mean over such keys, as they are over minibatches. The key
    follows from that of the step, so that a run is reproducible. NumPyro's own `prng_key` is the
    same in all steps: parameters that have no prior are drawn with it.

    Returns:
        A random key, the same for all calls in a step: split it for several purposes. In a model
        that is not run by a kernel of this package it is always the same.

    Example:
        >>> from numpyro_contour import step_key
        >>> step_key() == step_key()
        Array(True, dtype=bool)
    """
    return _ask(_STEP_KEY, lambda: random.key(0))


def _ask(question: str, otherwise: Callable) -> Any:
    message = {"type": question, "fn": otherwise, "args": (), "kwargs": {}, "value": None}
    return apply_stack(message)["value"]


class in_training(numpyro.primitives.Messenger):
    """Handler that answers `training` and `step_key`, and notes whether a model asks.

    Args:
        fn: a model. None (default) to use the handler as a context manager.
        value: what `training` returns. Defaults to True.
        key: what `step_key` returns. None (default) for a key that is always the same.
    """

    def __init__(
        self, fn: Callable | None = None, value: bool = True, key: jax.Array | None = None
    ):
        super().__init__(fn)
        self.value, self.key = value, key
        #: the kinds of messages that were answered
        self.asked: set[str] = set()

    def process_message(self, msg: dict[str, Any]) -> None:
        """Answer."""
        if msg["type"] not in (_TRAINING, _STEP_KEY):
            return
        self.asked.add(msg["type"])
        if msg["type"] == _TRAINING:
            msg["value"] = self.value
        elif self.key is not None:
            msg["value"] = self.key

    @property
    def asked_for_training(self) -> bool:
        """Whether the model has asked `training`."""
        return _TRAINING in self.asked

    @property
    def asked_for_keys(self) -> bool:
        """Whether the model has asked for a `step_key`."""
        return _STEP_KEY in self.asked


def check_training(asked: in_training, states: Sequence[str], plates: SubsamplePlates) -> None:
    """Refuse models whose rows would not be independent after a run, or whose keys stay the same.

    Args:
        asked: the handler of a model that was run.
        states: the names of the states of its modules.
        plates: its subsampled plates.

    Raises:
        ValueError: a module has a state, but the model does not ask whether it is in training, or
            subsamples several plates; or it asks for keys and subsamples no plate.
    """
    if states and not asked.asked_for_training:
        raise ValueError(
            f"The model has a module with a state, {states[0]!r}, such as the means and variances "
            "of batch normalisation, but does not ask whether it is in training: a prediction "
            "would depend on the rows beside it. Tell the module, for instance by "
            "`net(x, train=numpyro_contour.training())` or "
            "`use_running_average=not numpyro_contour.training()`."
        )
    if states and len(plates.sizes) > 1:
        raise ValueError(
            f"The model has a module with a state, {states[0]!r}, and subsamples several plates, "
            f"{', '.join(map(repr, plates.sizes))}; a state is the mean over minibatches of one."
        )
    if asked.asked_for_keys and not plates:
        raise ValueError(
            "The model asks for a `step_key`, but none of its plates is subsampled: all steps "
            "would have the same key. Give `minibatch_size`, or `subsample_size` in the model."
        )
