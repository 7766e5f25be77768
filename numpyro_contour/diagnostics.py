"""Statistics of weighted draws: arrays in, arrays out.

The chain is the first axis, the draw the second. On equal weights each number is the one that
ArviZ gives for plain draws. They are made in the room `statistics`.
"""

from numpyro_contour.statistics.errors import weighted_ess, weighted_mcse, weighted_rhat
from numpyro_contour.statistics.estimates import (
    weighted_eti,
    weighted_hdi,
    weighted_mad,
    weighted_mean,
    weighted_quantile,
    weighted_sd,
)
from numpyro_contour.statistics.flatness import (
    counted_share,
    end_masses,
    histogram_flatness,
    noise_in_bins,
    round_trips,
    share_above,
    theta_drift,
    theta_spread,
)
from numpyro_contour.statistics.ladders import (
    communication_barrier,
    equal_rejection_temperatures,
    optimal_round_trip_rate,
)
from numpyro_contour.statistics.tails import pareto_khat
from numpyro_contour.statistics.weights import NormalisedWeights, kish_share, normalise

__all__ = [
    "NormalisedWeights",
    "communication_barrier",
    "counted_share",
    "end_masses",
    "equal_rejection_temperatures",
    "histogram_flatness",
    "kish_share",
    "noise_in_bins",
    "normalise",
    "optimal_round_trip_rate",
    "pareto_khat",
    "round_trips",
    "share_above",
    "theta_drift",
    "theta_spread",
    "weighted_ess",
    "weighted_eti",
    "weighted_hdi",
    "weighted_mad",
    "weighted_mcse",
    "weighted_mean",
    "weighted_quantile",
    "weighted_rhat",
    "weighted_sd",
]
