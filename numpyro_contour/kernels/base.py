"""The adaptor between pure samplers and NumPyro's `MCMC`, once for all kernels.

A kernel object holds settings only. Whatever is found or learnt lives in the state, and whatever
depends on the data is rebuilt from `(model_args, model_kwargs)` at each trace, so that a second
run on new data, copies and pickles are safe.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, random
from numpyro.infer import init_to_uniform
from numpyro.util import is_prng_key

from numpyro_contour import checks
from numpyro_contour.core.arrays.vectors import ravel
from numpyro_contour.core.diffusions import NOISES
from numpyro_contour.core.samplers.chain import PotentialAndGrad
from numpyro_contour.core.samplers.window import DRAWS, Window, run_window
from numpyro_contour.kernels.start import find_position, raise_if_unusable
from numpyro_contour.kernels.tuned import TunedKernel, check_preconditioner
from numpyro_contour.models.all_rows import CHUNK_BYTES
from numpyro_contour.models.estimators import choice as estimators
from numpyro_contour.models.handlers import whole_rows
from numpyro_contour.models.jit_on_data import JittedOnData
from numpyro_contour.models.model_potential import constrained
from numpyro_contour.models.plates import MinibatchSize, check_minibatch_size
from numpyro_contour.schedules import ScalarOrSchedule, as_schedule


class SGMCMCKernel(TunedKernel):
    """Base of the kernels: all that NumPyro asks for, around a pure sampler.

    A kernel defines `_sampler(warmup, z, noisy)`, the pure sampler with its settings, and
    `_state(...)`, the state that `MCMC` sees. One that differs from `SGLD` or `ContourSGLD` in its
    diffusion alone is made from that and defines `_make_diffusion(preconditioner, ...)`.

    Args:
        model, potential_fn, step_size, preconditioner, temperature, num_steps, draw: as for `SGLD`.
        curvature_correction, minibatch_size, energy, noise: as for `SGLD`.
        init_strategy, chunk_bytes: as for `SGLD`.

    Raises:
        ValueError: an argument is missing, unknown or out of its range; the message names it.

    Example:
        >>> from numpyro_contour import SGLD
        >>> from numpyro_contour.core.diffusions import langevin
        >>> class Unclipped(SGLD):
        ...     def _make_diffusion(self, preconditioner, gradient_noise=None, curvature=None):
        ...         return langevin(self._noise, preconditioner, gradient_noise, curvature,
        ...                         drift_limit=float("inf"))
        >>> Unclipped(potential_fn=lambda x: x**2 / 2, step_size=0.1).settings["noise"]
        'averaged'
    """

    sample_field = "z"

    # NumPyro initialises a kernel without this attribute anew at every run, after `warmup` too.
    _sample_fn = "stateless"

    def __init__(
        self,
        model: Callable | None = None,
        potential_fn: Callable | None = None,
        *,
        step_size: ScalarOrSchedule | None = None,
        preconditioner: Any = None,
        curvature_correction: bool = False,
        temperature: ScalarOrSchedule = 1.0,
        num_steps: int = 1,
        draw: str = "reservoir",
        minibatch_size: MinibatchSize = None,
        energy: str | Callable | None = None,
        noise: str = "averaged",
        init_strategy: Callable = init_to_uniform,
        chunk_bytes: int = CHUNK_BYTES,
    ):
        if (model is None) == (potential_fn is None):
            got = "neither" if model is None else "both"
            raise ValueError(f"Give one of `model` and `potential_fn`, but got {got}.")
        if model is None and minibatch_size is not None:
            raise checks.fail("minibatch_size", minibatch_size, "None with `potential_fn`")
        self._model = None if model is None else checks.function("model", model)
        self._potential_fn = (
            None if potential_fn is None else checks.function("potential_fn", potential_fn)
        )
        self._step_size = (
            None if step_size is None else as_schedule("step_size", step_size, checks.positive)
        )
        self._preconditioner = check_preconditioner(preconditioner)
        rmsprop = isinstance(self._preconditioner, str) and self._preconditioner == "rmsprop"
        if rmsprop and step_size is None:
            raise checks.fail("step_size", None, "a number or a schedule with 'rmsprop'")
        self._curvature_correction = checks.boolean("curvature_correction", curvature_correction)
        if curvature_correction and not rmsprop:
            raise checks.fail("curvature_correction", True, "False unless with 'rmsprop'")
        self._temperature = as_schedule("temperature", temperature, checks.non_negative)
        self._num_steps = checks.integer("num_steps", num_steps, at_least=1)
        self._draw = checks.one_of("draw", draw, DRAWS)
        self._minibatch_size = check_minibatch_size(minibatch_size)
        self._energy = estimators.check_energy(energy)
        self._noise = checks.one_of("noise", noise, NOISES)
        self._init_strategy = checks.function("init_strategy", init_strategy)
        self._chunk_bytes = checks.integer("chunk_bytes", chunk_bytes, at_least=1)
        self._start = JittedOnData(self._start_chains)

    @property
    def model(self) -> Callable | None:
        """The model over all its rows, None for a kernel of a potential function.

        Its subsample plates take every row, so that what NumPyro and ArviZ compute from it,
        observed data and log likelihoods, is not that of one minibatch.
        """
        return None if self._model is None else whole_rows(self._model)

    @property
    def settings(self) -> dict[str, Any]:
        """The kernel's settings by the names of its arguments, without its model."""
        return {
            "step_size": "tuned" if self._step_size is None else self._step_size,
            "preconditioner": self._preconditioner_name(),
            "curvature_correction": self._curvature_correction,
            "temperature": self._temperature,
            "num_steps": self._num_steps,
            "draw": self._draw,
            "minibatch_size": self._minibatch_size,
            "energy": self._energy,
            "noise": self._noise,
            "chunk_bytes": self._chunk_bytes,
        }

    # ------------------------------------------------------------------ what NumPyro calls

    def init(
        self,
        rng_key: jax.Array,
        num_warmup: int,
        init_params: Any = None,
        model_args: tuple = (),
        model_kwargs: dict | None = None,
    ) -> Any:
        """The first state; a batch of keys makes a batch of chains.

        Args:
            rng_key: random key, or keys (chains,).
            num_warmup: draws of warm-up to come.
            init_params: the first position, unconstrained, with chains along the first axis of a
                batch. None (default) to take it from `init_strategy`.
            model_args: arguments of the model. Defaults to ().
            model_kwargs: its keyword arguments. None (default) for none.

        Returns:
            The state of one chain or of all, for instance a `ContourState`.

        Raises:
            ValueError: `num_warmup` is too small for what is to be found; or `init_params` does not
                fit, or the potential energy is not finite there.
        """
        model_kwargs = {} if model_kwargs is None else model_kwargs
        if self._plan is not None and num_warmup < self._plan.least:
            names = self._to_be_found()
            raise ValueError(
                f"`num_warmup` takes at least {self._plan.least} draws where {' and '.join(names)} "
                f"{'is' if len(names) == 1 else 'are'} found in warm-up, but got {num_warmup}."
            )
        state, usable = self._start(rng_key, init_params, model_args, model_kwargs)
        raise_if_unusable(usable, state.potential_energy_estimate)
        if self._plan is not None:
            length = jnp.full_like(state.warmup.length, num_warmup)
            state = state._replace(warmup=state.warmup._replace(length=length))
        return state

    def _start_chains(
        self, rng_key: jax.Array, init_params: Any, model_args: tuple, model_kwargs: dict
    ) -> tuple[Any, dict[str, jax.Array]]:
        potential = self._potential(model_args, model_kwargs)
        keeps = self._keeps_unconstrained(potential)

        def start(rng_key: jax.Array, init_params: Any) -> tuple[Any, jax.Array]:
            rng_key, key_position, key_chain = random.split(rng_key, 3)
            z = find_position(key_position, potential, self._init_strategy, init_params)
            warmup = self._initial_warmup(z, self._no_anchor(potential, z))
            sampler = self._sampler(warmup, z)
            energy = self._estimator(potential, z, warmup, starts=True)(warmup)
            sampler_state = sampler.init(key_chain, ravel(z), energy)
            drawn = sampler.observe(sampler_state)
            window = Window(drawn, drawn.log_weight)
            unconstrained = drawn.position if keeps else jnp.zeros((0,))
            state = self._state(z, window, sampler_state, rng_key, warmup, unconstrained)
            chain = sampler_state.chain
            finite = jnp.isfinite(chain.potential_energy) & jnp.isfinite(chain.gradient).all()
            return state, finite

        single = is_prng_key(rng_key)
        state, finite = (start if single else jax.vmap(start))(rng_key, init_params)
        usable = {"start": finite}
        if potential is not None and potential.plates:
            first = state.z if single else jax.tree.map(lambda x: x[0], state.z)
            usable["rows"] = potential.finite_on_all_rows(first)
        return state, usable

    def sample(self, state: Any, model_args: tuple, model_kwargs: dict | None) -> Any:
        """The next draw, `num_steps` diffusion steps on.

        Args:
            state: the state of one chain or of all.
            model_args: arguments of the model.
            model_kwargs: its keyword arguments, or None.

        Returns:
            The state after the draw.
        """
        model_kwargs = {} if model_kwargs is None else model_kwargs
        batched = not is_prng_key(state.rng_key)
        potential = self._potential(model_args, model_kwargs)
        like = jax.tree.map(lambda x: x[0], state.z) if batched else state.z
        energy = self._estimator(potential, like, state.warmup)

        def lift(function: Callable) -> Callable:
            return jax.vmap(function) if batched else function

        def lift_in_turn(function: Callable) -> Callable:
            return partial(lax.map, function) if batched else function

        exact = self._chosen(potential) == "full"

        def transition(state: Any) -> tuple[Any, Window]:
            rng_key, key = random.split(state.rng_key)
            sampler = self._sampler(state.warmup, state.z, noisy=not exact)
            trust = 1.0 if exact else self._trust(state.warmup)
            sampler_state, window = run_window(
                *(key, state.sampler, energy(state.warmup), sampler),
                *(self._num_steps, self._draw, trust),
            )
            return self._with_window(state, window, sampler_state, rng_key, state.warmup), window

        plan = self._plan
        if plan is None:
            return lift(transition)(state)[0]

        def renew_anchor(before: Any, after: Any) -> Any:
            return self._renew_anchor(plan, before, after, lift_in_turn, potential)

        return self._in_warmup(state, lift, transition, energy, exact, renew_anchor)

    def postprocess_fn(self, model_args: tuple, model_kwargs: dict | None) -> Callable:
        """From unconstrained draws to the model's sites.

        Deterministic sites inside a subsampled plate are left out: a minibatch holds only some of
        their rows. `numpyro.infer.Predictive` computes them from the draws.

        Args:
            model_args: arguments of the model.
            model_kwargs: its keyword arguments, or None.

        Returns:
            A function of one unconstrained draw; of a potential function's, the identity.
        """
        if self._model is None:
            return lambda z: z
        potential = self.model_potential(model_args, model_kwargs)
        return lambda z: constrained(potential, z)

    def refresh(self, state: Any, model_args: tuple, model_kwargs: dict | None) -> Any:
        """The state with energy and gradient at its position by the given arguments.

        Args:
            state: the state of one chain or of all.
            model_args: arguments of the model.
            model_kwargs: its keyword arguments, or None.

        Returns:
            The state, as a block of `numpyro.infer.Gibbs` needs it after other blocks have moved.
        """
        model_kwargs = {} if model_kwargs is None else model_kwargs

        potential = self._potential(model_args, model_kwargs)

        def renew(state: Any) -> Any:
            state = self._anchored_anew(state, potential)
            rng_key, key = random.split(state.rng_key)
            estimate = self._estimator(potential, state.z, state.warmup)(state.warmup)
            sampler = self._evaluated_anew(key, state.sampler, estimate)
            return state._replace(sampler=sampler, rng_key=rng_key)

        return renew(state) if is_prng_key(state.rng_key) else jax.vmap(renew)(state)

    def _evaluated_anew(self, key: jax.Array, sampler: Any, energy: PotentialAndGrad) -> Any:
        """A sampler's state with energy and gradient evaluated anew where it is."""
        chain = sampler.chain
        value, gradient = energy(key, chain.position)
        chain = chain._replace(potential_energy=value, gradient=gradient)
        return sampler._replace(chain=chain)

    def wrap_model(self, wrapper: Callable) -> SGMCMCKernel:
        """A copy of this kernel on another model.

        Args:
            wrapper: a function from the kernel's model to the copy's.

        Returns:
            The copy.

        Raises:
            ValueError: the kernel was given `potential_fn`.
        """
        state = self.__getstate__()
        state["_model"] = wrapper(self._model_or_fail())
        kernel = object.__new__(type(self))
        kernel.__setstate__(state)
        return kernel

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["_start"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start = JittedOnData(self._start_chains)
