"""What an estimator of the potential energy is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

#: `(key, position, anchor) -> (potential energy, gradient)` of flat positions; the anchor is that
#: of the chain for a control variate, and passed over by all others
Estimator = Callable[[jax.Array, jax.Array, Any], tuple[jax.Array, jax.Array]]
