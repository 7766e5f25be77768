"""Whether theta has settled, on one value, and on the probabilities of the bins."""

from __future__ import annotations

import numpy as np

from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.diagnosis.report import Verdict, unknown, verdict
from numpyro_contour.flattening_diagnostics import (
    distance,
    noise_in_bins,
    theta_drift,
    theta_spread,
)

# Differences of cumulated probabilities.
_MOST_DRIFT = 0.1
_MOST_SPREAD = 0.2
_MOST_DIFFERENCE = 0.2
# Noise of so many bins moves draws between bins.
_SHARP = 0.5


def theta(evidence: Evidence) -> list[Verdict]:
    """Theta against itself in time, against other chains', and against the draws."""
    if not evidence.is_contour:
        return []
    found = [_against_draws(evidence)]
    if evidence.settings.get("theta") != "given":
        found += [_drift(evidence), _spread(evidence)]
    return found


def _drift(evidence: Evidence) -> Verdict:
    name = "theta over time"
    if "theta" not in evidence.stats:
        return unknown(name, "Theta was not collected: `collect_theta=True` shows how it moved.")
    drift = theta_drift(evidence.stats["theta"].transpose("chain", ..., "bin").values)
    chain = 0 if np.isnan(drift).all() else int(np.nanargmax(drift))
    words = (
        f"Theta of chain {chain} moved by {drift[chain]:.2f} of probability from the third to the "
        f"last quarter of the draws (limit {_MOST_DRIFT:g})."
    )
    advice = "It has not settled: raise `num_warmup`, or run longer."
    return verdict(name, drift[chain], _MOST_DRIFT, drift[chain] > _MOST_DRIFT, words, advice)


def _spread(evidence: Evidence) -> Verdict:
    name = "theta between chains"
    partition = evidence.groups["energy_partition"].transpose("chain", ...)
    spread = theta_spread(
        partition["theta"].values, partition["lower_edge"].values, partition["upper_edge"].values
    )
    if np.isnan(spread).all():
        return unknown(name, "One chain cannot be compared: run several.")
    chain = int(spread.argmax())
    words = (
        f"Theta of chain {chain} differs by {spread[chain]:.2f} of probability from the mean of "
        f"the chains (limit {_MOST_SPREAD:g})."
    )
    advice = "The chains have not learnt the same energies: run longer."
    return verdict(name, spread[chain], _MOST_SPREAD, spread[chain] > _MOST_SPREAD, words, advice)


def _against_draws(evidence: Evidence) -> Verdict:
    name = "theta against draws"
    noise, bins = evidence.noise, evidence.per_draw("energy_bin")
    if bins is None or not evidence.weighed:
        return unknown(name, "There are no draws to compare theta with.")
    if noise is None or noise_in_bins(noise, evidence.width).max() > _SHARP:
        return unknown(name, "Energies are too noisy to say in which bins the draws belong.")
    learnt = evidence.per_chain("energy_partition", "theta")
    assert learnt is not None
    if evidence.settings.get("random_field") == "scalable":
        # Its theta tends to the masses to the power of 1 / zeta.
        powers = learnt ** float(evidence.settings["zeta"])
        learnt = powers / powers.sum(1, keepdims=True)
    weights = np.exp(evidence.log_weights)
    masses = np.stack(
        [
            np.bincount(b.astype(int), w, minlength=learnt.shape[1]) / len(w)
            for b, w in zip(bins, weights)
        ]
    )
    difference = distance(learnt, masses)
    chain = int(difference.argmax())
    words = (
        f"Theta of chain {chain} differs by {difference[chain]:.2f} of probability from the "
        f"energies of its weighted draws (limit {_MOST_DIFFERENCE:g})."
    )
    is_bad = difference[chain] > _MOST_DIFFERENCE
    return verdict(name, difference[chain], _MOST_DIFFERENCE, is_bad, words, _advice(evidence))


def _advice(evidence: Evidence) -> str:
    if evidence.settings.get("theta") == "given":
        return "It flattens another density: leave `theta` to be learnt."
    if evidence.settings.get("random_field", "consistent") != "consistent":
        return "Its update tends elsewhere: use `random_field='consistent'`."
    return "It has not settled: raise `num_warmup`, or run longer."
