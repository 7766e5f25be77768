"""Random keys of a model whose latent sites have values: only those that are used are computed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpyro
from jax import random


class constant_seed(numpyro.primitives.Messenger):
    """Handler that gives the keys of `numpyro.handlers.seed(fn, 0)` to what has no value.

    A key is split for each site, but a site that is given a value by a handler outside of this one
    needs none: these splits are made up for when a key is asked for. They are most of what is
    traced of a small model.

    Args:
        fn: a model. None (default) to use the handler as a context manager.
        given: names of sites and of plates that have values. Defaults to ().

    Example:
        >>> import numpyro, numpyro.distributions as dist
        >>> from numpyro_contour.models.seeds import constant_seed
        >>> def model():
        ...     numpyro.sample("a", dist.Normal())
        ...     return numpyro.sample("b", dist.Normal())
        >>> keyed = numpyro.handlers.substitute(constant_seed(model, ["a"]), {"a": 0.0})
        >>> bool(keyed() == numpyro.handlers.seed(model, 0)())
        True
    """

    def __init__(self, fn: Callable | None = None, given: Collection[str] = ()):
        super().__init__(fn)
        self.given = given
        self._key: Any = None
        #: splits that are not made yet
        self._lacking = 0

    def __enter__(self) -> None:
        """Start from the first key."""
        self._key, self._lacking = None, 0
        super().__enter__()

    def process_message(self, msg: dict[str, Any]) -> None:
        """Give a key to a site that has no value and will be given none."""
        if msg["type"] not in ("sample", "prng_key", "plate", "control_flow"):
            return
        if msg["kwargs"]["rng_key"] is not None or msg["value"] is not None:
            return
        self._lacking += 1
        if msg.get("name") in self.given:
            return
        key = random.key(0) if self._key is None else self._key
        for _ in range(self._lacking):
            key, msg["kwargs"]["rng_key"] = random.split(key)
        self._key, self._lacking = key, 0
