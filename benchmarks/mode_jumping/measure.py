"""Runs of `ModeJumping` around NUTS and of NUTS alone, and the gradients that they take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import random
from numpyro.infer import MCMC, NUTS

from benchmarks.shared import runs
from numpyro_contour import ModeJumping

CHAINS = 4
WARMUP, DRAWS = 1000, 1000


@dataclass(frozen=True)
class Ran:
    """A finished run."""

    mcmc: MCMC
    #: evaluations of energy and gradient by the search
    of_search: int
    #: those of all chains in the warm-up, with their tries to jump
    of_warmup: int
    #: those of all chains since
    of_draws: int

    @property
    def gradients(self) -> int:
        """All of them."""
        return self.of_search + self.of_warmup + self.of_draws

    @property
    def jumping(self) -> bool:
        """Whether chains can jump."""
        return bool(getattr(self.mcmc.last_state, "jumping", ()))


def run(
    jumps: bool,
    draws: int,
    seed: int,
    args: tuple = (),
    kwargs: dict[str, Any] | None = None,
    init_params: Any = None,
    warmup: int = WARMUP,
    **of_kernel: Any,
) -> Ran:
    """A run of vectorised chains with the defaults.

    Args:
        jumps: whether `ModeJumping` is around NUTS.
        draws: draws of each chain.
        seed: the seed.
        args: arguments of the model.
        kwargs: its keyword arguments. None (default) for none.
        init_params: where chains begin. None (default) to leave that to the kernel.
        warmup: draws of the warm-up. Defaults to that of all these runs.
        **of_kernel: the model or the potential function.
    """
    inner = NUTS(**of_kernel)
    kernel = ModeJumping(inner) if jumps else inner
    mcmc = runs.driver(kernel, warmup, draws, CHAINS)
    how: dict[str, Any] = {"extra_fields": ("num_steps",)}
    data = args, {} if kwargs is None else kwargs
    with runs.quiet():
        mcmc.warmup(
            random.key(seed), *args, collect_warmup=True, init_params=init_params, **how, **data[1]
        )
        before = _steps(mcmc)
        mcmc.run(random.key(seed), *args, **how, **data[1])
    jax.block_until_ready(mcmc.last_state)
    found = kernel.modes_of(*args, **data[1]) if jumps else None
    tries = _tries(mcmc)
    return Ran(
        mcmc,
        0 if found is None else found.gradients,
        # As many tries after each draw of the warm-up as after those that are kept, at most.
        before + tries * warmup // draws,
        _steps(mcmc) + tries,
    )


def more_draws(ran: Ran, draws: int, seed: int, *args: Any) -> Ran:
    """The run with that many more draws of each chain, which are all that it then has."""
    mcmc = ran.mcmc
    mcmc.num_samples = draws
    mcmc.post_warmup_state = mcmc.last_state
    before = _tries(mcmc)
    with runs.quiet():
        mcmc.run(random.key(seed + 1), *args, extra_fields=("num_steps",))
    jax.block_until_ready(mcmc.last_state)
    spent = _steps(mcmc) + _tries(mcmc) - before
    return Ran(mcmc, ran.of_search, ran.of_warmup, ran.of_draws + spent)


def _steps(mcmc: MCMC) -> int:
    return int(np.asarray(mcmc.get_extra_fields()["num_steps"]).sum())


def _tries(mcmc: MCMC) -> int:
    counts = getattr(mcmc.last_state, "counts", ())
    return int(np.asarray(counts.tried_by_move).sum()) if counts else 0
