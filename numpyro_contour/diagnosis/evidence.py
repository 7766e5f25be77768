"""The evidence for a diagnosis: the groups of an InferenceData under the names used here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from numpyro_contour.statistics.blocks import blocks
from numpyro_contour.statistics.crossings import Valley, valleys
from numpyro_contour.statistics.estimates import weighted_quantile, weighted_sd
from numpyro_contour.statistics.flatness import theta_drift
from numpyro_contour.statistics.quick_looks import Looks, quick_looks
from numpyro_contour.statistics.scalars import varying_scalars
from numpyro_contour.statistics.weights import normalised

# Of very many variables every so many-th is looked at for modes.
_MOST_VARIABLES = 200


@dataclass(frozen=True)
class Evidence:
    """A run's groups; arrays have the chain as first axis, the draw as second."""

    groups: dict[str, xr.Dataset]

    @cached_property
    def stats(self) -> xr.Dataset:
        """The group `sample_stats`."""
        return self.groups["sample_stats"]

    @property
    def settings(self) -> dict[str, Any]:
        """The kernel's settings, as they are kept with the draws."""
        return self.stats.attrs

    def group(self, name: str) -> xr.Dataset | None:
        """A group, None if there is none."""
        return self.groups.get(name)

    def per_draw(self, name: str) -> np.ndarray | None:
        """A variable of `sample_stats`, (chains, draws, ...), None if there is none."""
        if name not in self.stats:
            return None
        return self.stats[name].transpose("chain", "draw", ...).values

    def per_chain(self, group: str, name: str) -> np.ndarray | None:
        """A variable (chains, ...) of another group in float64, None if there is none."""
        found = self.group(group)
        if found is None or name not in found:
            return None
        return found[name].transpose("chain", ...).values.astype(np.float64)

    @cached_property
    def log_weights(self) -> np.ndarray:
        """Log weights of mean 1 in each chain that has any, (chains, draws).

        Weights that are not numbers count as 0.
        """
        array = np.where(self.not_numbers, -np.inf, self.stored_log_weights)
        return normalised(array).log_weights

    @cached_property
    def stored_log_weights(self) -> np.ndarray:
        """Log weights as they are in the file, (chains, draws)."""
        array = self.per_draw("log_weight")
        assert array is not None
        return array.astype(np.float64)

    @cached_property
    def not_numbers(self) -> np.ndarray:
        """Which log weights are NaN or infinite, (chains, draws)."""
        return np.isnan(self.stored_log_weights) | np.isposinf(self.stored_log_weights)

    @cached_property
    def weighed(self) -> bool:
        """Whether every chain has draws with weight."""
        return bool(np.isfinite(self.log_weights).any(1).all())

    @cached_property
    def scalars(self) -> tuple[list[str], np.ndarray]:
        """Names of the scalar variables that vary, and their draws (chains, draws, variables)."""
        return varying_scalars(self.groups["posterior"])

    @cached_property
    def valleys(self) -> list[tuple[str, Valley]]:
        """Names of scalar variables in several modes, each with a valley between two of them."""
        names, values = self.scalars
        weights = np.exp(self.log_weights)
        stride = max(1, -(-len(names) // _MOST_VARIABLES))
        of_all = (
            valleys(x, weights, tuple(in_order))
            for block in blocks(values[..., ::stride], weights)
            for x, *in_order in zip(block.values, block.ranked.values, block.ranked.weights)
        )
        return [(names[i * stride], valley) for i, of_one in enumerate(of_all) for valley in of_one]

    @cached_property
    def looks(self) -> Looks:
        """Quick figures of these scalars; of chains without weight they are 0."""
        return quick_looks(self.scalars[1], np.exp(self.log_weights))

    @cached_property
    def energy(self) -> np.ndarray:
        """Potential energies of the draws in nats, (chains, draws), exact ones if known."""
        lp = self.per_draw("lp")
        if lp is not None:
            return -lp.astype(np.float64)
        seen = self.per_draw("potential_energy_estimate")
        if seen is None:
            raise ValueError(
                "`data` takes a run with the potential energies of its draws, but its group "
                "'sample_stats' has neither `lp` nor `potential_energy_estimate`."
            )
        return seen.astype(np.float64)

    @cached_property
    def typical_energy(self) -> float:
        """The weighted median of the draws' potential energies, in nats."""
        return float(weighted_quantile(self.energy, self.log_weights, 0.5))

    @cached_property
    def energy_sd(self) -> float:
        """The weighted standard deviation of the draws' potential energies, in nats."""
        return float(weighted_sd(self.energy, self.log_weights))

    @cached_property
    def temperature(self) -> float:
        """Tau of the draws that have weight."""
        scheduled = self.per_draw("temperature")
        if scheduled is not None:
            return float(scheduled[0, -1])
        return float(self.settings["temperature"])

    @property
    def log_theta(self) -> np.ndarray | None:
        """Log theta at each draw for which it was exported, (chains, draws, bins)."""
        if "log_theta" not in self.stats:
            return None
        return self.stats["log_theta"].transpose("chain", ..., "bin").values

    @cached_property
    def theta_over_time(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The mean of theta over the draws, (chains, bins), and its `theta_drift`, (chains,).

        None where it was not exported.
        """
        if self.log_theta is None:
            return None
        # One chain after the other: in float64 theta takes more memory than the draws.
        of_chains = (np.exp(chain.astype(np.float64)) for chain in self.log_theta)
        means, moved = zip(*((theta.mean(0), theta_drift(theta[None])[0]) for theta in of_chains))
        return np.stack(means), np.array(moved)

    @property
    def adjusted(self) -> bool:
        """Whether moves were accepted by Metropolis-Hastings."""
        return bool(self.settings.get("adjusted", 0))

    @property
    def is_contour(self) -> bool:
        """Whether there is an energy partition."""
        return "energy_partition" in self.groups

    @cached_property
    def lower(self) -> np.ndarray:
        """Lower ends of the chains' partitions in nats, (chains,)."""
        return self._edge("lower_edge")[:, 0]

    @cached_property
    def upper(self) -> np.ndarray:
        """Upper ends of the chains' partitions in nats, (chains,)."""
        return self._edge("upper_edge")[:, -1]

    @cached_property
    def width(self) -> np.ndarray:
        """Widths in nats of the bins at the typical energy, (chains,)."""
        lower, upper = self._edge("lower_edge"), self._edge("upper_edge")
        at = (upper[:, :-1] <= self.typical_energy).sum(1)
        return (upper - lower)[np.arange(len(at)), at]

    @property
    def barrier(self) -> float | None:
        """The height of the barriers above typical energies in nats, None where none is stated."""
        stated = self.settings.get("barrier")
        return None if stated is None or isinstance(stated, str) else float(stated)

    def _edge(self, name: str) -> np.ndarray:
        edges = self.per_chain("energy_partition", name)
        assert edges is not None
        return edges

    @cached_property
    def noise(self) -> np.ndarray | None:
        """The sd of the energy's noise in nats: at each draw, or one number a chain (chains, 1).

        None where it is not known, 0 where energies are exact.
        """
        per_draw = self.per_draw("energy_noise")
        if per_draw is not None:
            return per_draw.astype(np.float64)
        if "potential_energy_estimate" not in self.stats:
            return np.zeros((len(self.log_weights), 1))
        found = self.per_chain("warmup", "energy_noise")
        return None if found is None else found[:, None]
