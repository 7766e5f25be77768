"""The energy of each draw over all rows, and the noise of the estimate that the run saw."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from tqdm.auto import tqdm

from numpyro_contour.core.arrays.hosts import everywhere
from numpyro_contour.core.arrays.vectors import ravel
from numpyro_contour.energies import choice
from numpyro_contour.energies.anchors import Anchors, nearest
from numpyro_contour.energies.clusters import Clusters
from numpyro_contour.energies.data_expansion import remainders
from numpyro_contour.models.all_rows import Reference
from numpyro_contour.models.jit_on_data import JittedOnData
from numpyro_contour.runs.at_draws import chunks
from numpyro_contour.runs.finished_run import FinishedRun

# Evaluations of the user's noisy potential from which its noise at a draw is estimated.
_EVALUATIONS = 64
# Draws of such a run that are evaluated at once.
_AT_ONCE = 256
# Seconds after which a progress bar appears.
_PATIENCE = 2.0


class FullEnergies(NamedTuple):
    """The draws of a run over all data, (chains, draws)."""

    #: potential energies in nats, in the units of the run: differences to the anchor if it has one
    energy: np.ndarray
    #: standard deviation of the run's estimate at the draw, in nats
    noise: np.ndarray


def full_energies(run: FinishedRun) -> FullEnergies:
    """The energies of all draws, computed once per run, with a progress bar."""
    if "full_energies" not in run.computed:
        run.computed["full_energies"] = _compute(run)
    return run.computed["full_energies"]


def _compute(run: FinishedRun) -> FullEnergies:
    positions = _positions(run)
    evaluate, at_once = _evaluation(run)
    chains, draws = positions.shape[:2]
    energy, noise = np.empty((chains, draws)), np.empty((chains, draws))
    hidden = not run.progress_bar
    with tqdm(
        total=chains * draws, desc="energies over all data", disable=hidden, delay=_PATIENCE
    ) as bar:
        for chain in range(chains):
            for server, served in _by_anchor(run.anchors, chain, positions[chain]):
                for part in chunks(len(served), at_once):
                    rows = served[part]
                    padded = np.resize(rows, min(draws, at_once))
                    found = evaluate(server, positions[chain, padded])
                    energy[chain, rows], noise[chain, rows] = (x[: len(rows)] for x in found)
                    bar.update(len(rows))
    return FullEnergies(energy, noise)


def _positions(run: FinishedRun) -> np.ndarray:
    """The draws as vectors, (chains, draws, d)."""
    if run.model is not None:
        return run.per_draw("unconstrained")
    return np.asarray(jax.vmap(jax.vmap(ravel))(run.samples))


def _evaluation(run: FinishedRun) -> tuple[Callable, int]:
    """`(server, positions) -> (energies, noise)`, and for how many positions at once."""
    if callable(run.energy_estimator):
        return _of_callable(run, choice.of_callable(run.energy_estimator, run.like))
    anchors = run.anchors
    one = _reference(anchors, _Server(0, 0, True)) if anchors else None
    data = run.model_args, run.model_kwargs
    _, at_once = run.full_data(*data).sharing(one)

    clusters = _clusters(run)

    def at(positions: jax.Array, reference: Reference | None, args: tuple, kwargs: dict) -> Any:
        full_data = run.full_data(args, kwargs)
        if clusters and reference is not None:
            expanded = partial(remainders, full_data.potential, full_data.like, clusters)
            full_data = replace(full_data, remainders=expanded)
        full_data, _ = full_data.sharing(reference)
        return jax.vmap(full_data.at, (0, None))(positions, reference)

    # For the segments of a run it is compiled once.
    compiled = run.computed.setdefault(("energies over all data", bool(clusters)), JittedOnData(at))

    def evaluate(server: _Server, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        reference = _reference(anchors, server) if anchors else None
        found = everywhere(compiled(jnp.asarray(positions), reference, *data))
        energy, noise = found.energy.float64(), np.sqrt(np.asarray(found.noise, np.float64))
        if anchors:
            known = anchors.slots.energy.float64()[server.chain]
            energy = energy + (known[server.slot] - known[0])
        return energy, noise

    if one is not None:
        first = everywhere(compiled(one.position[None], None, *data))
        _check_anchor(float(first.energy.float64()[0]), run.energy_offsets[0])
    return evaluate, at_once


def _clusters(run: FinishedRun) -> Clusters | tuple[()]:
    """The clusters of the rows where these were expanded in their data, else ()."""
    by_data = bool(run.anchors) and int(np.max(run.anchors.order)) == 3
    return run.clusters() if by_data else ()


class _Server(NamedTuple):
    """What served a draw: an anchor of a chain, and whether the draw was in its reach."""

    chain: int
    slot: int
    within: bool


def _reference(anchors: Anchors, server: _Server) -> Reference:
    place = server.chain, server.slot
    weight = server.within * anchors.slots.weight[place]
    return Reference(anchors.slots.position[place], weight, anchors.order[server.chain])


def _by_anchor(
    anchors: Anchors | tuple[()], chain: int, positions: np.ndarray
) -> Iterator[tuple[_Server, np.ndarray]]:
    """The numbers of a chain's draws by what served them."""
    if not anchors:
        yield _Server(chain, 0, True), np.arange(len(positions))
        return
    of_chain = jax.tree.map(lambda x: x[chain], anchors)
    found = jax.jit(jax.vmap(partial(nearest, of_chain)))(jnp.asarray(positions))
    numbers, within = (np.asarray(x) for x in found)
    for slot, inside in sorted(set(zip(numbers.tolist(), within.tolist()))):
        served = np.flatnonzero((numbers == slot) & (within == inside))
        yield _Server(chain, slot, inside), served


def _of_callable(run: FinishedRun, noisy: choice.Estimator) -> tuple[Callable, int]:
    """The user's own noisy potential: repeated evaluations estimate its noise at a draw."""
    exact = run.exact_energy()

    @jax.jit
    @jax.vmap
    def at(key: jax.Array, flat: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        seen = jax.vmap(lambda k: noisy(k, flat, ())[0])(random.split(key, _EVALUATIONS))
        energy = exact(flat)
        return energy, jnp.std(seen, ddof=1), jnp.mean(seen - energy)

    def evaluate(server: _Server, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        keys = random.split(random.key(server.chain), len(positions))
        found = everywhere(at(keys, jnp.asarray(positions)))
        energy, noise, excess = (np.asarray(x, np.float64) for x in found)
        _check_unbiased(excess, noise / np.sqrt(_EVALUATIONS))
        return energy, noise

    return evaluate, _AT_ONCE


def _check_anchor(found: float, known: float) -> None:
    """Refuse the anchor of a warm-up on other data.

    Raises:
        ValueError: the potential energy of the anchor is not what the run took it for.
    """
    if abs(found - known) > 0.1 + 1e-4 * abs(known):
        raise ValueError(
            f"The control variate's anchor has a potential energy of {found:.6g} nats on the data "
            f"of this run, but of {known:.6g} on those of its warm-up: draws are biased. Warm up "
            "again on these data."
        )


def _check_unbiased(excess: np.ndarray, errors: np.ndarray) -> None:
    """Refuse a noisy potential whose mean is not the exact one.

    Raises:
        ValueError: it is off by more than a tenth of a nat and six standard errors.
    """
    off = abs(excess.mean())
    error = np.sqrt((errors**2).sum()) / len(errors)
    if off > max(0.1, 6 * error):
        raise ValueError(
            "`energy` takes an unbiased estimate of the potential energy for weights at the exact "
            f"one, but on average it is {excess.mean():+.3g} +- {error:.2g} nats off. Mend it, or "
            "ask for the weights of the run's own energies, `energy='estimate'`."
        )
