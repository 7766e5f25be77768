"""`CyclicalSGLD`: SGLD with cyclical step sizes as a NumPyro kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from numpyro_contour.kernels.arguments import OneTemperature, with_signature
from numpyro_contour.kernels.kernel import Kernel
from numpyro_contour.kernels.methods.cyclical import Cyclical
from numpyro_contour.kernels.parts.moves import langevin_moves


@with_signature(Kernel)
class CyclicalSGLD(Kernel):
    r"""SGLD with cyclical step sizes: each cycle descends with large steps, then samples.

    .. math:: \epsilon_k = \frac{\epsilon_0}{2} \Bigl[\cos\frac{\pi\,
              \mathrm{mod}(k, L)}{L} + 1\Bigr]

    The first part of a cycle, at temperature 0, explores; its draws carry log weight -inf, and
    every output of this package leaves them out: use `weighted_samples`, not
    `mcmc.get_samples()`. How often cycles end in a mode is not its probability.

    Args:
        step_size: the peak :math:`\epsilon_0`, a number or a schedule. None (default) for twice the
            step size that is found in warm-up, so that the sampling stage begins with that.
        cycle_length: L, steps of a cycle. Defaults to 1000.
        exploration: share of a cycle that explores, in [0, 1). Defaults to 0.5.
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
        >>> from numpyro_contour import CyclicalSGLD, weighted_samples
        >>> kernel = CyclicalSGLD(potential_fn=lambda x: x**2 / 2, step_size=0.2, cycle_length=100)
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
        noise: str = "averaged",
        **arguments: Unpack[OneTemperature],
    ):
        moves, method = langevin_moves(noise), Cyclical(cycle_length, exploration)
        super().__init__(model, potential_fn, moves=moves, method=method, **arguments)
