"""`Kernel`: all that NumPyro asks of a kernel, around parts that are values.

A kernel object holds settings only. What is learnt lives in the state, and what depends on the data
is rebuilt at each trace, so that a second run on new data, copies and pickles are safe.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax
from numpyro.infer import init_to_uniform
from numpyro.infer.mcmc import MCMCKernel
from numpyro.util import is_prng_key

from numpyro_contour import checks
from numpyro_contour.core.samplers.window import DRAWS
from numpyro_contour.energies.source import Energies, EnergySource
from numpyro_contour.kernels.methods.contour_state import of_sites
from numpyro_contour.kernels.methods.method import Method
from numpyro_contour.kernels.methods.plain import Plain
from numpyro_contour.kernels.parts.draws import ChainDraws
from numpyro_contour.kernels.parts.jumping import check_jumps, with_no_modes
from numpyro_contour.kernels.parts.moves import Moves, langevin_moves
from numpyro_contour.kernels.parts.parts import Parts, steps_of_a_draw
from numpyro_contour.kernels.parts.progress_text import is_asked_by_the_progress_bar as is_asked
from numpyro_contour.kernels.parts.progress_text import (
    numpyro_shows_a_bar,
    progress_text,
    with_settings,
)
from numpyro_contour.kernels.parts.scaling import Scaling
from numpyro_contour.kernels.parts.start import (
    check_chains,
    raise_if_unusable,
    warn_if_idle,
    with_first_anchors,
)
from numpyro_contour.kernels.several_devices import check_data, check_start
from numpyro_contour.models.all_rows import CHUNK_BYTES
from numpyro_contour.models.compiled_on_data import Begun, CompiledOnData
from numpyro_contour.models.coordinates import constrained
from numpyro_contour.models.handlers import whole_rows
from numpyro_contour.models.jit_on_data import JittedOnData, is_tracing
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.operands import on_operands, with_operands
from numpyro_contour.models.plates import MinibatchSize
from numpyro_contour.models.same_data import checksum
from numpyro_contour.schedules import ScalarOrSchedule, as_schedule, check_positive_temperature
from numpyro_contour.warmup.host import HostWarmup
from numpyro_contour.warmup.mode_finder import search_program
from numpyro_contour.warmup.search import Beginning, beginning, begun_in_modes, is_traced
from numpyro_contour.warmup.traced import drawn

# Attributes that hold programs, which are not pickled.
_PROGRAMS = ("_start", "_starts_on_host", "_warm_up", "_sites", "_finds")


class Kernel(MCMCKernel):
    """A kernel for `numpyro.infer.MCMC`, composed of moves and of the method around them.

    The named kernels are compositions of this one.

    Args:
        moves: how a step moves. None (default) for `langevin_moves()`.
        method: what is made of the moves, for instance `Contour(zeta=0.75)`. None (default) for
            `Plain()`.
        model, potential_fn, step_size, preconditioner, temperature, num_steps, draw: as for `SGLD`.
        curvature_correction, minibatch_size, energy, init_strategy, chunk_bytes, jumps: as for
            `SGLD`.

    Raises:
        ValueError: an argument is missing, unknown or out of its range; the message names it.

    Example:
        >>> from numpyro_contour.kernels.kernel import Kernel
        >>> from numpyro_contour.kernels.methods.contour import Contour
        >>> from numpyro_contour.kernels.parts.moves import underdamped_moves
        >>> kernel = Kernel(potential_fn=lambda x: x**2 / 2, moves=underdamped_moves(momentum=0.8),
        ...                 method=Contour(zeta=0.9))
        >>> kernel.settings["momentum"], kernel.settings["zeta"]
        (0.8, 0.9)
    """

    # NumPyro initialises a kernel without this attribute anew at every run, after `warmup` too.
    _sample_fn = "stateless"

    def __init__(
        self,
        model: Callable | None = None,
        potential_fn: Callable | None = None,
        *,
        moves: Moves | None = None,
        method: Method | None = None,
        step_size: ScalarOrSchedule | None = None,
        preconditioner: Any = None,
        curvature_correction: bool = False,
        temperature: ScalarOrSchedule = 1.0,
        num_steps: int | None = None,
        draw: str = "reservoir",
        minibatch_size: MinibatchSize = None,
        energy: str | Callable | None = None,
        init_strategy: Callable = init_to_uniform,
        chunk_bytes: int = CHUNK_BYTES,
        jumps: bool | float | None = None,
    ):
        source = EnergySource(model, potential_fn, minibatch_size, energy, chunk_bytes)
        moves = langevin_moves() if moves is None else moves
        method = Plain() if method is None else method
        scaling = Scaling(step_size, preconditioner, curvature_correction)
        if moves.needs_temperature:
            check_positive_temperature(temperature)
        schedule = as_schedule("temperature", temperature, checks.non_negative)
        tau = method.check_temperature(temperature, schedule)
        steps, finds_num_steps = steps_of_a_draw(num_steps, method, scaling, tau)
        self.parts = Parts(
            source=source,
            moves=moves,
            scaling=scaling,
            method=method,
            temperature=tau,
            num_steps=steps,
            draw=checks.one_of("draw", draw, DRAWS),
            init_strategy=checks.function("init_strategy", init_strategy),
            jumps=check_jumps(jumps),
            finds_num_steps=finds_num_steps,
        )
        self._make_programs()

    def _make_programs(self) -> None:
        self._start = JittedOnData(self._start_chains, quickly=True)
        self._starts_on_host = CompiledOnData(self._start_chains)
        self._warm_up = HostWarmup(self.parts)
        self._sites = JittedOnData(self._sites_of)
        self._finds = search_program(self.parts.source)

    @property
    def model(self) -> Callable | None:
        """The model over all its rows, None for a kernel of a potential function.

        Its subsample plates take every row, so that what NumPyro and ArviZ compute from it,
        observed data and log likelihoods, is not that of one minibatch.
        """
        model = self.parts.source.model
        return None if model is None else whole_rows(model)

    @property
    def sample_field(self) -> str:
        """The state field that holds the draws; where they have weights, these stand in it too."""
        return self.parts.method.fields[0]

    @property
    def default_fields(self) -> tuple[str, ...]:
        """The state fields that are collected for each draw."""
        counted = ("moved",) if self.parts.moves.adjusted else ()
        return (*self.parts.method.fields, *counted)

    @property
    def settings(self) -> dict[str, Any]:
        """The kernel's settings by the names of its arguments, without its model."""
        return self.parts.settings

    @property
    def source(self) -> EnergySource:
        """Where its potential energies come from."""
        return self.parts.source

    # ------------------------------------------------------------------ its energies

    def model_potential(
        self, model_args: tuple = (), model_kwargs: dict | None = None
    ) -> ModelPotential:
        """The potential energy of the kernel's model over minibatches and over all rows.

        Args:
            model_args: arguments of the model. Defaults to ().
            model_kwargs: its keyword arguments. None (default) for none.

        Returns:
            A `ModelPotential`.

        Raises:
            ValueError: as `ModelPotential.of`, or the kernel was given `potential_fn`.
        """
        return self.parts.source.model_potential(model_args, model_kwargs)

    def energies(self, like: Any, model_args: tuple, model_kwargs: dict | None) -> Energies:
        """The potential energies of a run, in all the ways in which they are evaluated.

        Args:
            like: an unconstrained position of one chain.
            model_args: arguments of the model.
            model_kwargs: its keyword arguments, or None.

        Returns:
            An `Energies`.

        Raises:
            ValueError: as `model_potential`, or as `energy_estimator`.
        """
        return self.parts.energies(self.parts.source.potential(model_args, model_kwargs), like)

    def energy_estimator(
        self, model_args: tuple = (), model_kwargs: dict | None = None
    ) -> str | Callable:
        """What estimates the potential energy in a run on these arguments.

        Args:
            model_args: arguments of the model. Defaults to ().
            model_kwargs: its keyword arguments. None (default) for none.

        Returns:
            "minibatch", "control_variate", "full", or the callable that was given as `energy`.
        """
        return self.parts.estimator(self.parts.source.potential(model_args, model_kwargs))

    def has_exact_energy(self, model_args: tuple = (), model_kwargs: dict | None = None) -> bool:
        """Whether the potential energies of a run are exact, not estimates from minibatches.

        Args:
            model_args: arguments of the model. Defaults to ().
            model_kwargs: its keyword arguments. None (default) for none.

        Returns:
            True or False.
        """
        return self.energy_estimator(model_args, model_kwargs) == "full"

    def stage_names(self) -> tuple[str, ...]:
        """The stages of the warm-up in their order; none where everything is given."""
        return () if self.parts.plan is None else self.parts.plan.names

    # ------------------------------------------------------------------ what NumPyro calls

    def init(
        self,
        rng_key: jax.Array,
        num_warmup: int,
        init_params: Any = None,
        model_args: tuple = (),
        model_kwargs: dict | None = None,
    ) -> Any:
        """The state after the warm-up; a batch of keys makes a batch of chains.

        The host makes the warm-up here, and of the draws of NumPyro's own warm-up the first 200 say
        how many steps a draw takes, where that is found; the others change nothing. In a
        program that is traced, as with `chain_method="parallel"`, and as a block of
        `numpyro.infer.Gibbs` it is `first_state`, and NumPyro's draws are the warm-up.

        Args:
            rng_key: random key, or keys (chains,).
            num_warmup: draws of warm-up. Where more are needed they are made too.
            init_params: the first position, unconstrained, with chains along the first axis of a
                batch. None (default) to take it from `init_strategy`.
            model_args: arguments of the model. Defaults to ().
            model_kwargs: its keyword arguments. None (default) for none.

        Returns:
            The state of one chain or of all, for instance a `ContourState`.

        Raises:
            ValueError: as `first_state`.

        Warns:
            UserWarning: as `first_state`.
        """
        model_kwargs = {} if model_kwargs is None else model_kwargs
        started = rng_key, num_warmup, init_params, model_args, model_kwargs
        # What another block of Gibbs sampling moves is not to be held where it is.
        held = self.parts.plan is None or not self.parts.source.recentred
        state, begins = self._started(*started, on_host=not held)
        if held or is_traced((state, model_args, model_kwargs)):
            return begun_in_modes(begins, state)[0]
        bar = numpyro_shows_a_bar()
        return self._warm_up(state, begins, num_warmup, model_args, model_kwargs, bar)

    def first_state(
        self,
        rng_key: jax.Array,
        num_warmup: int,
        init_params: Any = None,
        model_args: tuple = (),
        model_kwargs: dict | None = None,
    ) -> Any:
        """The state before the warm-up, which the draws of `sample` then make.

        Args:
            rng_key: random key, or keys (chains,).
            num_warmup: draws of warm-up to come. Where more are needed, the first draw makes them.
            init_params: the first position, as for `init`. None (default) to take it from
                `init_strategy`.
            model_args: arguments of the model. Defaults to ().
            model_kwargs: its keyword arguments. None (default) for none.

        Returns:
            The state of one chain or of all, for instance a `ContourState`.

        Raises:
            ValueError: a plate has more rows than the data; or `init_params` does not fit, or the
                potential energy is not finite there; or as `several_devices.check_start`.

        Warns:
            UserWarning: `num_warmup` is too small for what is to be found; or a plate has fewer
                rows than the data that it indexes; or the model has nothing to sample.
        """
        model_kwargs = {} if model_kwargs is None else model_kwargs
        state, begins = self._started(rng_key, num_warmup, init_params, model_args, model_kwargs)
        return begun_in_modes(begins, state)[0]

    def _started(
        self,
        rng_key: jax.Array,
        num_warmup: int,
        init_params: Any,
        model_args: tuple,
        model_kwargs: dict,
        on_host: bool = False,
    ) -> tuple[Any, Beginning | None]:
        """The state where chains start, and what searches for modes to begin in, if they do."""
        check_start(rng_key, model_args, model_kwargs)
        self.parts.warn_of_short(num_warmup)
        self.parts.source.check_rows(model_args, model_kwargs)
        first = init_params, self.parts.centring(model_args, model_kwargs)
        data = model_args, model_kwargs

        def of_run(state: Any) -> tuple[Any, Beginning | None]:
            """The state with what the run adds to it, and what searches."""
            state = self._of_run(state, num_warmup, *data)
            return state, beginning(self.parts, self._finds, state, num_warmup, data, on_host)

        program = self._begin_start(rng_key, first, *data)
        if program is not None:
            # While it is compiled, what comes next is traced, from a state of these shapes.
            blank, begins = of_run(_blank(program.shapes[0], rng_key))
            if on_host and begins is not None:
                self._warm_up.begin(blank, *data)
        start = partial(self._start, rng_key, first, *data)
        state, usable = start() if program is None else program(rng_key, first)
        raise_if_unusable(usable, state.potential_energy_estimate)
        warn_if_idle(state.z)
        if program is None:
            return of_run(state)
        return self._of_run(state, num_warmup, *data), begins

    def _begin_start(
        self, rng_key: jax.Array, first: tuple, model_args: tuple, model_kwargs: dict
    ) -> Begun | None:
        """The program of the start, which is being compiled; None where JAX traces around it."""
        init_params, centring = first
        data = model_args, model_kwargs
        if self.parts.plan is None or is_tracing() or is_traced((rng_key, init_params, data)):
            return None
        try:
            given = jax.tree.map(lambda x: x if hasattr(x, "dtype") else np.asarray(x), init_params)
            begun = self._starts_on_host.begin(rng_key, (given, centring), *data)
        except (TypeError, jax.errors.JAXTypeError, jax.errors.JAXIndexError):
            return None  # without a trace, it may do what it cannot do in one
        return begun if begun is not None and begun.shapes is not None else None

    def _of_run(self, state: Any, num_warmup: int, model_args: tuple, model_kwargs: dict) -> Any:
        """The state with what the run adds to it."""
        if self.parts.plan is not None:
            # By NumPy: each operation of JAX's would be compiled by itself.
            of_all = partial(np.full, np.shape(state.warmup.given), dtype=np.int32)
            known = state.warmup._replace(
                length=of_all(max(num_warmup, self.parts.plan.least)),
                given=of_all(num_warmup),
                data=of_all(checksum(model_args, model_kwargs)),
            )
            state = state._replace(warmup=known)
        return with_first_anchors(self.parts, with_no_modes(state), model_args, model_kwargs)

    def _start_chains(
        self, rng_key: jax.Array, first: tuple, model_args: tuple, model_kwargs: dict
    ) -> tuple[Any, dict[str, jax.Array]]:
        init_params, centring = first
        potential = self.parts.source.potential(model_args, model_kwargs)
        start = partial(ChainDraws(self.parts, potential).start, centring)
        single = is_prng_key(rng_key)
        if not single:
            check_chains(init_params, len(rng_key))
        state, finite = (start if single else jax.vmap(start))(rng_key, init_params)
        usable = {"start": finite}
        if potential is not None and potential.plates:
            z = state.z if single else jax.tree.map(lambda x: x[0], state.z)
            usable["rows"] = potential.finite_on_all_rows(z)
        return state, usable

    def sample(self, state: Any, model_args: tuple, model_kwargs: dict | None) -> Any:
        """The next draw, `num_steps` diffusion steps on.

        Args:
            state: the state of one chain or of all.
            model_args: arguments of the model.
            model_kwargs: its keyword arguments, or None.

        Returns:
            The state after the draw.

        Raises:
            ValueError: as `several_devices.check_data`.
        """
        model_kwargs = {} if model_kwargs is None else model_kwargs
        check_data(state, model_args, model_kwargs)
        return with_operands(partial(drawn, self.parts), state, model_args, model_kwargs)

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
        if self.parts.source.model is None:
            return lambda z: z
        potential = self.model_potential(model_args, model_kwargs)
        constrain = partial(of_sites, partial(on_operands, constrained, potential))

        def of_one(z: Any) -> Any:
            if is_tracing():
                return constrain(potential.latent, z)
            # NumPyro also calls it outside of its program, where each operation would be compiled.
            return self._sites(z, None, model_args, {} if model_kwargs is None else model_kwargs)

        return of_one

    def _sites_of(self, z: Any, _: Any, model_args: tuple, model_kwargs: dict) -> Any:
        potential = self.model_potential(model_args, model_kwargs)
        return of_sites(partial(constrained, potential), potential.latent, z)

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
        potential = self.parts.source.potential(model_args, model_kwargs)
        renew = ChainDraws(self.parts, potential).refreshed
        modes = state.warmup.modes if state.warmup else ()
        if modes:
            state = state._replace(warmup=state.warmup._replace(modes=()))
        state = renew(state) if is_prng_key(state.rng_key) else lax.map(renew, state)
        return state._replace(warmup=state.warmup._replace(modes=modes)) if modes else state

    def get_diagnostics_str(self, state: Any) -> str:
        """The text of the progress bar, of one chain or of all that run together."""
        return progress_text(self.parts, state)

    @property
    def is_ensemble_kernel(self) -> bool:
        """False, but where NumPyro decides whether to show a text of several chains."""
        return is_asked()

    def wrap_model(self, wrapper: Callable) -> Kernel:
        """A copy of this kernel on another model.

        Args:
            wrapper: a function from the kernel's model to the copy's.

        Returns:
            The copy.

        Raises:
            ValueError: the kernel was given `potential_fn`.
        """
        state, source = self.__getstate__(), self.parts.source
        source = replace(source, model=wrapper(source.model_or_fail()), recentred=False)
        state["parts"] = replace(self.parts, source=source)
        kernel = object.__new__(type(self))
        kernel.__setstate__(state)
        return kernel

    def __repr__(self) -> str:
        """The kernel with its settings."""
        return f"{type(self).__name__}({with_settings(self.parts)})"

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in _PROGRAMS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_programs()


def _blank(shapes: Any, rng_key: jax.Array) -> Any:
    """A state of these shapes, with this random key."""
    blank = jax.tree.map(lambda x: rng_key if _is_key(x) else np.zeros(x.shape, x.dtype), shapes)
    return blank._replace(rng_key=rng_key)


def _is_key(shape: Any) -> bool:
    return jax.dtypes.issubdtype(shape.dtype, jax.dtypes.prng_key)
