"""Which narrow modes does a search find, from a wide one?"""

from __future__ import annotations

import statistics
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from numpyro.infer import NUTS

from benchmarks.mode_jumping.kept import Kept
from benchmarks.shared.processes import alone
from benchmarks.shared.tables import markdown_table
from numpyro_contour import ModeJumping

SEARCHES, AWAY = 20, 6.0
#: numbers of coordinates, and standard deviations in units of those of the wide mode
CASES = ((1, 0.03), (3, 0.3), (3, 0.1), (5, 0.3), (5, 0.1), (10, 0.5), (10, 0.3), (20, 0.5))
#: gradients after which no further round begins: the default of `find_modes`, and more
WORK = 50_000, 500_000


def measure(size: int, sd: float, searches: int) -> dict[str, Any]:
    """How many searches find the narrow one of two normals."""
    away = AWAY * np.eye(size)[0]

    def potential(x: jax.Array) -> jax.Array:
        z = (x - away) / sd
        return -jax.nn.logsumexp(jnp.stack([-0.5 * x @ x, -0.5 * z @ z - size * np.log(sd)]))

    kernel = ModeJumping(NUTS(potential_fn=potential))
    row: dict[str, Any] = {"found": [], "gradients": []}
    for work in WORK:
        each = [
            kernel.find_modes(random.key(n), init_params=jnp.zeros(size), most_gradients=work)
            for n in range(searches)
        ]
        row["found"].append(sum(len(modes) > 1 for modes in each) / searches)
        row["gradients"].append(statistics.median(modes.gradients for modes in each))
    return row


def fill(kept: Kept, quick: bool) -> None:
    """Measure the cases that are wanted."""
    for size, sd in CASES[: 1 if quick else None]:
        name = f"{size}-d, sd {sd:g}"
        if kept.wants(name):
            kept.put(name, alone(measure, size, sd, 2 if quick else SEARCHES))


def text(rows: dict[str, dict[str, Any]]) -> str:
    """The text and its table."""
    lines = [
        [name]
        + [
            cell
            for share, gradients in zip(row["found"], row["gradients"])
            for cell in (f"{share:.0%}", f"{gradients:,.0f}")
        ]
        for name, row in rows.items()
    ]
    header = ["narrow mode"]
    header += [f"{what}, limit {work:,}" for work in WORK for what in ("found", "gradients")]
    return (
        "### Which narrow modes are found?\n\nTwo normals of the same mass, six units apart along "
        "a coordinate: one of standard deviation 1, at the place that the search is given, and a "
        f"narrower one. The table has the share of {SEARCHES} searches that find the narrow one, "
        "with the default limit of `find_modes`, which is about that of a run, and with ten times "
        "as much. Gradients are medians of what they took.\n\n" + markdown_table(header, lines)
    )
