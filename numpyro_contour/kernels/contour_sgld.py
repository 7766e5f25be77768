"""`ContourSGLD`: contour stochastic gradient Langevin dynamics as a NumPyro kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from numpyro_contour.kernels.arguments import FlatteningArguments, split, with_signature
from numpyro_contour.kernels.kernel import Kernel
from numpyro_contour.kernels.methods.climbing import climbing_instead_of
from numpyro_contour.kernels.methods.contour import Contour
from numpyro_contour.kernels.parts.moves import langevin_moves


@with_signature(Kernel, Contour)
class ContourSGLD(Kernel):
    r"""Contour stochastic gradient Langevin dynamics: weighted draws of multimodal posteriors.

    It samples the flattened density :math:`\pi(x) / \Psi_\theta(U(x))^\zeta` by

    .. math:: x_{k+1} = x_k - \epsilon \Bigl[1 + \zeta\tau
              \frac{\partial\log\Psi_{\theta_k}}{\partial u}\Bigr] \nabla \tilde U(x_k)
              + \sqrt{2\tau\epsilon}\, \xi_k

    On the way it learns :math:`\theta`, the probability of each energy bin. It gives each draw the
    importance weight :math:`Z_k \Psi_{\theta_k}(U)^\zeta`, which makes up for the flattening, with
    :math:`Z_k`, the normaliser of the density that :math:`\theta_k` flattens.
    Use `weighted_samples`, not `mcmc.get_samples()`, which shows the flattened density, with the
    log weights of its draws as a site `log_weight`.

    Args:
        temperature: :math:`\tau > 0`, a number or a schedule. Defaults to 1.
        partition: an `EnergyPartition`, in nats. None (default) to find it in the warm-up, which
            takes at least 20 draws; those that `num_warmup` lacks are added.
        barrier: how many nats the barriers between modes are above typical energies, for barriers
            that are too high for the defaults (above some 30 nats). If in doubt, state it too high
            rather than too low. Chains then climb that high: steps grow with the energy and are
            accepted by Metropolis-Hastings, bins widen with the energy, and a warm-up of at least
            50 draws learns theta. It needs exact energies, and it decides `partition`, `zeta`,
            `step_size`, `preconditioner`, `noise`, `adjusted`, the shape of Psi, `random_field`,
            `weight` and `theta`. None (default) for the contour dynamics above. See `climbing`.
        num_bins: bins of a partition that is found. Defaults to 128, with `barrier` to 48.
        zeta: how much the density is flattened: 0 is not at all (plain SGLD), 1 gives all bins
            equal probability. Defaults to 0.75, with `barrier` to 1.
        gain: schedule of the stochastic approximation, called with counts from 1. Defaults to
            `robbins_monro(10, 0.8, 100, maximum=0.5)`; with `barrier` it is that after the warm-up,
            in nats a visit, and defaults to `robbins_monro(num_bins, 1.0, 0.0, maximum=0.5)`.
        interpolation: where in a bin log Psi equals its log theta: "forward" (default, section D.1)
            at the left edge, "midpoint" at the centre, "backward" (equation 6) at the right edge.
        one_sided: whether Psi never rises with the energy, so that the multiplier never exceeds 1.
            Defaults to True.
        multiplier_bound: lower bound of the gradient multiplier, below 1, or None. Defaults to -1.
        random_field: update of theta, "consistent" (default), or one of the paper's: "csgld"
            (equation 10); "scalable" (equation 15), with which theta tends to the masses of the
            bins to the power of 1 / zeta; "penalized" (equation 57, renormalised). With a zeta
            far above 1 use "scalable": the gains of the others underflow.
        rho: what "penalized" takes from bins of higher energies, at least 0. Defaults to 1.
        weight: "consistent" (default), :math:`\Psi(U)^\zeta`; or "piecewise", the paper's
            :math:`\theta(J)^\zeta`, which is biased by the bin width.
        theta: known probabilities of the bins of `partition`, (num_bins,), which are kept as they
            are; it needs `partition`. None (default) to learn them.
        collect_theta: whether log theta is collected for each draw, at the cost of
            draws times bins of memory. Defaults to True.
        model, potential_fn, step_size, preconditioner, num_steps, draw: as for `SGLD`.
        curvature_correction, minibatch_size, energy, noise, adjusted: as for `SGLD`.
        init_strategy, chunk_bytes, jumps: as for `SGLD`.

    Raises:
        ValueError: an argument is missing, unknown or out of its range; the message names it.

    Source: Deng, Lin and Liang (2020), equations (2) and (6) and Algorithm 1, with the scheme of
    section D.1 and continuous weights.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import ContourSGLD, EnergyPartition, weighted_samples
        >>> def potential(x):  # 0.4 N(-6, 1) + 0.6 N(4, 1)
        ...     return -jnp.logaddexp(jnp.log(0.4) - (x + 6)**2 / 2, jnp.log(0.6) - (x - 4)**2 / 2)
        >>> kernel = ContourSGLD(potential_fn=potential, step_size=0.1, num_steps=100,
        ...                      partition=EnergyPartition(0.0, 20.0, 40))
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
        barrier: float | None = None,
        num_bins: int | None = None,
        zeta: float | None = None,
        noise: str = "averaged",
        adjusted: bool = False,
        **arguments: Unpack[FlatteningArguments],
    ):
        given = {"num_bins": num_bins, "zeta": zeta}
        given = {name: value for name, value in given.items() if value is not None}
        contour, others = split({**arguments, **given})
        method = (
            Contour(**contour)
            if barrier is None
            else climbing_instead_of(
                barrier, contour | {"noise": noise, "adjusted": adjusted} | others
            )
        )
        super().__init__(
            model, potential_fn, moves=langevin_moves(noise, adjusted), method=method, **others
        )
