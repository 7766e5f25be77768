"""`InteractingContourSGLD`: contour Langevin dynamics whose chains share theta, for NumPyro."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from numpyro_contour.kernels.arguments import ContourArguments, refuse, split, with_signature
from numpyro_contour.kernels.kernel import Kernel
from numpyro_contour.kernels.methods.contour import Contour
from numpyro_contour.kernels.parts.moves import langevin_moves


@with_signature(Kernel, Contour)
class InteractingContourSGLD(Kernel):
    r"""`ContourSGLD` whose chains learn one theta together.

    Each chain moves and is weighted as by `ContourSGLD`. In each step theta moves by the mean of
    what each of the P chains would add:

    .. math:: \theta_{k+1}(i) = \theta_k(i) + \frac{\omega_{k+1}}P \sum_{p=1}^P
              \Psi_{\theta_k}(U(x_p))^\zeta\, (1_{i=J_p} - \theta_k(i))

    Only chains that run as one program know of each other: give `MCMC` several chains and
    `chain_method="vectorized"`. One chain, or chains run one after the other or on devices of their
    own, are exactly those of `ContourSGLD`.

    The energy partition is the same for all chains too. Where the warm-up finds it, it begins at
    the lowest energies of any chain, and its bins have the mean spread within chains. Step sizes,
    preconditioners and counts of visits are each chain's own. Chains that share theta are not
    independent, as Monte Carlo errors and R-hat take them to be. In 100 runs on two modes the
    errors agreed with the spread of the runs nevertheless.

    Momentum or a thermostat is a composition, `Kernel(model, moves=underdamped_moves(),
    method=Contour(shares_theta=True))`.

    Args:
        gain: schedule of the stochastic approximation, as for `ContourSGLD`, not multiplied by the
            number of chains. None (default) for `robbins_monro(10, 0.8, 100, maximum=0.5)`.
        theta: known probabilities, as for `ContourSGLD`: nothing is learnt then, nor shared. None
            (default) to learn them.
        partition, num_bins, zeta, interpolation, one_sided: as for `ContourSGLD`.
        multiplier_bound, random_field, rho, weight: as for `ContourSGLD`.
        collect_theta, temperature: as for `ContourSGLD`.
        model, potential_fn, step_size, preconditioner, num_steps, draw: as for `SGLD`.
        curvature_correction, minibatch_size, energy, noise, adjusted: as for `SGLD`.
        init_strategy, chunk_bytes, jumps: as for `SGLD`.

    Raises:
        ValueError: an argument is missing, unknown or out of its range, or `barrier` is given; the
            message names it.

    Source: Deng, Liang, Hao, Lin and Liang (2022), *Interacting contour stochastic gradient
    Langevin dynamics*, Algorithm 1, with the continuous weights of `ContourSGLD`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import EnergyPartition, InteractingContourSGLD, weighted_samples
        >>> def potential(x):  # 0.4 N(-6, 1) + 0.6 N(4, 1)
        ...     return -jnp.logaddexp(jnp.log(0.4) - (x + 6)**2 / 2, jnp.log(0.6) - (x - 4)**2 / 2)
        >>> kernel = InteractingContourSGLD(potential_fn=potential, step_size=0.1, num_steps=100,
        ...                                 partition=EnergyPartition(0.0, 20.0, 40))
        >>> mcmc = MCMC(kernel, num_warmup=100, num_samples=500, num_chains=8,
        ...             chain_method="vectorized", progress_bar=False)
        >>> mcmc.run(jax.random.key(0), init_params=jnp.linspace(-6.0, 4.0, 8))
        >>> log_theta = mcmc.last_state.log_theta
        >>> bool((log_theta == log_theta[0]).all())
        True
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
        noise: str = "averaged",
        adjusted: bool = False,
        **arguments: Unpack[ContourArguments],
    ):
        refuse(arguments, "barrier", "chains that climb learn theta each for itself")
        contour, others = split(arguments)
        moves, method = langevin_moves(noise, adjusted), Contour(**contour, shares_theta=True)
        super().__init__(model, potential_fn, moves=moves, method=method, **others)
