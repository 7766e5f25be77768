"""The importance weights of a finished run, at noisy energies and at those over all rows."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtr

from numpyro_contour import checks
from numpyro_contour.runs.energies_over_all_rows import full_energies
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.schedules import Constant
from numpyro_contour.statistics.weights import NormalisedWeights, normalised

_THETAS = ("online", "final")
# If the last theta would change the log weights of a chain by more than this (standard deviation
# over its draws), the draws were shaped by a different theta.
_MOST_CHANGE = 0.2


def weights_of_run(run: FinishedRun, theta: str, energy: str | None) -> NormalisedWeights:
    """The normalised log weights of `weighted_samples`, and each chain's log normaliser.

    A chain whose moves were all refused has no weight, and a normaliser of -inf.
    """
    checks.one_of("theta", theta, _THETAS)
    if energy is not None:
        checks.one_of("energy", energy, ("estimate",))
    found = normalised(_log_weights(run, theta, energy))
    if theta == "final":
        online = normalised(_log_weights(run, "online", energy))
        _refuse_drift(found.log_weights, online.log_weights)
    return found


def raw_log_weights(run: FinishedRun, theta: str, energy: str | None) -> np.ndarray:
    """The log weights of all draws, (chains, draws), of any temperature and not normalised."""
    log_weight = run.per_draw("log_weight").astype(np.float64)
    if theta == "final" and run.is_contour:
        log_weight = _by_final_theta(run, log_weight)
    if energy is None and run.has_full_data_weights:
        log_weight = log_weight + full_data_correction(run, theta)
    return log_weight


def _log_weights(run: FinishedRun, theta: str, energy: str | None) -> np.ndarray:
    log_weight = raw_log_weights(run, theta, energy)
    final = at_final_temperature(run)
    return log_weight if final is None else np.where(final, log_weight, -np.inf)


def _by_final_theta(run: FinishedRun, online: np.ndarray) -> np.ndarray:
    """Log weights by the last theta, from the online ones and the two weights of each draw."""
    final = run.log_flattening(run.fields["potential_energy_estimate"])
    draw = run.per_draw("draw_log_weight").astype(np.float64)
    own = final + run.per_draw("log_time_weight").astype(np.float64)
    weighed = np.isfinite(draw)
    return np.where(weighed, online - np.where(weighed, draw, 0.0) + own, -np.inf)


def _refuse_drift(final: np.ndarray, online: np.ndarray) -> None:
    """Refuse the last theta if the draws were shaped by a different one.

    Raises:
        ValueError: the weights would change by more than `_MOST_CHANGE`.
    """
    weighed = np.isfinite(online)
    change = np.where(weighed, final, 0.0) - np.where(weighed, online, 0.0)
    weights = np.exp(online)
    mean = np.mean(weights * change, axis=1, keepdims=True)
    sd = np.sqrt(np.mean(weights * (change - mean) ** 2, axis=1))
    if sd.max() > _MOST_CHANGE:
        raise ValueError(
            "`theta` takes 'final' only where theta has settled, but that of chain "
            f"{int(sd.argmax())} moved while draws were collected: the logarithms of their weights "
            f"would change by {sd.max():.2f} (standard deviation), at most {_MOST_CHANGE} is "
            "taken. Use 'online', which is always valid, or raise `num_warmup`."
        )


def draw_temperatures(run: FinishedRun) -> tuple[np.ndarray, np.ndarray] | None:
    """The lowest and the highest temperature of the steps that each draw stands for.

    Two arrays (chains, draws); None where the temperature is a number.
    """
    temperature = run.temperature
    if isinstance(temperature, Constant):
        return None
    per_draw = run.settings["num_steps"]
    stride = per_draw * run.thinning
    # The last draw is always collected: count back from it.
    back = stride * np.arange(run.num_draws)[::-1]
    ends = np.asarray(run.state.steps)[:, None] - back
    first = int(ends.min()) - per_draw
    made = np.asarray(jax.vmap(temperature)(jnp.arange(first, int(ends.max()))))
    steps = ends[..., None] - first - 1 - np.arange(per_draw)
    of_steps = made[steps]
    return of_steps.min(-1), of_steps.max(-1)


def at_final_temperature(run: FinishedRun) -> np.ndarray | None:
    """Whether each draw was made at the temperature of the last one, (chains, draws).

    None where the temperature is a number. Draws at another temperature have another density.
    """
    found = draw_temperatures(run)
    if found is None:
        return None
    return are_final(*found)


def are_final(lowest: np.ndarray, highest: np.ndarray) -> np.ndarray:
    """Whether draws were made at the temperature of the last one, by those of their steps."""
    final = highest[:, -1:]
    return (lowest == final) & (highest == final)


def final_temperature(run: FinishedRun) -> float:
    """The temperature of the draws that have weight."""
    found = draw_temperatures(run)
    if found is not None:
        return float(found[1][0, -1])
    assert isinstance(run.temperature, Constant)
    return run.temperature.value


def full_data_correction(run: FinishedRun, theta: str) -> np.ndarray:
    r"""The correction that is added to the log weights of a run with noisy energies.

    .. math:: \zeta\,[\log\Psi^{\sigma(x)}_\theta(U(x)) - \log\Psi_\theta(\tilde U(x))],
              \qquad \log\Psi^\sigma(u) = E[\log\Psi(u + \sigma\xi)]

    A chain with noisy energies flattens by the smoothed function. It is evaluated at the draw's
    energy over all rows, with the noise at the draw's own position. The draw that stands for a
    window was selected by its weight at the noisy energy, which is therefore divided out.

    Args:
        run: a run of a contour kernel.
        theta: "online", theta as the draw's window left it, or "final".

    Returns:
        Differences of log weights, (chains, draws).
    """
    full = full_energies(run)
    seen = run.per_draw("potential_energy_estimate").astype(np.float64)
    lower = np.asarray(run.state.partition.lower, np.float64)
    width = np.asarray(run.state.partition.width, np.float64)
    offset = run.node_offset
    correction = np.empty_like(seen)
    for chain in range(len(seen)):
        values = _nodes_of_chain(run, theta, chain)

        def place(energy: np.ndarray, chain: int = chain) -> np.ndarray:
            return (energy - lower[chain]) / width[chain] - offset

        noise = full.noise[chain] / width[chain]
        felt = smoothed(values, place(full.energy[chain]), noise)
        correction[chain] = felt - smoothed(values, place(seen[chain]), np.zeros(()))
    return run.settings["zeta"] * correction


def _nodes_of_chain(run: FinishedRun, theta: str, chain: int) -> np.ndarray:
    """Log Psi at the nodes of the bins, of each draw (draws, bins) or of all (1, bins)."""
    log_theta = run.state.log_theta[chain][None]
    if theta == "online" and "log_theta" in run.fields:
        log_theta = run.fields["log_theta"][chain]
    return run.log_psi_nodes(chain, log_theta)


def smoothed(nodes: np.ndarray, place: np.ndarray, noise: np.ndarray) -> np.ndarray:
    r"""The mean of a piecewise linear function under Gaussian noise of its argument.

    .. math:: E[f(p + s \xi)] = f_0 + \sum_j (f_{j+1} - f_j)\,[G(p - j) - G(p - j - 1)], \qquad
              G(t) = s\,\varphi(t / s) + t\,\Phi(t / s)

    for f with values :math:`f_j` at 0, 1, ... and constant outside, and :math:`\xi` standard
    normal. With f = log Psi, p the energy and s the noise of its estimate, both in bins, it is the
    function by which noisy multipliers flatten: their mean drift is its gradient.

    Args:
        nodes: f at 0, 1, ..., (..., nodes).
        place: p, (...).
        noise: the standard deviation s, (...).

    Returns:
        The means, (...).

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.runs.draw_weights import smoothed
        >>> smoothed(np.array([[0.0, -1.0, -2.0]]), np.array([0.5]), np.array([0.0])).tolist()
        [-0.5]
    """
    nodes = np.asarray(nodes, np.float64)
    place, noise = (np.asarray(x, np.float64)[..., None] for x in (place, noise))
    ramps = _softplus_of_normal(place - np.arange(nodes.shape[-1]), noise)
    return nodes[..., 0] + (np.diff(nodes) * -np.diff(ramps)).sum(-1)


def _softplus_of_normal(t: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """E[max(t + noise * xi, 0)]."""
    safe = np.where(noise > 0, noise, 1.0)
    z = t / safe
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    return np.where(noise > 0, safe * density + t * ndtr(z), np.maximum(t, 0.0))
