"""`ModeJumping`: any kernel that moves within modes, with jumps between those that are known."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from numpyro.infer.mcmc import MCMCKernel
from numpyro.util import is_prng_key

from numpyro_contour import checks
from numpyro_contour.core.arrays.decentred import Decentred
from numpyro_contour.energies.source import EnergySource
from numpyro_contour.kernels.inner_kernels import inner_of
from numpyro_contour.kernels.jump_step import after_tries
from numpyro_contour.kernels.mode_jumping_start import (
    check_coordinates,
    first_state,
    known_before,
    rows_of,
    size_of,
)
from numpyro_contour.kernels.mode_jumping_state import ModeJumpingState
from numpyro_contour.models.centring import centring_of
from numpyro_contour.models.coordinates import constrained, decentred
from numpyro_contour.models.loc_scale import decentred_sites
from numpyro_contour.models.operands import on_operands, with_operands
from numpyro_contour.models.same_data import checksum as number_of
from numpyro_contour.modes.mode_list import ModeList
from numpyro_contour.modes.search import polished, search
from numpyro_contour.warmup.mode_finder import ModeFinder, generator_of, search_program

# Gradients that a search may take for each draw of the warm-up of a chain, and at least.
_GRADIENTS_A_DRAW, _LEAST_GRADIENTS = 15.0, 10_000


class ModeJumping(MCMCKernel):
    r"""Jumps between the modes of a posterior, around NUTS or another kernel that moves within one.

    Before the warm-up, descents from many places find the modes. After each draw of the inner
    kernel the chain tries to jump to another mode, and a try to a place y is accepted with
    probability

    .. math:: \min\bigl(1, e^{U(x) - U(y)} f(x, y)\bigr)

    which keeps the posterior as it is. Three moves are tried: the same place in another mode,
    :math:`y = m_j + F_j F_i^{-1} (x - m_i)` with f the determinant of the map; a draw from the t
    distribution of a mode; and a move of one block of coordinates to another of its places, where
    modes are combinations. How often each of them is tried, how often in all, and the modes' shapes
    are learnt in the warm-up and then kept. Where one mode is known, the draws are those of the
    inner kernel alone, bit for bit.

    Draws have equal weights. Use it where rows fit into a step and descents find the modes; where
    data are too many or no descent leads to a mode, use `ContourSGLD`.

    Args:
        inner_kernel: NUTS, HMC, BarkerMH, or SGLD or SGHMC with `adjusted=True`, of a model or of a
            `potential_fn`.
        tries: tries to jump after each draw, at least 0. None (default) to find it in the warm-up:
            as many as let a chain change its mode every other draw, but no more than the gradients
            of a draw.
        modes: the modes, in place of a search: a `ModeList`, the path of one that was saved, or
            unconstrained positions of which each leads down to a mode, as `init_params` with K
            positions. None (default) to search for them.
        centring: whether sites of a hierarchy are sampled partly non-centred where that mixes
            better, as `ContourSGLD` does. Draws are those of the model's own sites. Defaults to
            False, the inner kernel's coordinates.

    Raises:
        ValueError: an argument is out of its range; the message names it.

    Source: Tjelmeland and Hegstad (2001), *Mode jumping proposals in MCMC*; Pompe, Holmes and
        Latuszynski (2020), *A framework for adaptive MCMC targeting multimodal distributions*.

    Example:
        >>> import jax, jax.numpy as jnp, numpyro, numpyro.distributions as dist
        >>> from numpyro.infer import MCMC, NUTS
        >>> from numpyro_contour import ModeJumping
        >>> def model(y):
        ...     a = numpyro.sample("a", dist.Normal(0.3, 1))
        ...     numpyro.sample("y", dist.Normal(a**2, 3.5), obs=y)
        >>> y = 1.5**2 + 3.5 * jax.random.normal(jax.random.key(1), (40,))
        >>> mcmc = MCMC(ModeJumping(NUTS(model)), num_warmup=500, num_samples=1000, num_chains=4,
        ...             chain_method="vectorized", progress_bar=False)
        >>> mcmc.run(jax.random.key(0), y)
        >>> bool(abs((mcmc.get_samples()["a"] > 0).mean() - 0.73) < 0.05)
        True
    """

    def __init__(
        self,
        inner_kernel: MCMCKernel,
        tries: int | None = None,
        modes: Any = None,
        *,
        centring: bool = False,
    ):
        self._inner = inner_of(inner_kernel)
        self._tries = None if tries is None else checks.integer("tries", tries, at_least=0)
        self._given = ModeList.load(modes) if isinstance(modes, str | os.PathLike) else modes
        self._centring = checks.boolean("centring", centring)
        if centring and self.model is None:
            raise checks.fail("centring", centring, "False for a `potential_fn`")
        #: lists of modes that were found, by data
        self._found: dict[int, ModeList] = {}
        #: inner kernels in other coordinates, by these; they have no settings of their own
        self._recentred: dict[Any, Any] = {}

    # ------------------------------------------------------------------ what it is

    @property
    def inner_kernel(self) -> MCMCKernel:
        """The kernel that moves within modes."""
        return self._inner.kernel

    @property
    def model(self) -> Callable | None:
        """The model, None for a kernel of a potential function."""
        return self.inner_kernel.model

    @property
    def sample_field(self) -> str:
        """The state field that holds the draws."""
        return self.inner_kernel.sample_field

    @property
    def default_fields(self) -> tuple[str, ...]:
        """The state fields that are collected for each draw."""
        has = self._inner.fields
        return (*self.inner_kernel.default_fields, *has, "mode")

    @property
    def settings(self) -> dict[str, Any]:
        """The settings by the names of the arguments."""
        own = {"tries": self._tries, "modes": self._given, "centring": self._centring}
        if self._given is not None:
            own["modes"] = "given"
        name = type(self.inner_kernel).__name__
        return self._inner.settings | {"inner_kernel": name} | own

    @property
    def source(self) -> EnergySource:
        """Where exact potential energies come from."""
        return self._inner.source

    def modes_of(self, *args: Any, **kwargs: Any) -> ModeList | None:
        """The modes that runs on these data use.

        Args:
            *args: arguments of the model.
            **kwargs: its keyword arguments.

        Returns:
            The `ModeList`; None before a run or `find_modes`.
        """
        if isinstance(self._given, ModeList):
            return self._given
        return self._found.get(number_of(args, kwargs))

    @property
    def _sample_fn(self) -> Any:
        # NumPyro initialises a kernel again at every run if this is None.
        chosen = next(iter(self._recentred.values()), self._inner)
        return getattr(chosen.kernel, "_sample_fn", None)

    def get_diagnostics_str(self, state: ModeJumpingState) -> str:
        """The text of the progress bar: that of the inner kernel."""
        return self.inner_kernel.get_diagnostics_str(state.inner)

    def __repr__(self) -> str:
        """The kernel with its settings."""
        names = "tries", "modes", "centring"
        own = ", ".join(f"{name}={self.settings[name]}" for name in names)
        return f"ModeJumping({type(self.inner_kernel).__name__}, {own})"

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_recentred": {}}

    # ------------------------------------------------------------------ modes

    def find_modes(
        self,
        key: jax.Array,
        *args: Any,
        init_params: Any = None,
        most_gradients: int = 50_000,
        **kwargs: Any,
    ) -> ModeList:
        """Search for modes before a run, which then uses what was found.

        A run searches by itself. Call this to look at the modes first, to search for longer, or
        where data are traced, as in a function that `jax.jit` compiles.

        Args:
            key: a random key.
            *args: arguments of the model.
            init_params: an unconstrained position in which one more descent begins; a
                `potential_fn` needs it. None (default) for none.
            most_gradients: gradients after which no further round of descents begins. Defaults to
                50000.
            **kwargs: keyword arguments of the model.

        Returns:
            The `ModeList`.

        Raises:
            ValueError: an argument is out of its range.
        """
        most = checks.integer("most_gradients", most_gradients, at_least=1)
        centring = self._centring_of(args, kwargs)
        like = self._like(init_params, centring, args, kwargs)
        finder = ModeFinder(search_program(self._inner.source), like, args, kwargs)
        given = np.empty((0, size_of(like)))
        if init_params is not None:
            position = self._in_coordinates(init_params, centring, args, kwargs)
            given = rows_of("init_params", position, like, batched=False)
        how = partial(search, rng=generator_of(key), given=given, most_gradients=most)
        found = finder.find(how)
        self._found[number_of(args, kwargs)] = found
        return found

    def _like(self, init_params: Any, centring: Any, args: tuple, kwargs: dict) -> Any:
        """The shapes of an unconstrained position of one chain."""
        found = self._inner.like(args, kwargs, init_params)
        return Decentred(found, centring) if centring else found

    def _centring_of(self, args: tuple, kwargs: dict) -> Any:
        """How much sites are centred, () where they are as written."""
        if not self._centring:
            return ()
        return centring_of(self._inner.source.model_potential(args, kwargs)) or ()

    def _in_coordinates(self, z: Any, centring: Any, args: tuple, kwargs: dict) -> Any:
        if not centring:
            return z
        return decentred(self._inner.source.model_potential(args, kwargs), z, centring)

    def _inner_in(self, centring: Any) -> Any:
        """The inner kernel in the coordinates that are sampled."""
        if not centring:
            return self._inner
        if centring not in self._recentred:
            wrapped = self.inner_kernel.wrap_model(lambda model: decentred_sites(model, centring))
            self._recentred[centring] = self._inner.on(wrapped)
        return self._recentred[centring]

    # ------------------------------------------------------------------ what NumPyro calls

    def init(
        self,
        rng_key: jax.Array,
        num_warmup: int,
        init_params: Any = None,
        model_args: tuple = (),
        model_kwargs: dict | None = None,
    ) -> ModeJumpingState:
        """The first state; a batch of keys makes a batch of chains.

        Args:
            rng_key: random key, or keys (chains,).
            num_warmup: draws of warm-up to come.
            init_params: as for the inner kernel. None (default) to begin in the modes that are
                found, if there are two or more, else where the inner kernel begins.
            model_args: arguments of the model. Defaults to ().
            model_kwargs: its keyword arguments. None (default) for none.

        Returns:
            The state of one chain or of all.

        Raises:
            ValueError: as the inner kernel; or data are traced and no modes were found before.
        """
        kwargs = {} if model_kwargs is None else model_kwargs
        single = is_prng_key(rng_key)
        centring = self._centring_of(model_args, kwargs)
        inner, first = self._inner_in(centring), init_params
        if init_params is not None and centring:
            move = lambda z: dict(self._in_coordinates(z, centring, model_args, kwargs))
            first = move(init_params) if single else jax.vmap(move)(init_params)
        one = first if single or first is None else jax.tree.map(lambda x: x[0], first)
        like = self._like(one, centring, model_args, kwargs)
        known = self._given if isinstance(self._given, ModeList) else None
        if known is not None:
            check_coordinates("modes", known, like)
        else:
            known = known_before(self._found, like, model_args, kwargs)
        given = np.empty((0, size_of(like)))
        if known is None and self._given is not None:
            given = rows_of("modes", self._given, like)
        # Its program is compiled while the inner kernel is initialised.
        finder = None
        if not known:
            finder = ModeFinder(search_program(inner.source), like, model_args, kwargs)
        state = inner.init(rng_key, num_warmup, first, model_args, kwargs)
        if finder is not None:
            z = Decentred(state.z, centring) if centring else state.z
            how = self._search(rng_key, z, num_warmup, like)
            known = finder.find(partial(polished, given=given) if len(given) else how)
            self._found[number_of(model_args, kwargs)] = known
        assert known is not None
        tries = inner.first_tries() if self._tries is None else self._tries
        return first_state(known, inner, state, num_warmup, tries, init_params is None, centring)

    def _search(self, rng_key: jax.Array, z: Any, num_warmup: int, like: Any) -> Any:
        """How modes are searched for."""
        chains = 1 if is_prng_key(rng_key) else len(rng_key)
        places = np.empty((0, size_of(like)))
        if not any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(z)):
            places = rows_of("init_params", z, like, batched=not is_prng_key(rng_key))
        most = max(_LEAST_GRADIENTS, _GRADIENTS_A_DRAW * num_warmup * chains)
        return partial(search, rng=generator_of(rng_key), given=places, most_gradients=most)

    def sample(
        self, state: ModeJumpingState, model_args: tuple, model_kwargs: dict | None
    ) -> ModeJumpingState:
        """The next draw: one of the inner kernel, and tries to jump from there.

        Args:
            state: the state of one chain or of all.
            model_args: arguments of the model.
            model_kwargs: its keyword arguments, or None.

        Returns:
            The state after the draw.
        """
        kwargs = {} if model_kwargs is None else model_kwargs
        kernel = self._inner_in(state.centring).kernel
        after = state._replace(inner=kernel.sample(state.inner, model_args, kwargs))
        if not state.jumping:
            return after
        inner, finds_tries = self._inner_in(state.centring), self._tries is None
        jump = partial(after_tries, inner, state.inner, finds_tries)
        return with_operands(jump, after, model_args, kwargs)

    def postprocess_fn(self, model_args: tuple, model_kwargs: dict | None) -> Callable:
        """From unconstrained draws to the model's sites: that of the inner kernel.

        Args:
            model_args: arguments of the model.
            model_kwargs: its keyword arguments, or None.
        """
        of_inner = self.inner_kernel.postprocess_fn(model_args, model_kwargs)

        def of_draw(z: Any) -> Any:
            if not isinstance(z, Decentred) or not self._centring:
                return of_inner(z)
            potential = self._inner.source.model_potential(model_args, model_kwargs)
            return on_operands(constrained, potential, z)

        return of_draw
