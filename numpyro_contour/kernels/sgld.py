"""`SGLD`: stochastic gradient Langevin dynamics as a NumPyro kernel."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax

from numpyro_contour.core.arrays.vectors import unravel_like
from numpyro_contour.core.samplers.chain import Sampler
from numpyro_contour.core.samplers.plain import plain
from numpyro_contour.core.samplers.window import Window
from numpyro_contour.kernels.base import SGMCMCKernel


class SGLDState(NamedTuple):
    """State of `SGLD`."""

    #: the draw, unconstrained
    z: Any
    #: potential energy of the draw as the chain saw it, in nats
    potential_energy_estimate: jax.Array
    #: log weight of the draw and its window; 0 unless the guard reduced steps or a cycle explores
    log_weight: jax.Array
    #: log weight of the draw alone
    draw_log_weight: jax.Array
    #: step size of the step that left the draw
    step_size: jax.Array
    #: state of the pure sampler, where the chain is and the guard's counts
    sampler: Any
    #: random key of the next draw
    rng_key: jax.Array
    #: what the warm-up has found, as the group `warmup` of `to_inference_data` has it; () where
    #: everything is given
    warmup: Any = ()

    @property
    def position(self) -> Any:
        """Where the chain is; equal to `z` unless the draw stands for a window."""
        return unravel_like(self.sampler.chain.position, self.z)

    @property
    def steps(self) -> jax.Array:
        """Steps attempted since the start."""
        return self.sampler.chain.steps

    @property
    def refused(self) -> jax.Array:
        """How many of them were refused."""
        return self.sampler.chain.guard.refused

    @property
    def clipped(self) -> jax.Array:
        """In how many of them the drift was clipped."""
        return self.sampler.chain.guard.clipped


class SGLD(SGMCMCKernel):
    r"""Stochastic gradient Langevin dynamics on minibatches of any NumPyro model.

    .. math:: x_{k+1} = x_k - \epsilon M \nabla \tilde U(x_k) + \sqrt{2 \tau \epsilon M}\, \xi_k

    with :math:`\tilde U` the potential energy estimated from a fresh minibatch. It does not leave a
    mode whose barrier is many nats high: compare `ContourSGLD`.

    Args:
        model: a NumPyro model. Subsample plates, any number of them, are given fresh indices,
            drawn with replacement, at every step. None (default) where `potential_fn` is given.
        potential_fn: instead of a model, a function of any pytree to a potential energy in nats;
            `MCMC.run` then needs `init_params`. None (default) where a model is given.
        step_size: :math:`\epsilon > 0`, a number or a schedule `count -> value`. None (default) to
            find it in warm-up, which needs `num_warmup` of at least 20 draws.
        preconditioner: the diagonal of M, a pytree like z; "identity"; "rmsprop", running means of
            squared gradients with decay 0.99 (pSGLD), which needs `step_size`; or None (default),
            which finds M in warm-up together with the step size, and is 1 where that is given.
        curvature_correction: whether "rmsprop" adds the drift that its dependence on the position
            asks for. Defaults to False.
        temperature: :math:`\tau \ge 0`, a number or a schedule. Defaults to 1.
        num_steps: steps for each draw. Defaults to 1. Larger values save memory and the cost of
            collecting draws.
        draw: which of the `num_steps` positions is handed out: "reservoir" (default), one of them
            in proportion to their weights, carrying their mean weight; or "last".
        minibatch_size: None (default) for the model's own `subsample_size`; an int for its only
            subsample plate, or `{plate: int}`; also for plates written without `subsample_size`
            whose data follow the plate's indices.
        energy: what estimates the potential energy and its gradient. "full", all data; "minibatch",
            a fresh minibatch; "control_variate", the minibatch relative to a first-order expansion
            at a point that the warm-up descends to, which needs one pass over all data and
            `num_warmup` of at least 20 draws; or a callable `(key, z) -> (potential energy,
            gradient)` with z unconstrained. None (default) takes "full" where no plate is
            subsampled; elsewhere "control_variate" where anything is found in warm-up (a chain
            gives it up where it has more noise than the minibatch alone), else "minibatch".
        noise: "averaged" (default, Leimkuhler and Matthews) or "independent" (Welling and Teh).
        init_strategy: as in NumPyro. Defaults to `init_to_uniform`.
        chunk_bytes: memory that a pass over all data may take. Defaults to 256 MiB.

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

    @property
    def default_fields(self) -> tuple[str, ...]:
        """The state fields that are collected for each draw."""
        return (
            "z",
            "potential_energy_estimate",
            "log_weight",
            "draw_log_weight",
            "step_size",
            "steps",
            "refused",
            "clipped",
        )

    def _sampler(self, warmup: Any, z: Any, noisy: bool = False) -> Sampler:
        diffusion, step_size = self._diffusion(warmup, z)
        return plain(diffusion, step_size, self._temperature)

    def _state(
        self,
        z: Any,
        window: Window,
        sampler_state: Any,
        rng_key: jax.Array,
        warmup: Any,
        unconstrained: jax.Array,
    ) -> SGLDState:
        return SGLDState(
            z=z,
            potential_energy_estimate=window.draw.potential_energy,
            log_weight=window.log_weight,
            draw_log_weight=window.draw.log_weight,
            step_size=window.draw.step_size,
            sampler=sampler_state,
            rng_key=rng_key,
            warmup=warmup,
        )

    def get_diagnostics_str(self, state: SGLDState) -> str:
        """The text of the progress bar."""
        return (
            f"{self._stage_text(state)}energy {float(state.potential_energy_estimate):.1f}, "
            f"step size {float(state.step_size):.1e}"
        )
