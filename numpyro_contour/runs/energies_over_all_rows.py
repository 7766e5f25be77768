"""After a run on noisy energies: the energy of each draw over all data, and how noisy it was."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from numpyro.infer import MCMC
from tqdm.auto import tqdm

from numpyro_contour.core.arrays.vectors import by_chain, ravel
from numpyro_contour.kernels.kernel import Kernel
from numpyro_contour.models.all_rows import Reference
from numpyro_contour.models.estimators import choice as estimators
from numpyro_contour.models.jit_on_data import JittedOnData

# Evaluations of a noisy potential of the user's from which its noise at a draw is told.
_EVALUATIONS = 64
# Draws that are evaluated at once then.
_AT_ONCE = 256
# Seconds after which a progress bar appears.
_PATIENCE = 2.0


class FullEnergies(NamedTuple):
    """The draws of a run over all data, (chains, draws)."""

    #: potential energies in nats, in the units of the run: differences to the anchor if it has one
    energy: np.ndarray
    #: standard deviation of the run's estimate at the draw, in nats
    noise: np.ndarray


_computed: weakref.WeakKeyDictionary[MCMC, tuple[Any, FullEnergies]] = weakref.WeakKeyDictionary()


def full_energies(mcmc: MCMC) -> FullEnergies:
    """Computed once for a run, in chunks of bounded memory, with a progress bar."""
    state = mcmc.last_state
    known = _computed.get(mcmc)
    if known is None or known[0] is not state:
        known = (state, _compute(mcmc))
        _computed[mcmc] = known
    return known[1]


def energy_offsets(state: Any) -> np.ndarray:
    """What is added to the energies of a state for those of the model, (chains,) or (1,)."""
    anchor = getattr(getattr(state, "warmup", ()), "anchor", ())
    return by_chain(anchor.energy.float64(), 0) if anchor else np.zeros(1)


def _compute(mcmc: MCMC) -> FullEnergies:
    kernel = mcmc.sampler
    positions, like = _positions(mcmc)
    evaluate, at_once = _evaluation(mcmc, kernel, like)
    chains, draws = positions.shape[:2]
    energy, noise = np.empty((chains, draws)), np.empty((chains, draws))
    hidden = not mcmc.progress_bar
    with tqdm(
        total=chains * draws, desc="energies over all data", disable=hidden, delay=_PATIENCE
    ) as bar:
        for chain in range(chains):
            for rows in _batches(draws, at_once):
                result = evaluate(chain, positions[chain, rows])
                energy[chain, rows], noise[chain, rows] = result
                bar.update(len(positions[chain, rows]))
    return FullEnergies(energy, noise)


def _positions(mcmc: MCMC) -> tuple[np.ndarray, Any]:
    """The draws as vectors, (chains, draws, d), and one of them as it was."""
    z = mcmc.last_state.z
    like = z if mcmc.num_chains == 1 else jax.tree.map(lambda x: x[0], z)
    fields = mcmc.get_extra_fields(group_by_chain=True)
    if mcmc.sampler.model is not None:
        return np.asarray(fields["unconstrained"]), like
    flat = jax.vmap(jax.vmap(ravel))(mcmc.get_samples(group_by_chain=True))
    return np.asarray(flat), like


def _evaluation(mcmc: MCMC, kernel: Kernel, like: Any) -> tuple[Callable, int]:
    """`(chain, positions) -> (energies, noise)`, and for how many positions at once."""
    chosen = kernel.energy_estimator(mcmc._args, mcmc._kwargs)
    if callable(chosen):
        return _of_callable(mcmc, kernel, estimators.of_callable(chosen, like), like)
    anchors = getattr(mcmc.last_state.warmup, "anchor", ())
    if anchors and mcmc.num_chains == 1:
        anchors = jax.tree.map(lambda x: x[None], anchors)
    one = Reference(anchors.position[0], anchors.weight[0]) if anchors else None
    _, at_once = kernel.full_data(mcmc._args, mcmc._kwargs, like).sharing(one)

    def at(positions: jax.Array, reference: Reference | None, args: tuple, kwargs: dict) -> Any:
        full_data, _ = kernel.full_data(args, kwargs, like).sharing(reference)
        return jax.vmap(full_data.at, (0, None))(positions, reference)

    compiled = JittedOnData(at)

    def evaluate(chain: int, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        reference = None
        if anchors:
            reference = Reference(anchors.position[chain], anchors.weight[chain])
        found = compiled(jnp.asarray(positions), reference, mcmc._args, mcmc._kwargs)
        return found.energy.float64(), np.sqrt(np.asarray(found.noise, np.float64))

    if one is not None:
        first = compiled(one.position[None], None, mcmc._args, mcmc._kwargs)
        _check_anchor(float(first.energy.float64()[0]), energy_offsets(mcmc.last_state)[0])
    return evaluate, at_once


def _of_callable(
    mcmc: MCMC, kernel: Kernel, noisy: estimators.Estimator, like: Any
) -> tuple[Callable, int]:
    """Noisy potentials of the user's: their noise at a draw is told from repeated evaluations."""
    exact = kernel.exact_energy(mcmc._args, mcmc._kwargs, like)

    @jax.jit
    @jax.vmap
    def at(key: jax.Array, flat: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        seen = jax.vmap(lambda k: noisy(k, flat, ())[0])(random.split(key, _EVALUATIONS))
        energy = exact(flat)
        return energy, jnp.std(seen, ddof=1), jnp.mean(seen - energy)

    def evaluate(chain: int, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        keys = random.split(random.key(chain), len(positions))
        found = at(keys, jnp.asarray(positions))
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


def _batches(draws: int, at_once: int) -> Iterator[slice]:
    """Slices of one length, so that they share a compilation; the last reaches back."""
    length = min(draws, at_once)
    for begin in range(0, draws, length):
        start = min(begin, draws - length)
        yield slice(start, start + length)
