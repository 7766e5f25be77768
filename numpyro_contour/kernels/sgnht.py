"""`SGNHT`: the stochastic gradient Nose-Hoover thermostat as a NumPyro kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from numpyro_contour.kernels.arguments import OneTemperature, refuse, with_signature
from numpyro_contour.kernels.kernel import Kernel
from numpyro_contour.kernels.parts.moves import nose_hoover_moves


@with_signature(Kernel)
class SGNHT(Kernel):
    r"""The stochastic gradient Nose-Hoover thermostat: SGHMC whose friction adapts to the noise.

    .. math:: dx = M^{1/2} v\, dt, \quad
              dv = -M^{1/2} \nabla\tilde U\, dt - f v\, dt + \sqrt{2 a \tau}\, dW, \quad
              df = \Bigl(\frac{|v|^2}{d \tau} - 1\Bigr) dt

    The friction rises until the mean kinetic energy is that of the temperature: noise of the
    gradient that nobody has measured is taken out, as far as it is alike in all preconditioned
    coordinates. See `diffusions.nose_hoover` for the steps.

    Args:
        momentum: c in (0, 1), how much of the velocity a step keeps where the gradient is exact,
            which says how much noise is injected. None (default) for 0.9.
        temperature: :math:`\tau > 0`, a number or a schedule. Defaults to 1.
        model, potential_fn, step_size, preconditioner, num_steps, draw: as for `SGLD`.
        curvature_correction, minibatch_size, energy, noise: as for `SGLD`.
        init_strategy, chunk_bytes, jumps: as for `SGLD`.

    Raises:
        ValueError: an argument is missing, unknown or out of its range; the message names it.

    Source: Ding et al. (2014), Algorithm 2; Leimkuhler and Shang (2016) for noise "averaged".

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import SGNHT
        >>> kernel = SGNHT(potential_fn=lambda x: x @ x / 2, step_size=0.05, num_steps=10)
        >>> mcmc = MCMC(kernel, num_warmup=100, num_samples=2000, progress_bar=False)
        >>> mcmc.run(jax.random.key(0), init_params=jnp.full(4, 3.0))
        >>> bool(abs(mcmc.get_samples().std() - 1) < 0.1)
        True
    """

    def __init__(
        self,
        model: Callable | None = None,
        potential_fn: Callable | None = None,
        *,
        momentum: float | None = None,
        noise: str = "averaged",
        **arguments: Unpack[OneTemperature],
    ):
        refuse(arguments, "friction", "the friction adapts")
        moves = nose_hoover_moves(momentum, noise)
        super().__init__(model, potential_fn, moves=moves, **arguments)
