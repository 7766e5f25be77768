"""Whether steps kept to their density: the guard, curvatures, and the gradient of the energy."""

from __future__ import annotations

import numpy as np
import xarray as xr

from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.diagnosis.report import Verdict, unknown, verdict
from numpyro_contour.statistics.estimates import weighted_quantile
from numpyro_contour.statistics.flatness import counted_share

# Refused moves and clipped drifts bias the draws.
_MOST_REFUSED = 0.01
# Trajectories that diverge leave out where they did.
_MOST_DIVERGING = 0.01
_MOST_CLIPPED = 0.02
# A step size that was accepted as aimed is clipped where energies are high: measured on the
# mixture, 1.1 % clipped and the same mode masses without the clip.
_MOST_CLIPPED_IF_TUNED = 0.05
# Psi that may rise with the energy can make multipliers of any size.
_LARGEST_MULTIPLIER = 3.0
_MOST_MULTIPLIED = 0.01
# Variances that are off by so much, and by so many standard errors: of many coordinates one is
# four standard errors off by chance once in some hundred runs.
_MOST_OFF = 0.2
_ERRORS = 5.0
# Below this share of draws at the final temperature a schedule has hardly ended.
_FEWEST_FINAL = 0.1
# Below this share of swaps a hot replica is of no use to its colder neighbour.
_FEWEST_SWAPS = 0.005


def final_temperature(evidence: Evidence) -> list[Verdict]:
    """Draws at the temperature of the last one, where a schedule changes it."""
    temperature = evidence.per_draw("temperature")
    if temperature is None:
        return []
    share = (temperature == temperature[:, -1:]).mean()
    words = (
        f"{share:.1%} of the draws were made at the final temperature (limit {_FEWEST_FINAL:.0%}); "
        "the others have no weight."
    )
    advice = "Let the schedule `temperature` end earlier, or raise `num_samples`."
    return [verdict("temperature", share, _FEWEST_FINAL, share < _FEWEST_FINAL, words, advice)]


def divergences(evidence: Evidence) -> list[Verdict]:
    """Trajectories of a Hamiltonian kernel that left the level of their energy."""
    diverging = evidence.per_draw("diverging")
    if diverging is None or evidence.per_draw("n_steps") is None:
        return []
    share = float(diverging.mean())
    words = (
        f"{int(diverging.sum()):,} of {diverging.size:,} trajectories diverged: {share:.1%} (limit "
        f"{_MOST_DIVERGING:.0%})."
    )
    advice = (
        "Chains do not reach where they diverge. Raise `target_accept_prob` of the inner kernel, "
        "give `centring=True` where a site has a scale that is latent too, or reparameterise."
    )
    is_bad = share > _MOST_DIVERGING
    return [verdict("divergences", share, _MOST_DIVERGING, is_bad, words, advice)]


def guard(evidence: Evidence) -> list[Verdict]:
    """Moves that were refused and drifts that were clipped."""
    steps = evidence.per_draw("steps")
    if evidence.per_draw("n_steps") is not None:  # those of NumPyro's kernels, which diverge
        return []
    if steps is None:
        return [unknown("refused moves", "The file does not say how many moves were refused.")]
    tuned = evidence.settings.get("step_size") == "tuned"
    most_clipped = _MOST_CLIPPED_IF_TUNED if tuned else _MOST_CLIPPED
    smaller = (
        "Raise `num_warmup`, or give a smaller `step_size`." if tuned else "Lower `step_size`."
    )
    return [
        _share(
            evidence,
            "refused moves",
            "refused",
            _MOST_REFUSED,
            "moves were refused because the potential energy or its gradient was not finite, or "
            "rose far above a partition found in warm-up",
            "Check the data and the model for NaN, or lower `step_size`; energies that are far too "
            "noisy are another cause. A run that went on from the last state of another one needs "
            "the same data: with others, warm up anew.",
        ),
        _share(
            evidence,
            "step size",
            "clipped",
            most_clipped,
            "drifts were clipped to three standard deviations of the noise",
            smaller,
        ),
    ]


def multiplier(evidence: Evidence) -> list[Verdict]:
    """Gradient multipliers that make steps many times as long, where Psi may rise."""
    multipliers = evidence.per_draw("gradient_multiplier")
    if multipliers is None or evidence.settings.get("one_sided", 1):
        return []
    share = (multipliers > _LARGEST_MULTIPLIER).mean(1)
    chain = int(share.argmax())
    words = (
        f"{share[chain]:.1%} of the draws of chain {chain} have a gradient multiplier above "
        f"{_LARGEST_MULTIPLIER:g} (limit {_MOST_MULTIPLIED:.0%}): theta rises steeply with the "
        "energy there."
    )
    advice = (
        "Steps are too long by as much: take `one_sided=True`, or raise `lower` of the partition "
        "to where energies begin."
    )
    is_bad = share[chain] > _MOST_MULTIPLIED
    return [verdict("multiplier", share[chain], _MOST_MULTIPLIED, is_bad, words, advice)]


def multiplier_bound(evidence: Evidence) -> list[Verdict]:
    """Steps whose gradient multiplier was decided by its bound, above where modes begin."""
    # It does not bias, since the weights follow the same bounded Psi, but where most steps are at
    # the bound little is flattened as theta would have it.
    if not evidence.is_contour or evidence.per_draw("bounded") is None:
        return []
    return [
        _share(
            evidence,
            "multiplier bound",
            "bounded",
            0.25,
            "gradient multipliers were decided by `multiplier_bound`, above typical energies",
            "Theta asks for a steeper flattening than is allowed: lower `multiplier_bound`, run "
            "longer if theta has not settled, or check `partition`.",
            _above_the_bulk(evidence),
        )
    ]


def _above_the_bulk(evidence: Evidence) -> np.ndarray:
    r"""The share of draws at the bound that lie higher than one dimension explains, (chains,).

    In one dimension there are ever fewer positions the higher the energy: at u above the lowest
    energy of a mode as many as :math:`u^{1/p - 1}` where :math:`U = |x|^p`. Theta falls as much
    faster than :math:`e^{-u / \tau}`, and the multiplier
    :math:`1 - \zeta - \zeta\tau (1 - 1 / p) / u` is below a bound b at all u below
    :math:`\zeta\tau / (1 - \zeta - b)`. Modes begin in the bulk of the posterior, where nothing
    needs to be flattened.
    """
    multipliers, settings = evidence.per_draw("gradient_multiplier"), evidence.settings
    zeta, bound = float(settings["zeta"]), settings.get("multiplier_bound")
    if multipliers is None or not isinstance(bound, int | float) or bound >= 1 - zeta:
        return np.ones(1)
    if not evidence.weighed:
        return np.ones(1)  # a chain without weight has no bulk
    energy, temperature = evidence.energy, evidence.temperature
    explained = energy.min() + zeta * temperature / (1 - zeta - bound)
    bulk = float(weighted_quantile(energy, evidence.log_weights, 0.9))
    at_bound = multipliers <= bound + 1e-3 * (1 - bound)
    higher = at_bound & (energy > max(explained, bulk))
    return higher.sum(1) / np.maximum(at_bound.sum(1), 1)


def _share(
    evidence: Evidence,
    check: str,
    name: str,
    limit: float,
    what: str,
    advice: str,
    of_them: np.ndarray | float = 1.0,
) -> Verdict:
    share = counted_share(evidence.per_draw(name), evidence.per_draw("steps")) * of_them
    chain = int(share.argmax())
    words = f"{share[chain]:.1%} of the steps of chain {chain}: {what} (limit {limit:.0%})."
    return verdict(check, share[chain], limit, share[chain] > limit, words, advice)


def equipartition(evidence: Evidence) -> list[Verdict]:
    """Whether the draws have the variances that the gradient of the potential energy asks for."""
    group = evidence.group("equipartition")
    if group is None:
        why = "The draws were not held against the gradient: too few, or a pass would take long."
        return [unknown("variances", why)]
    if jumps(evidence):
        why = "The potential energy jumps: the gradient says nothing of the variances of the draws."
        return [unknown("variances", why)]
    ratio, mcse = group["ratio"].values, np.maximum(group["mcse"].values, 1e-12)
    off = np.where(np.isfinite(ratio), ratio - 1, np.inf)
    mean_off, mean_mcse = float(group["mean_ratio"]) - 1, max(float(group["mean_mcse"]), 1e-12)
    surely = np.abs(off) > _ERRORS * mcse
    worst = int(np.argmax(np.where(surely, np.abs(off), 0.0)))
    figure, error = off[worst], mcse[worst]
    where = f"`{group['coordinate'].values[worst]}`"
    if not surely[worst]:
        figure, error, where = mean_off, mean_mcse, "all coordinates, in the mean,"
    is_bad = abs(figure) > max(_MOST_OFF, _ERRORS * error)
    words = (
        f"Draws of {where} vary {1 + figure:.2f} +- {error:.2f} times as much as the gradient of "
        f"the potential energy says they should (limit {1 + _MOST_OFF:g}, by more than {_ERRORS:g} "
        "standard errors)."
    )
    advice = _advice(evidence)
    return [verdict("variances", figure, _MOST_OFF, is_bad, words, advice)]


def _advice(evidence: Evidence) -> str:
    if evidence.settings.get("weight") == "piecewise":
        return "Use the weights that belong to the drift, `weight='consistent'`."
    if evidence.noise is None or evidence.noise.max(initial=0.0) > 0:
        return "Lower `step_size`, or use larger minibatches: their noise heats the chain."
    return "Lower `step_size`."


def swaps(evidence: Evidence) -> list[Verdict]:
    """Neighbours in a ladder of temperatures that hardly exchange anything."""
    rates = evidence.per_draw("swap_rates")
    if rates is None:
        return []
    of_pairs = rates[:, -1].mean(0)
    pair = int(of_pairs.argmin())
    words = (
        f"Replicas {pair} and {pair + 1} made {of_pairs[pair]:.2%} of the swaps that they were "
        f"offered (limit {_FEWEST_SWAPS:.1%})."
    )
    advice = (
        "Put a temperature between theirs in `temperatures`, or use larger minibatches where "
        "energies are noisy."
    )
    is_bad = of_pairs[pair] < _FEWEST_SWAPS
    return [verdict("swaps", of_pairs[pair], _FEWEST_SWAPS, is_bad, words, advice)]


# In units of the temperature; probabilities beside a jump of so much are off by a fifth.
_MOST_JUMPING = 0.2
# One wall that hardly any draw reaches must not hide that all others are right.
_MOST_OF_A_LINE = 10.0


def gradient(evidence: Evidence) -> list[Verdict]:
    """Whether the potential energy jumps where its gradient does not show it."""
    name = "gradient"
    group = evidence.group(name)
    if group is None:
        why = (
            "The gradient was not compared with the potential energy: too few draws, or a pass "
            "would take long."
        )
        return [unknown(name, why)]
    sizes = _sizes(evidence, group)
    figure = float(sizes.mean())
    share = float((sizes > _MOST_JUMPING).mean())
    is_bad = jumps(evidence) and not evidence.adjusted
    words = (
        f"Along lines between draws the potential energy jumps by {figure:.2g} temperatures in the "
        f"mean (limit {_MOST_JUMPING:g}), on {share:.0%} of the lines, and the gradient does not "
        "show it."
    )
    if jumps(evidence) and not is_bad:
        words += " Moves were accepted by the energies themselves, so that the draws are right."
    if not jumps(evidence):
        words = (
            "Along lines between draws the potential energy changes as the gradient says, up to "
            f"{figure:.1g} temperatures in the mean (limit {_MOST_JUMPING:g})."
        )
    advice = (
        "The draws are not of this posterior: the model has a threshold, a rounding, an argmax or "
        f"a table of a parameter. Give {_adjusted(evidence)}, make the model smooth there, or sum "
        "the cases out."
    )
    return [verdict(name, figure, _MOST_JUMPING, is_bad, words, advice)]


def jumps(evidence: Evidence) -> bool:
    """Whether the potential energy was found to jump."""
    group = evidence.group("gradient")
    return group is not None and float(_sizes(evidence, group).mean()) > _MOST_JUMPING


def _sizes(evidence: Evidence, group: xr.Dataset) -> np.ndarray:
    """The jumps along each line in temperatures, none larger than what counts."""
    return np.minimum(group["jump"].values / evidence.temperature, _MOST_OF_A_LINE)


def _adjusted(evidence: Evidence) -> str:
    """How moves come to be accepted by the energies of this run."""
    exact = evidence.noise is not None and evidence.noise.max(initial=0.0) == 0
    given = "`adjusted=True`" if exact else "`adjusted=True` with `energy='full'`"
    return given if "adjusted" in evidence.settings else f"{given} to `ContourSGLD` or `SGLD`"


# A quarter of the draws of the lowest energies in a narrow place suffices.
_QUANTILE = 0.75
# From 1 on steps are unstable.
_UNSTABLE = 1.0
# Where the energy is bent so many times as strongly as at other draws, the place is one of its own:
# in models that are sampled well it was at most 4.2 times, in a mode of sd 0.3 beside one of sd 1
# it is 11 times. With a share s of the limit drifts are clipped from 3 / sqrt(s) of the mode's sds
# on, which makes its walls too low: at 0.28 its mass was 0.55 to 0.69 instead of 0.8.
_OF_ITS_OWN, _CLIPPED_WALLS = 7.0, 0.25


def curvature(evidence: Evidence) -> list[Verdict]:
    """Whether steps are too long where the potential energy is lowest."""
    name = "curvature"
    if evidence.adjusted or evidence.barrier is not None:
        return []
    group = evidence.group(name)
    lowest, even = (
        np.zeros(0) if group is None else group[of].values[np.isfinite(group[of].values)]
        for of in ("lowest", "even")
    )
    if not lowest.size or not even.size:
        why = (
            "The curvature of the potential energy was not held against the steps: too few draws, "
            "no second derivatives, or it would take long."
        )
        return [unknown(name, why)]
    figure, elsewhere = float(np.quantile(lowest, _QUANTILE)), float(np.median(even))
    # In heavy tails the energy is bent the other way: what is narrower than that is no mode.
    is_bent = elsewhere > 0
    times = figure / elsewhere if is_bent else 0.0
    limit = _CLIPPED_WALLS if times > _OF_ITS_OWN else _UNSTABLE
    compared = f", {times:.2g} times as much as at other draws" if is_bent else ""
    words = (
        f"At the draws of the lowest energies step size times curvature is {figure:.2g} of the "
        f"value from which on steps are unstable (limit {limit:g}){compared}."
    )
    return [verdict(name, figure, limit, figure > limit, words, _advice_on_steps(evidence))]


def _advice_on_steps(evidence: Evidence) -> str:
    exact = evidence.noise is not None and evidence.noise.max(initial=0.0) == 0
    adjusted = "`adjusted=True`"
    if "adjusted" not in evidence.settings:
        adjusted += " to `ContourSGLD` or `SGLD`"
    if not exact:
        adjusted += " with `energy='full'`"
    return (
        "Steps are too long in a narrower place, a mode or a neck, which has too little mass then. "
        f"Give {adjusted} and ten times as many steps. A `step_size` a tenth as large only makes "
        "the error smaller."
    )
