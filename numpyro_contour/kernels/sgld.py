"""`SGLD`: stochastic gradient Langevin dynamics as a NumPyro kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from numpyro_contour.kernels.arguments import OneTemperature, with_signature
from numpyro_contour.kernels.kernel import Kernel
from numpyro_contour.kernels.parts.moves import langevin_moves


@with_signature(Kernel)
class SGLD(Kernel):
    r"""Stochastic gradient Langevin dynamics on minibatches of any NumPyro model.

    .. math:: x_{k+1} = x_k - \epsilon M \nabla \tilde U(x_k) + \sqrt{2 \tau \epsilon M}\, \xi_k

    with :math:`\tilde U` the potential energy estimated from a fresh minibatch. It does not leave a
    mode whose barrier is many nats high: compare `ContourSGLD`.

    Args:
        model: a NumPyro model. Each of its subsample plates is given fresh indices at every
            step, drawn with replacement. None (default) where `potential_fn` is given.
        potential_fn: instead of a model, a function of any pytree to a potential energy in nats;
            `MCMC.run` then needs `init_params`. None (default) where a model is given.
        step_size: :math:`\epsilon > 0`, a number or a schedule `count -> value`. None (default) to
            find it in the warm-up, which takes at least 20 draws; those that `num_warmup` lacks are
            added, with a warning.
        preconditioner: the form of M, which the warm-up finds together with the step size: "diag"
            for a diagonal, "dense" for all of M, where coordinates are so correlated that no
            diagonal helps (a step then takes :math:`4 d^2` operations more), "low-rank" for a
            diagonal and up to eight directions, in many coordinates; or the diagonal of M, a pytree
            like z; "identity"; "rmsprop", running means of squared gradients with decay
            0.99 (pSGLD), which needs `step_size`; or None (default). It is then 1 where the step
            size is given, and else a diagonal, or dense in up to 250 coordinates where a diagonal
            leaves a condition number of at least 10 (30 for kernels that move between modes).
        curvature_correction: whether "rmsprop" adds the drift that its dependence on the position
            asks for. Defaults to False.
        temperature: :math:`\tau \ge 0`, a number or a schedule. Defaults to 1.
        num_steps: steps for each draw. None (default) for 1 where `step_size` is given. Else the
            warm-up finds how many make draws nearly independent, at most 100, and 200 of contour
            kernels; these take the most where chains do not jump, and so do all kernels whose
            temperature is a schedule. `print_summary`, the progress bar and the group `warmup` of
            `to_inference_data` have what was found.
        draw: which of the `num_steps` positions becomes the draw: "reservoir" (default), one that
            is chosen in proportion to its weight and carries the mean weight of all; or "last".
        minibatch_size: None (default) for the model's own `subsample_size`; an int for its only
            subsample plate, or `{plate: int}`; also for plates written without `subsample_size`
            whose data follow the plate's indices.
        energy: what estimates the potential energy and its gradient. "full", all data; "minibatch",
            a fresh minibatch; "control_variate", the minibatch relative to expansions at anchors,
            which the warm-up places where the chains go, with passes over all data that look at no
            more rows than the minibatches do, and at least 20 draws of warm-up; "first_order",
            "second_order" or "data_expansion" for one kind of it, where "control_variate" decides
            by the noise that it measures; or a callable `(key, z) -> (potential energy, gradient)`
            with z unconstrained. None (default) takes "full" where no plate is subsampled;
            elsewhere "control_variate" where anything is found in warm-up (a chain gives it up
            where it has more noise than the minibatch alone), else "minibatch".
        noise: "averaged" (default, Leimkuhler and Matthews) or "independent" (Welling and Teh).
        adjusted: whether each move is accepted by Metropolis-Hastings, which needs exact energies
            and a temperature above 0. Draws then have no bias from the step size, also where the
            energy jumps and the gradient does not show it. The noise is independent, each step size
            is drawn between :math:`\epsilon e^{-4}` and :math:`\epsilon`, and a step size that is
            found gives a mean acceptance of 0.7. See `diffusions.leapfrog`. Defaults to False.
        init_strategy: as in NumPyro. Defaults to `init_to_uniform`.
        chunk_bytes: memory that a pass over all data may take. Defaults to 256 MiB.
        jumps: whether chains jump between modes that the warm-up finds, by tries that take one
            gradient each and are accepted by Metropolis-Hastings; or the number of tries for each
            step, above 0 and at most 1. None (default) for one in ten steps wherever two modes are
            found, which needs something to be found in a warm-up. With a control variate it is one
            in a hundred, since energies of both ends are then taken anew with their noise; with
            minibatches alone there are none. See `jumps` in `core.samplers.jumps`.

    Raises:
        ValueError: an argument is missing, unknown or out of its range; the message names it.

    Source: Welling and Teh (2011), equation (4), whose step size is twice this one.

    Example:
        >>> import jax, jax.numpy as jnp, numpyro, numpyro.distributions as dist
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import SGLD
        >>> def model(y):
        ...     mu = numpyro.sample("mu", dist.Normal(0, 10))
        ...     with numpyro.plate("rows", len(y), subsample_size=20) as idx:
        ...         numpyro.sample("y", dist.Normal(mu, 1), obs=y[idx])
        >>> y = 3 + jax.random.normal(jax.random.key(0), (1000,))
        >>> mcmc = MCMC(SGLD(model, step_size=1e-4, num_steps=10), num_warmup=100,
        ...             num_samples=500, progress_bar=False)
        >>> mcmc.run(jax.random.key(1), y)
        >>> bool(abs(mcmc.get_samples()["mu"].mean() - y.mean()) < 0.1)
        True
    """

    def __init__(
        self,
        model: Callable | None = None,
        potential_fn: Callable | None = None,
        *,
        noise: str = "averaged",
        adjusted: bool = False,
        **arguments: Unpack[OneTemperature],
    ):
        super().__init__(model, potential_fn, moves=langevin_moves(noise, adjusted), **arguments)
