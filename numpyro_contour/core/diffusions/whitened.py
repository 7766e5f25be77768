"""Any diffusion in coordinates that a factor turns and scales: dense preconditioners and others."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from numpyro_contour.core.arrays.factors import LowRank, displacement, slope
from numpyro_contour.core.diffusions.diffusion import Diffusion, Proposal, Step


def whitened(diffusion: Diffusion, factor: jax.Array | LowRank) -> Diffusion:
    r"""A diffusion that moves z, where :math:`x = x_0 + L z`, for a chain that stays in x.

    .. math:: x_{k+1} = x_k + L\, \Delta(L^\top \nabla \tilde U(x_k))

    with :math:`\Delta(h)` the move of the diffusion at the gradient h. It is thus preconditioned by
    :math:`M = L L^\top`, or by :math:`L D L^\top` if its own preconditioner is D. Whatever it does
    by coordinate is by coordinate of z: the clipping of the drift, and the correction for the noise
    of the gradient, which is exact if :math:`L^\top V L` is diagonal for the covariance V of that
    noise. The energy, the position and its gradient stay as they were, so that nothing else has to
    know of L.

    Args:
        diffusion: for instance `langevin()`; of its arguments `preconditioner` and
            `gradient_noise` are in the coordinates z.
        factor: L, (d, d), of full rank; or a `LowRank` beside a diagonal.

    Returns:
        A `Diffusion` of positions (d,); its memory is that of `diffusion`, in the coordinates z.

    Source: Roberts and Stramer (2002), *Langevin diffusions and Metropolis-Hastings algorithms*,
    for the change of coordinates.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.core.diffusions import Step, langevin, whitened
        >>> covariance = jnp.array([[1.0, 0.9], [0.9, 1.0]])
        >>> diffusion = whitened(langevin(), jnp.linalg.cholesky(covariance))
        >>> x = jnp.ones(2)
        >>> memory = diffusion.init(jax.random.key(0), x)
        >>> gradient = jnp.linalg.solve(covariance, x)
        >>> proposal = diffusion.propose(jax.random.key(1), x, memory, gradient, Step(0.1, 1.0))
        >>> proposal.position.shape
        (2,)
    """

    def propose(
        key: jax.Array, position: jax.Array, memory: Any, gradient: jax.Array, step: Step
    ) -> Proposal:
        here = jnp.zeros_like(position)
        proposal = diffusion.propose(key, here, memory, slope(factor, gradient), step)
        return proposal._replace(position=position + displacement(factor, proposal.position))

    def relocate(
        memory: Any, position: jax.Array, before: jax.Array, after: jax.Array, step: Step
    ) -> Any:
        slopes = slope(factor, before), slope(factor, after)
        return diffusion.relocate(memory, position, *slopes, step)

    def accept(
        memory: Any, gradient: jax.Array, step: Step, log_ratio: jax.Array
    ) -> tuple[jax.Array, Any]:
        assert diffusion.accept is not None
        return diffusion.accept(memory, slope(factor, gradient), step, log_ratio)

    tests = diffusion.accept is not None
    return Diffusion(diffusion.init, propose, relocate, accept if tests else None, diffusion.draw)
