"""`SGHMC`: stochastic gradient Hamiltonian Monte Carlo as a NumPyro kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from numpyro_contour.kernels.arguments import OneTemperature, with_signature
from numpyro_contour.kernels.kernel import Kernel
from numpyro_contour.kernels.parts.moves import underdamped_moves


@with_signature(Kernel)
class SGHMC(Kernel):
    r"""Stochastic gradient Hamiltonian Monte Carlo: SGLD whose steps keep their direction.

    .. math:: u_{k+1} = c\, u_k - \epsilon M \nabla\tilde U(x_k)
              + \sqrt{2 (1 - c) \tau\epsilon M}\, R_{k+1}, \qquad x_{k+1} = x_k + u_{k+1}

    with noise "independent"; "averaged" is a splitting of the same dynamics that allows far longer
    steps, see `diffusions.underdamped`. A gradient acts for about 1 / (1 - c) steps: where a step
    size is given, one of :math:`(1 - c) \epsilon` goes as far in the long run as one of
    :math:`\epsilon` of `SGLD`. At temperature 0 it is gradient descent with momentum.

    Args:
        momentum: c in [0, 1). None (default) for 0.9, or what `friction` says.
        friction: instead of c, :math:`\gamma > 0` with :math:`c = e^{-\gamma\sqrt\epsilon}`. None
            (default) for c as `momentum` says.
        model, potential_fn, step_size, preconditioner, temperature, num_steps, draw: as for `SGLD`.
        curvature_correction, minibatch_size, energy, noise, adjusted: as for `SGLD`. A
            step size that is found with `adjusted` is that of Langevin moves of acceptance 0.9.
        init_strategy, chunk_bytes, jumps: as for `SGLD`.

    Raises:
        ValueError: an argument is missing, unknown or out of its range; the message names it.

    Source: Chen, Fox and Guestrin (2014), equation (15); Saatci and Wilson (2017), Algorithm 1,
    for the parametrisation.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import SGHMC
        >>> kernel = SGHMC(potential_fn=lambda x: x**2 / 2, step_size=0.05, num_steps=10)
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
        momentum: float | None = None,
        friction: float | None = None,
        noise: str = "averaged",
        adjusted: bool = False,
        **arguments: Unpack[OneTemperature],
    ):
        moves = underdamped_moves(momentum, friction, noise, adjusted)
        super().__init__(model, potential_fn, moves=moves, **arguments)
