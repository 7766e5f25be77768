"""`ContourSGHMC`: contour stochastic gradient Hamiltonian Monte Carlo as a NumPyro kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from numpyro_contour.kernels.arguments import ContourArguments, split, with_signature
from numpyro_contour.kernels.kernel import Kernel
from numpyro_contour.kernels.methods.contour import Contour
from numpyro_contour.kernels.parts.moves import underdamped_moves


@with_signature(Kernel, Contour)
class ContourSGHMC(Kernel):
    r"""Contour stochastic gradient Hamiltonian Monte Carlo: `SGHMC` on the flattened density.

    .. math:: u_{k+1} = c\, u_k - \epsilon \Bigl[1 + \zeta\tau
              \frac{\partial\log\Psi_{\theta_k}}{\partial u}\Bigr] M \nabla\tilde U(x_k)
              + \sqrt{2 (1 - c) \tau\epsilon M}\, R_{k+1}, \qquad x_{k+1} = x_k + u_{k+1}

    with noise "independent"; "averaged" is a splitting of the same dynamics, see
    `diffusions.underdamped`. Theta and weights are those of `ContourSGLD`. Use `weighted_samples`,
    not `mcmc.get_samples()`, which shows the flattened density.

    Args:
        momentum: c in [0, 1). None (default) for 0.9, or what `friction` says.
        friction: instead of c, :math:`\gamma > 0` with :math:`c = e^{-\gamma\sqrt\epsilon}`. None
            (default) for c as `momentum` says.
        partition, num_bins, zeta, gain, interpolation, one_sided: as for `ContourSGLD`.
        multiplier_bound, random_field, rho, weight, theta: as for `ContourSGLD`.
        collect_theta, temperature: as for `ContourSGLD`.
        model, potential_fn, step_size, preconditioner, num_steps, draw: as for `SGLD`.
        curvature_correction, minibatch_size, energy, noise, adjusted: as for `SGLD`. A
            step size that is found with `adjusted` is that of Langevin moves of acceptance 0.9.
        init_strategy, chunk_bytes, jumps: as for `SGLD`.

    Raises:
        ValueError: an argument is missing, unknown or out of its range; the message names it.

    Source: Deng, Lin and Liang (2020), section 4.2, with continuous weights.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import ContourSGHMC, EnergyPartition, weighted_samples
        >>> def potential(x):  # 0.4 N(-6, 1) + 0.6 N(4, 1)
        ...     return -jnp.logaddexp(jnp.log(0.4) - (x + 6)**2 / 2, jnp.log(0.6) - (x - 4)**2 / 2)
        >>> kernel = ContourSGHMC(potential_fn=potential, step_size=0.05, num_steps=100,
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
        friction: float | None = None,
        noise: str = "averaged",
        adjusted: bool = False,
        **arguments: Unpack[ContourArguments],
    ):
        contour, others = split(arguments)
        moves, method = underdamped_moves(momentum, friction, noise, adjusted), Contour(**contour)
        super().__init__(model, potential_fn, moves=moves, method=method, **others)
