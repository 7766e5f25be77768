"""Where the steps of a climb are spent, by the shape of the bins."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

from benchmarks.barriers.gaussians import at_first, two_normals
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import crossings, markdown_table
from numpyro_contour.core.flattening.widening_partition import WideningPartition
from numpyro_contour.core.samplers.climbing import climbing, initial_steps
from numpyro_contour.core.samplers.window import run_window
from numpyro_contour.diagnostics import kish_share
from numpyro_contour.schedules import Constant, robbins_monro

HEIGHT, SIZE, NUM_BINS = 100.0, 5, 48
NUM_STEPS = 100
#: by name: r, the density of bins above the barrier, and how far above it they end
SHAPES = {
    "even": (1e4, 1.0, 30.0),
    "even, ending at the barrier": (1e4, 1.0, 2.5),
    "widening": (SIZE / 2, 1.0, 30.0),
    "widening, twice as far up": (SIZE / 2, 1.0, 60.0),
    "widening, 4 times as dense above the barrier": (SIZE / 2, 4.0, 30.0),
    "widening, 8 times as dense above the barrier": (SIZE / 2, 8.0, 30.0),
    "widening, half as dense above the barrier": (SIZE / 2, 0.5, 30.0),
    "widening later, r = 4 d / 2": (2.0 * SIZE, 4.0, 30.0),
    "widening sooner, r = d / 8": (SIZE / 8, 4.0, 30.0),
}


def run(shape: tuple[float, float, float], windows: int, chains: int) -> dict[str, float]:
    """Shares of the steps, and crossings; chains first learn for as many windows as are counted."""
    reach, dense, headroom = shape
    typical, sd = SIZE / 2 - float(np.log(0.6)), (SIZE / 2) ** 0.5
    level = typical + HEIGHT - SIZE / 2
    partition = WideningPartition(
        typical - sd / 2, typical, reach, level, level + headroom, NUM_BINS, dense
    )
    potential, mean = two_normals(HEIGHT, SIZE)
    steps = initial_steps(jnp.log(0.3), jnp.ones(SIZE))
    gain = robbins_monro(NUM_BINS, 1.0, 0.0, maximum=0.5)

    def potential_and_grad(key: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.value_and_grad(potential)(x)

    @jax.jit
    @jax.vmap
    def chain(key: jax.Array) -> tuple[jax.Array, ...]:
        key_init, key_run = random.split(key)
        first = climbing(Constant(1.0), gain, steps, partition)
        state = first.init(key_init, mean, potential_and_grad)

        def window(state, inputs):
            key, learning = inputs
            sampler = climbing(Constant(1.0), gain, steps, partition, learning, True, learning)
            state, found = run_window(
                key, state, potential_and_grad, sampler, NUM_STEPS, "reservoir"
            )
            assert found.trace is not None
            energies, log_weights, _ = found.trace
            shares = (energies < typical + 3 * sd).mean(), (energies > level).mean()
            # The sums from which the Kish share of positions is computed.
            log_sums = (
                jax.nn.logsumexp(log_weights),
                jax.nn.logsumexp(2 * log_weights),
            )
            return state, (found.draw.position, found.log_weight, *shares, *log_sums)

        learning = jnp.arange(2 * windows) < windows
        return jax.lax.scan(window, state, (random.split(key_run, 2 * windows), learning))[1]

    found = [np.asarray(x)[:, windows:] for x in chain(random.split(random.key(0), chains))]
    draws, log_weights, bulk, above, log_sum, log_squares = found
    positions = windows * NUM_STEPS
    kish = np.exp(
        2 * np.logaddexp.reduce(log_sum.astype(np.float64), axis=1)
        - np.logaddexp.reduce(log_squares.astype(np.float64), axis=1)
    )
    return {
        "bulk": bulk.mean(),
        "above": above.mean(),
        "positions": (kish / positions).mean(),
        "draws": float(np.mean([kish_share(w[None]) for w in log_weights])),
        "crossings": crossings(at_first(draws)).mean() * 1e6 / positions,
    }


def main(experiment: Experiment) -> str:
    """The section of the page."""
    windows, chains = experiment.choose((4000, 8), (20, 2))
    rows = []
    for name, shape in SHAPES.items():
        found = run(shape, windows, chains)
        shares = [f"{found[key]:.2f}" for key in ("bulk", "above", "positions", "draws")]
        rows.append([name, *shares, f"{found['crossings']:.0f}"])
    columns = [
        "bins",
        "steps at typical energies",
        "steps above the barrier",
        "Kish share of positions",
        f"Kish share of draws of {NUM_STEPS} steps",
        "crossings in a million steps",
    ]
    return (
        "## Where the steps are spent\n\n"
        f"The target is two normals with a barrier of {HEIGHT:.0f} nats in {SIZE} dimensions, with "
        f"{NUM_BINS} bins and {chains} chains. Where the density is flat over bins of even width, "
        "the time spent climbing is proportional to the height in nats. Over bins that widen as 1 "
        "+ e / r at the height e, it is proportional to the logarithm of the height, and the "
        "remaining time is spent where the posterior is. Energies count as typical up to three "
        "standard deviations above their mean. A draw stands for its window: it is one of the "
        "window's positions, chosen by weight.\n\n"
        f"{markdown_table(columns, rows)}\n"
    )
