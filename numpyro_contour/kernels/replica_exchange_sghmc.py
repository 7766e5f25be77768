"""`ReplicaExchangeSGHMC`: SGHMC at several temperatures that swap places, as a NumPyro kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Unpack

from numpyro_contour.kernels.arguments import SharedArguments, refuse, with_signature
from numpyro_contour.kernels.kernel import Kernel
from numpyro_contour.kernels.methods.replica_exchange import ReplicaExchange
from numpyro_contour.kernels.parts.moves import underdamped_moves
from numpyro_contour.schedules import ScalarOrSchedule


@with_signature(Kernel)
class ReplicaExchangeSGHMC(Kernel):
    r"""Replica exchange SGHMC: `ReplicaExchangeSGLD` with momentum.

    Replica i moves by

    .. math:: u_{k+1} = c\, u_k - \epsilon M \nabla\tilde U(x_k)
              + \sqrt{2 (1 - c) \tau_i\epsilon M}\, R_{k+1}, \qquad x_{k+1} = x_k + u_{k+1}

    with noise "independent"; "averaged" is a splitting of the same dynamics. A swap hands over
    positions; velocities stay with their temperatures.

    Args:
        temperatures, swap_every, swap: as for `ReplicaExchangeSGLD`.
        correction_factor, swap_window: as for `ReplicaExchangeSGLD`.
        momentum, friction: as for `SGHMC`.
        model, potential_fn, step_size, preconditioner, num_steps, draw: as for `SGLD`.
        curvature_correction, minibatch_size, energy, noise, adjusted: as for `SGLD`. A
            step size that is found with `adjusted` is that of Langevin moves of acceptance 0.9.
        init_strategy, chunk_bytes, jumps: as for `SGLD`.

    Raises:
        ValueError: an argument is missing, unknown or out of its range; the message names it.

    Source: Deng, Feng, Gao, Liang and Lin (2020), Algorithm 1, with the steps of `SGHMC`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import ReplicaExchangeSGHMC
        >>> kernel = ReplicaExchangeSGHMC(potential_fn=lambda x: x**2 / 2, step_size=0.05,
        ...                               num_steps=10)
        >>> mcmc = MCMC(kernel, num_warmup=100, num_samples=2000, progress_bar=False)
        >>> mcmc.run(jax.random.key(0), init_params=jnp.array(3.0))
        >>> bool(abs(mcmc.get_samples().std() - 1) < 0.1)
        True
    """

    def __init__(
        self,
        model: Callable | None = None,
        potential_fn: Callable | None = None,
        *,
        temperatures: Sequence[ScalarOrSchedule] = (1.0, 3.0),
        swap_every: int = 1,
        swap: str = "corrected",
        correction_factor: float = 1.0,
        swap_window: int = 1,
        momentum: float | None = None,
        friction: float | None = None,
        noise: str = "averaged",
        adjusted: bool = False,
        **arguments: Unpack[SharedArguments],
    ):
        refuse(arguments, "temperature", "`temperatures` takes all of them")
        moves = underdamped_moves(momentum, friction, noise, adjusted)
        method = ReplicaExchange(temperatures, swap_every, swap, correction_factor, swap_window)
        super().__init__(model, potential_fn, moves=moves, method=method, **arguments)
