"""Diagonal preconditioning by a running mean of squared gradients (pSGLD), for any diffusion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from numpyro_contour import checks
from numpyro_contour.core.diffusions.diffusion import Diffusion, Proposal, Step


class RMSprop(NamedTuple):
    """Memory of `rmsprop`."""

    #: steps so far
    steps: jax.Array
    #: running mean of squared gradients, not yet corrected for its start at 0
    squares: Any
    #: what the curvature term needs, a `Slopes`; () without that term
    slopes: Any
    #: memory of the preconditioned diffusion
    inner: Any


class Slopes(NamedTuple):
    """The regression that estimates the diagonal of the Hessian for the curvature term."""

    #: the last position
    position: Any
    #: the gradient there
    gradient: Any
    #: running mean of the change of the gradient times the change of the position
    products: Any
    #: running mean of the squared change of the position
    squares: Any


def rmsprop(
    make: Callable[[Any, Any], Diffusion],
    decay: float = 0.99,
    floor: float = 1e-5,
    curvature: bool = False,
) -> Diffusion:
    r"""A diffusion preconditioned by its own gradients, as in preconditioned SGLD.

    .. math:: S_k = \alpha S_{k-1} + (1 - \alpha) \nabla\tilde U(x_k)^2, \qquad
              M_k = \frac{1}{\lambda + \sqrt{S_k / (1 - \alpha^k)}}

    and with the curvature term, which is needed since M depends on the position,

    .. math:: \frac{\partial M_i}{\partial x_i}
              = -(1 - \alpha) \frac{M_i^2}{\sqrt{S_i}}\, \partial_i \tilde U\, H_{ii}

    The diagonal of the Hessian H is estimated by a regression of the changes of the gradient on the
    changes of the position, which takes no further gradients. Dividing S by :math:`1 - \alpha^k`
    keeps the first steps from being ten times too long.

    If the noise of minibatches dominates S, then M settles and the draws are those of the target.
    If S follows the gradient at the position of the chain, within :math:`1 / (1 - \alpha)` steps,
    then M depends on the past of the chain and the draws are biased. The curvature term corrects a
    part of this bias.

    Args:
        make: `(preconditioner, curvature) -> Diffusion`, called at each step.
        decay: :math:`\alpha` in (0, 1). Defaults to 0.99.
        floor: :math:`\lambda > 0`. Defaults to 1e-5.
        curvature: whether to add the curvature term. Defaults to False, which is usual.

    Returns:
        A `Diffusion`; its memory is an `RMSprop`.

    Raises:
        ValueError: an argument is out of its range.

    Source: Li, Chen, Carlson and Carin (2016), Algorithm 1 and equation (9).

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.core.diffusions import Step, langevin, rmsprop
        >>> diffusion = rmsprop(lambda m, c: langevin("independent", m, curvature=c))
        >>> x = jnp.ones(2)
        >>> memory = diffusion.init(jax.random.key(0), x)
        >>> proposal = diffusion.propose(jax.random.key(1), x, memory, x, Step(0.1, 1.0))
        >>> proposal.position.shape
        (2,)
    """
    decay = checks.positive("decay", decay)
    if decay >= 1:
        raise checks.fail("decay", decay, "a number in (0, 1)")
    floor = checks.positive("floor", floor)
    checks.boolean("curvature", curvature)

    def init(key: jax.Array, position: Any) -> RMSprop:
        zeros = jax.tree.map(jnp.zeros_like, position)
        ones = jax.tree.map(jnp.ones_like, position)
        slopes = Slopes(position, zeros, zeros, zeros) if curvature else ()
        return RMSprop(
            jnp.zeros((), jnp.int32), zeros, slopes, make(ones, None).init(key, position)
        )

    def mean(old: Any, new: Any) -> Any:
        return jax.tree.map(lambda a, b: decay * a + (1 - decay) * b, old, new)

    def size_and_preconditioner(squares: Any, count: jax.Array) -> tuple[Any, Any]:
        """The root mean square of the gradients, and the diagonal of M."""
        size = jax.tree.map(lambda s: jnp.sqrt(s / (1 - decay**count)), squares)
        return size, jax.tree.map(lambda s: 1 / (floor + s), size)

    def regress(slopes: Slopes, position: Any, gradient: Any, count: jax.Array) -> Slopes:
        """The running means after one more move; there is no move before the first position."""

        def change(new: Any, old: Any) -> Any:
            return jax.tree.map(lambda a, b: jnp.where(count > 1, a - b, 0.0), new, old)

        moved = change(position, slopes.position)
        products = jax.tree.map(lambda g, x: g * x, change(gradient, slopes.gradient), moved)
        squares = jax.tree.map(lambda x: x**2, moved)
        return Slopes(
            position, gradient, mean(slopes.products, products), mean(slopes.squares, squares)
        )

    def propose(
        key: jax.Array, position: Any, memory: RMSprop, gradient: Any, step: Step
    ) -> Proposal:
        count = memory.steps + 1
        squares = mean(memory.squares, jax.tree.map(lambda g: g**2, gradient))
        size, preconditioner = size_and_preconditioner(squares, count)
        slopes, change = memory.slopes, None
        if curvature:
            slopes = regress(memory.slopes, position, gradient, count)
            change = jax.tree.map(
                lambda m, s, g, p, q: -(1 - decay) * m**2 / (s + floor) * g * p / (q + 1e-30),
                *(preconditioner, size, gradient, slopes.products, slopes.squares),
            )
        proposal = make(preconditioner, change).propose(key, position, memory.inner, gradient, step)
        return proposal._replace(
            memory=RMSprop(count, squares, slopes, proposal.memory),
            # The same gradient comes again at the next attempt: it counts once.
            memory_if_refused=memory._replace(inner=proposal.memory_if_refused),
        )

    def relocate(memory: RMSprop, position: Any, before: Any, after: Any, step: Step) -> RMSprop:
        _, preconditioner = size_and_preconditioner(memory.squares, jnp.maximum(memory.steps, 1))
        inner = make(preconditioner, None).relocate(memory.inner, position, before, after, step)
        # The jump to the new position is no move of the diffusion: the regression leaves it out.
        slopes = memory.slopes._replace(position=position, gradient=after) if curvature else ()
        return memory._replace(inner=inner, slopes=slopes)

    def draw(key: jax.Array, position: Any) -> Any:
        inner = make(jax.tree.map(jnp.ones_like, position), None).draw
        return key if inner is None else inner(key, position)

    return Diffusion(init, propose, relocate, draw=draw)
