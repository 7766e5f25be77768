"""`ContourSGNHT`: the contour stochastic gradient Nose-Hoover thermostat as a NumPyro kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from numpyro_contour.kernels.arguments import ContourArguments, refuse, split, with_signature
from numpyro_contour.kernels.kernel import Kernel
from numpyro_contour.kernels.methods.contour import Contour
from numpyro_contour.kernels.parts.moves import nose_hoover_moves


@with_signature(Kernel, Contour)
class ContourSGNHT(Kernel):
    r"""The contour Nose-Hoover thermostat: `SGNHT` on the flattened density.

    .. math:: dx = M^{1/2} v\, dt, \quad
              dv = -\Bigl[1 + \zeta\tau \frac{\partial\log\Psi_\theta}{\partial u}\Bigr]
              M^{1/2} \nabla\tilde U\, dt - f v\, dt + \sqrt{2 a \tau}\, dW, \quad
              df = \Bigl(\frac{|v|^2}{d \tau} - 1\Bigr) dt

    Theta and weights are those of `ContourSGLD`, the steps those of `diffusions.nose_hoover`. Use
    `weighted_samples`, not `mcmc.get_samples()`, which shows the flattened density.

    Args:
        momentum: c in (0, 1), as for `SGNHT`. None (default) for 0.9.
        partition, num_bins, zeta, gain, interpolation, one_sided: as for `ContourSGLD`.
        multiplier_bound, random_field, rho, weight, theta: as for `ContourSGLD`.
        collect_theta, temperature: as for `ContourSGLD`.
        model, potential_fn, step_size, preconditioner, num_steps, draw: as for `SGLD`.
        curvature_correction, minibatch_size, energy, noise: as for `SGLD`.
        init_strategy, chunk_bytes, jumps: as for `SGLD`.

    Raises:
        ValueError: an argument is missing, unknown or out of its range; the message names it.

    Source: Deng, Lin and Liang (2020), Algorithm 1, for contour; Ding et al. (2014), Algorithm 2,
    for the thermostat.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import ContourSGNHT, EnergyPartition, weighted_samples
        >>> def potential(x):  # 0.4 N(-6, 1) + 0.6 N(4, 1)
        ...     return -jnp.logaddexp(jnp.log(0.4) - (x + 6)**2 / 2, jnp.log(0.6) - (x - 4)**2 / 2)
        >>> kernel = ContourSGNHT(potential_fn=potential, step_size=0.05, num_steps=100,
        ...                       partition=EnergyPartition(0.0, 20.0, 40))
        >>> mcmc = MCMC(kernel, num_warmup=200, num_samples=2000, progress_bar=False)
        >>> mcmc.run(jax.random.key(0), init_params=jnp.array(-6.0))
        >>> x, log_weights = weighted_samples(mcmc)
        >>> mass = float((jnp.exp(log_weights) * (x > -1)).mean())
        >>> bool(abs(mass - 0.6) < 0.1)
        True
    """

    def __init__(
        self,
        model: Callable | None = None,
        potential_fn: Callable | None = None,
        *,
        momentum: float | None = None,
        noise: str = "averaged",
        **arguments: Unpack[ContourArguments],
    ):
        refuse(arguments, "friction", "the friction adapts")
        contour, others = split(arguments)
        moves, method = nose_hoover_moves(momentum, noise), Contour(**contour)
        super().__init__(model, potential_fn, moves=moves, method=method, **others)
