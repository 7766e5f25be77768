"""The plan of a warm-up: its stages and what share of it each takes."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class Plan:
    """Stages in their order, and the shares of the warm-up at which they end.

    A stage is one of "descent", "tune" (step size and preconditioner), "settle" (the final step
    size, at which noise is measured), "pilot" (energies of the unflattened density), "window"
    (flattened, the energy partition renewed at its end) and "learn" (as draws are made
    afterwards, the partition kept).
    """

    stages: tuple[str, ...]
    ends: tuple[float, ...]
    #: fewest draws of warm-up: each stage needs one of its own
    least: int = 20

    @classmethod
    def climbing(cls) -> Plan:
        """The plan for barriers of a stated height: most of it goes into learning theta.

        Where a window has found a deeper mode, the learning begins again, on lower bins.
        """
        shares = [("descent", 0.04), *[("tune", 0.02)] * 3, ("tune", 0.04), ("pilot", 0.04)]
        shares += [("window", share) for share in (0.06, 0.08, 0.1, 0.1, 0.1, 0.1, 0.1)]
        shares += [("learn", 0.18)]
        return cls._of_shares(shares, least=50)

    @classmethod
    def of(
        cls, tunes_step_size: bool, adapts: bool, finds_partition: bool, anchors: bool = False
    ) -> Plan | None:
        """The plan for what is to be found, None if that is nothing.

        Args:
            tunes_step_size: whether the step size is to be found.
            adapts: whether a part is left to what adapts while the kernel samples.
            finds_partition: whether the energy partition is to be found.
            anchors: whether a descent is needed, for the anchor of a control variate.
        """
        if not (tunes_step_size or finds_partition or anchors):
            return None
        shares: list[tuple[str, float]] = [("descent", 0.1)]
        if tunes_step_size:
            shares += [("tune", 0.05), ("tune", 0.05), ("tune", 0.1), ("tune", 0.1)]
            shares += [("settle", 0.1)]
        else:
            # The first for an anchor nearer to the bulk, the second for the noise with it.
            shares += [("settle", 0.05), ("settle", 0.05)]
        if finds_partition:
            shares += [("pilot", 0.1)]
            shares += [("window", 0.4 / 7), ("window", 0.8 / 7), ("learn", 1.6 / 7)]
        elif adapts:
            shares += [("learn", 0.4)]
        return cls._of_shares(shares)

    @classmethod
    def _of_shares(cls, shares: list[tuple[str, float]], least: int = 20) -> Plan:
        total = sum(share for _, share in shares)
        ends, end = [], 0.0
        for _, share in shares:
            end += share / total
            ends.append(min(end, 1.0))
        ends[-1] = 1.0
        return cls(tuple(stage for stage, _ in shares), tuple(ends), least)

    def bounds(self, length: jax.Array) -> jax.Array:
        """The iterations at which the stages end, (stages,)."""
        ends = jnp.asarray(self.ends, jnp.float32) * jnp.asarray(length, jnp.float32)
        return jnp.round(ends).astype(jnp.int32)

    def number(self, iteration: jax.Array, length: jax.Array) -> jax.Array:
        """The number of the stage of an iteration, from 0; after the warm-up that of stages."""
        return jnp.sum(iteration >= self.bounds(length))

    def is_one_of(self, number: jax.Array, *stages: str) -> jax.Array:
        """Whether the stage of this number is one of those named."""
        table = [stage in stages for stage in self.stages] + ["sample" in stages]
        return jnp.asarray(table)[number]
