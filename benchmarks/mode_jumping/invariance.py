"""A million draws on a density whose figures are known: is there a bias, and is one seen?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.scipy.special import gammaln
from numpyro.infer import NUTS
from scipy import stats

from benchmarks.mode_jumping.kept import Kept
from benchmarks.shared import runs
from benchmarks.shared.processes import alone
from benchmarks.shared.tables import markdown_table
from numpyro_contour import ModeJumping
from numpyro_contour.modes import moves

CHAINS, WARMUP, DRAWS, TRIES = 100, 500, 10_000, 3
MASSES = np.array([0.5, 0.3, 0.2])
MEANS = np.array([[0.0, 0.0], [6.0, 1.0], [2.0, -6.0]])
#: of a normal of correlated coordinates; Student's t of 5 degrees of freedom; and Gumbels
ROOT = np.array([[1.0, 0.0], [0.8, 0.6]])
NU, WIDE, SKEWED = 5.0, 1.2, 0.4
#: how the kernel is broken
BREAKS = {
    "as it is": None,
    "the determinant left out": lambda move: move._replace(log_factor=0.0 * move.log_factor),
    "no look at the way back": lambda move: move._replace(aim=0 * move.aim - 1),
}


def log_parts(x: jax.Array) -> jax.Array:
    """Log densities of the three modes, times their masses."""
    z = jnp.linalg.solve(ROOT, x - MEANS[0])
    normal = -0.5 * z @ z - math.log(2 * math.pi * np.linalg.det(ROOT))
    z = (x - MEANS[1]) / WIDE
    heavy = gammaln((NU + 2) / 2) - gammaln(NU / 2) - math.log(NU * math.pi * WIDE**2)
    heavy -= 0.5 * (NU + 2) * jnp.log1p(z @ z / NU)
    z = (x - MEANS[2]) / SKEWED
    skewed = -jnp.sum(z + jnp.exp(-z)) - 2 * math.log(SKEWED)
    return jnp.stack([normal, heavy, skewed]) + np.log(MASSES)


def potential(x: jax.Array) -> jax.Array:
    """The potential energy."""
    return -jax.nn.logsumexp(log_parts(x))


def exact() -> dict[str, float]:
    """Masses, means and mean squares of coordinates, each over one mode times its mass."""
    gumbel = stats.gumbel_r(scale=SKEWED)
    means = MEANS + np.array([[0.0], [0.0], [gumbel.mean()]])
    variances = np.array([[1.0, 1.0], [WIDE**2 * NU / (NU - 2)] * 2, [gumbel.var()] * 2])
    found = {}
    for k, name in enumerate(("normal", "heavy", "skewed")):
        found[f"mass, {name}"] = MASSES[k]
        for c in (0, 1):
            found[f"mean {c}, {name}"] = MASSES[k] * means[k, c]
            found[f"square {c}, {name}"] = MASSES[k] * (variances[k, c] + means[k, c] ** 2)
    return found


@jax.jit
def figures(x: jax.Array) -> jax.Array:
    """The same of one chain's draws, (draws, 2): averages over draws of what has these means."""

    def of_draw(x: jax.Array) -> jax.Array:
        shares = jax.nn.softmax(log_parts(x))
        each = jnp.stack([jnp.ones(()), x[0], x[0] ** 2, x[1], x[1] ** 2])
        return shares[:, None] * each

    return jax.vmap(of_draw)(x).mean(0).ravel()


@contextmanager
def broken(how: Callable[[moves.Move], moves.Move] | None) -> Iterator[None]:
    """Affine maps are broken meanwhile."""
    whole = moves.affine
    if how is not None:
        moves.affine = lambda *given: how(whole(*given))
    try:
        yield
    finally:
        moves.affine = whole


def measure(name: str, chains: int, warmup: int, draws: int) -> dict[str, Any]:
    """Deviations from the exact figures in standard errors."""
    with broken(BREAKS[name]):
        kernel = ModeJumping(NUTS(potential_fn=potential), tries=TRIES)
        mcmc = runs.driver(kernel, warmup, draws, chains)
        start = MEANS[np.arange(chains) % 3] + 0.0
        mcmc.run(random.key(0), init_params=jnp.asarray(start, jnp.float32))
    by_chain = np.asarray(jax.vmap(figures)(mcmc.get_samples(group_by_chain=True)), np.float64)
    errors = by_chain.std(0, ddof=1) / math.sqrt(chains)
    truth = exact()
    z = (by_chain.mean(0) - np.array(list(truth.values()))) / errors
    counts = mcmc.last_state.counts
    accepted = np.asarray(counts.made_by_move).sum(0) / np.asarray(counts.tried_by_move).sum(0)
    worst = int(np.abs(z).argmax())
    return {
        "z": np.abs(z).tolist(),
        "worst": list(truth)[worst],
        "bias": float(by_chain.mean(0)[0] - MASSES[0]),
        "error": float(errors[0]),
        "accepted": accepted[:2].tolist(),
    }


def fill(kept: Kept, quick: bool) -> None:
    """Measure the kernel as it is, and broken."""
    size = (10, 50, 100) if quick else (CHAINS, WARMUP, DRAWS)
    for name in list(BREAKS)[: 1 if quick else None]:
        if kept.wants(name):
            kept.put(name, alone(measure, name, *size))


def text(rows: dict[str, dict[str, Any]]) -> str:
    """The text and its table."""
    lines = [
        [
            name,
            f"{row['bias']:+.5f} ± {row['error']:.5f}",
            f"{np.mean(np.square(row['z'])):.2f}",
            f"{max(row['z']):.1f} ({row['worst']})",
            ", ".join(f"{share:.2f}" for share in row["accepted"]),
        ]
        for name, row in rows.items()
    ]
    number = len(next(iter(rows.values()))["z"]) if rows else 0
    return (
        f"### Does it keep the posterior?\n\n{CHAINS} chains of {DRAWS:,} draws with {TRIES} tries "
        "at every draw, on a mixture of a correlated normal, Student's t of 5 degrees of freedom "
        "and a product of Gumbels, in the plane, of masses .5, .3 and .2. In each draw every mode "
        "has a probability, whose mean is the mode's mass, so that masses, means and mean squares "
        f"are exact without borders: {number} figures. The table has the bias of the first mass, "
        "the mean square and the largest of the deviations in standard errors, and the shares of "
        "affine maps and of independent draws that are accepted. The other rows are broken on "
        "purpose.\n\n"
        + markdown_table(
            ["kernel", "bias", "mean square of z", "largest z", "accepted"],
            lines,
        )
    )
