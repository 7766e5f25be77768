"""`CyclicalSGHMC`: SGHMC with cyclical step sizes as a NumPyro kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from numpyro_contour.kernels.arguments import OneTemperature, with_signature
from numpyro_contour.kernels.kernel import Kernel
from numpyro_contour.kernels.methods.cyclical import Cyclical
from numpyro_contour.kernels.parts.moves import underdamped_moves


@with_signature(Kernel)
class CyclicalSGHMC(Kernel):
    r"""SGHMC with cyclical step sizes: each cycle descends with momentum, then samples.

    .. math:: \epsilon_k = \frac{\epsilon_0}{2} \Bigl[\cos\frac{\pi\,
              \mathrm{mod}(k, L)}{L} + 1\Bigr]

    Draws of the exploring stage carry log weight -inf, as with `CyclicalSGLD`.

    Args:
        step_size, cycle_length, exploration: as for `CyclicalSGLD`.
        momentum, friction: as for `SGHMC`.
        model, potential_fn, preconditioner, temperature, num_steps, draw: as for `SGLD`.
        curvature_correction, minibatch_size, energy, noise: as for `SGLD`.
        init_strategy, chunk_bytes: as for `SGLD`.
        jumps: None (default) or False, as the steps of a cycle have no one law to be kept.

    Raises:
        ValueError: an argument is missing, unknown or out of its range; the message names it.

    Source: Zhang, Li, Zhang, Chen and Wilson (2020), equation (1) and Algorithm 1.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import CyclicalSGHMC, weighted_samples
        >>> kernel = CyclicalSGHMC(potential_fn=lambda x: x**2 / 2, step_size=0.1, cycle_length=100)
        >>> mcmc = MCMC(kernel, num_warmup=0, num_samples=1000, progress_bar=False)
        >>> mcmc.run(jax.random.key(0), init_params=jnp.array(1.0))
        >>> x, log_weights = weighted_samples(mcmc)
        >>> float((log_weights == -jnp.inf).mean())
        0.5
    """

    def __init__(
        self,
        model: Callable | None = None,
        potential_fn: Callable | None = None,
        *,
        cycle_length: int = 1000,
        exploration: float = 0.5,
        momentum: float | None = None,
        friction: float | None = None,
        noise: str = "averaged",
        **arguments: Unpack[OneTemperature],
    ):
        moves = underdamped_moves(momentum, friction, noise)
        method = Cyclical(cycle_length, exploration)
        super().__init__(model, potential_fn, moves=moves, method=method, **arguments)
