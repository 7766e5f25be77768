"""`ReplicaExchangeSGLD`: SGLD at several temperatures that swap places, as a NumPyro kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Unpack

from numpyro_contour.kernels.arguments import SharedArguments, refuse, with_signature
from numpyro_contour.kernels.kernel import Kernel
from numpyro_contour.kernels.methods.replica_exchange import ReplicaExchange
from numpyro_contour.kernels.parts.moves import langevin_moves
from numpyro_contour.schedules import ScalarOrSchedule


@with_signature(Kernel)
class ReplicaExchangeSGLD(Kernel):
    r"""Replica exchange SGLD: hot chains cross barriers, and swaps hand their places down.

    Each step moves all R replicas and costs R gradients. Neighbours in the ladder of temperatures
    are then offered a swap of their positions, made with probability min(1, S),

    .. math:: \log S = d \bigl(\tilde U(x_i) - \tilde U(x_j)\bigr)
              - \frac{d^2}{F} \frac{\sigma_i^2 + \sigma_j^2}2,
              \qquad d = \frac1{\tau_i} - \frac1{\tau_j} > 0

    whose second term makes up for the noise of energies from minibatches. Their variances are
    learnt on the way. Draws are those of the coldest replica.

    Args:
        temperatures: the ladder, two or more numbers above 0 or schedules, in ascending order.
            Defaults to (1.0, 3.0).
        swap_every: steps between offers of swaps. Defaults to 1.
        swap: "corrected" (default), or "naive" for S without its second term, which is biased where
            energies are noisy.
        correction_factor: F > 0; larger ones swap more often, at the price of a bias. Defaults to
            1, which is exact for normal noise.
        swap_window: rounds of offers for every other pair of neighbours before the pairs between
            them have their turn, each pair swapping at most once in them. It pays from about five
            temperatures on where swaps are rare, at the price of a bias. Defaults to 1, even and
            odd pairs in turn, which has none.
        model, potential_fn, step_size, preconditioner, num_steps, draw: as for `SGLD`.
        curvature_correction, minibatch_size, energy, noise, adjusted: as for `SGLD`.
        init_strategy, chunk_bytes, jumps: as for `SGLD`.

    Raises:
        ValueError: an argument is missing, unknown or out of its range; the message names it.

    Source: Deng, Feng, Gao, Liang and Lin (2020), Algorithm 1; Deng, Feng, Karagiannis, Lin and
    Liang (2021) for energies relative to anchors, the default on minibatches; Deng, Zhang, Feng,
    Liang and Lin (2023) for `swap_window`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import ReplicaExchangeSGLD
        >>> def potential(x):  # 0.4 N(-3, 1) + 0.6 N(2, 1)
        ...     return -jnp.logaddexp(jnp.log(0.4) - (x + 3)**2 / 2, jnp.log(0.6) - (x - 2)**2 / 2)
        >>> kernel = ReplicaExchangeSGLD(potential_fn=potential, step_size=0.1, num_steps=50)
        >>> mcmc = MCMC(kernel, num_warmup=100, num_samples=2000, progress_bar=False)
        >>> mcmc.run(jax.random.key(0), init_params=jnp.array(-3.0))
        >>> bool(abs((mcmc.get_samples() > -0.5).mean() - 0.6) < 0.1)
        True
        >>> mcmc.last_state.swap_rates.shape
        (1,)
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
        noise: str = "averaged",
        adjusted: bool = False,
        **arguments: Unpack[SharedArguments],
    ):
        refuse(arguments, "temperature", "`temperatures` takes all of them")
        moves = langevin_moves(noise, adjusted)
        method = ReplicaExchange(temperatures, swap_every, swap, correction_factor, swap_window)
        super().__init__(model, potential_fn, moves=moves, method=method, **arguments)
