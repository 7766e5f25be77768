"""What `ModeJumping` needs of the kernel inside it: where its chain is, and how to move it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer import HMC, BarkerMH
from numpyro.infer.mcmc import MCMCKernel
from numpyro.util import is_prng_key

from numpyro_contour.core.arrays.decentred import Decentred
from numpyro_contour.core.arrays.factors import eigh
from numpyro_contour.core.arrays.vectors import ravel, unravel_like
from numpyro_contour.energies.source import EnergySource
from numpyro_contour.kernels.kernel import Kernel
from numpyro_contour.kernels.methods.plain import Plain
from numpyro_contour.kernels.parts.jumping import check_jumps
from numpyro_contour.models.all_rows import CHUNK_BYTES
from numpyro_contour.modes.tries import Point
from numpyro_contour.schedules import Constant
from numpyro_contour.warmup.mode_finder import position_like

# Of the gradients of a draw of many steps, the share that tries to jump take.
_SHARE_OF_TRIES = 0.1
# Tries after a draw before anything is learnt.
_FIRST_TRIES = 3
# Arguments of NumPyro's kernels that decide on their moves.
_NUMPYROS = (
    "step_size",
    "inverse_mass_matrix",
    "adapt_step_size",
    "adapt_mass_matrix",
    "dense_mass",
    "target_accept_prob",
    "trajectory_length",
    "num_steps",
    "max_tree_depth",
)
#: `(whether all of it is asked for, coordinates) -> (d, d) or the diagonal, (d,)`
Covariance = Callable[[bool, np.ndarray], jax.Array]


class Inner(Protocol):
    """A kernel inside of `ModeJumping`."""

    #: the kernel
    kernel: MCMCKernel
    #: where exact potential energies come from
    source: EnergySource
    #: fields of its state that are collected too, where it has them
    fields: tuple[str, ...]
    #: whether its own warm-up goes on while chains jump, and learns from it
    jumps_in_warmup: bool

    def on(self, kernel: Any) -> Inner:
        """The same around another kernel of the kind."""

    @property
    def settings(self) -> dict[str, Any]:
        """The kernel's settings by the names of its arguments."""

    def like(self, args: tuple, kwargs: dict, init_params: Any) -> Any:
        """The shapes of an unconstrained position of one chain."""

    def init(self, rng_key: jax.Array, *arguments: Any) -> Any:
        """The first state, of one chain or of all; the arguments are those of the kernel."""

    def point(self, state: Any) -> Point:
        """Where one chain is."""

    def moved(self, state: Any, point: Point) -> Any:
        """One chain at another point."""

    def draw(self, state: Any) -> jax.Array:
        """The draw of one chain, unconstrained, as a vector."""

    def gradients(self, state: Any) -> jax.Array:
        """Gradients that the last draw of one chain took."""

    def in_warmup(self, state: Any, length: jax.Array) -> jax.Array:
        """Whether the last draw of one chain was in the warm-up of this many draws."""

    def window(self, state: Any) -> jax.Array:
        """The part of the warm-up that one chain is in."""

    def with_metric(self, state: Any, covariance: Covariance) -> Any:
        """One chain or all with a mass matrix for all modes, where the warm-up finds it."""

    def first_tries(self) -> int:
        """Tries after a draw, before anything is learnt."""


class OfNumPyro:
    """HMC, NUTS or BarkerMH.

    Args:
        kernel: the kernel.
    """

    jumps_in_warmup = True

    def __init__(self, kernel: MCMCKernel):
        self.kernel = kernel
        of_hmc = ("energy", "num_steps") if isinstance(kernel, HMC) else ()
        self.fields: tuple[str, ...] = ("potential_energy", "accept_prob", *of_hmc)
        potential_fn = None if kernel.model is not None else kernel._potential_fn
        self.source = EnergySource(kernel.model, potential_fn, None, "full", CHUNK_BYTES)

    def on(self, kernel: Any) -> OfNumPyro:
        """The same around another kernel of the kind."""
        return OfNumPyro(kernel)

    @property
    def settings(self) -> dict[str, Any]:
        """The kernel's settings by the names of its arguments."""
        names = [f"_{name}" for name in _NUMPYROS if hasattr(self.kernel, f"_{name}")]
        return {name.removeprefix("_"): getattr(self.kernel, name) for name in names}

    def like(self, args: tuple, kwargs: dict, init_params: Any) -> Any:
        """The shapes of an unconstrained position of one chain."""
        return position_like(self.source, args, kwargs, init_params)

    def init(self, rng_key: jax.Array, *arguments: Any) -> Any:
        """The first state, of one chain or of all; the arguments are those of the kernel."""
        if isinstance(self.kernel, HMC) and not is_prng_key(rng_key):
            # It would map what it has mapped over chains before, when a run was traced.
            self.kernel._init_fn = None
        return self.kernel.init(rng_key, *arguments)

    def point(self, state: Any) -> Point:
        """Where one chain is."""
        return Point(ravel(state.z), state.potential_energy, ravel(state.z_grad))

    def moved(self, state: Any, point: Point) -> Any:
        """One chain at another point."""
        changes = {
            "z": unravel_like(point.position, state.z),
            "potential_energy": point.energy.astype(state.potential_energy.dtype),
            "z_grad": unravel_like(point.gradient, state.z),
        }
        if hasattr(state, "energy"):  # with the momentum that the draw had
            changes["energy"] = state.energy + point.energy - state.potential_energy
        return state._replace(**changes)

    def draw(self, state: Any) -> jax.Array:
        """The draw of one chain, unconstrained, as a vector."""
        return ravel(state.z)

    def gradients(self, state: Any) -> jax.Array:
        """Gradients that the last draw of one chain took."""
        return state.num_steps if hasattr(state, "num_steps") else jnp.ones_like(state.i)

    def in_warmup(self, state: Any, length: jax.Array) -> jax.Array:
        """Whether the last draw of one chain was in the warm-up of this many draws."""
        return state.i <= length

    def window(self, state: Any) -> jax.Array:
        """The window of the adaptation that one chain is in."""
        return state.adapt_state.window_idx

    def first_tries(self) -> int:
        """Tries after a draw, before anything is learnt."""
        return _FIRST_TRIES

    def with_metric(self, state: Any, covariance: Covariance) -> Any:
        """One chain or all with a mass matrix for all modes, where the warm-up finds it."""
        if not self.kernel._adapt_mass_matrix:
            return state
        old = state.adapt_state
        blocks = old.inverse_mass_matrix
        chains = jnp.ndim(state.i)
        leaves: list[Any]
        structure: Any
        leaves, structure = jax.tree.flatten(state.z)
        ends = np.cumsum([0, *(math.prod(jnp.shape(x)[chains:]) for x in leaves)])
        every = np.arange(ends[-1])
        if isinstance(blocks, dict):
            numbers = structure.unflatten([every[a:b] for a, b in itertools.pairwise(ends)])
            places = {names: np.concatenate([numbers[n] for n in names]) for names in blocks}
            found = {
                names: _mass_matrix(covariance(jnp.ndim(block) - chains == 2, places[names]))
                for names, block in blocks.items()
            }
            parts: Any = [{n: part[i] for n, part in found.items()} for i in range(3)]
        else:
            parts = _mass_matrix(covariance(jnp.ndim(blocks) - chains == 2, every))
        names = "inverse_mass_matrix", "mass_matrix_sqrt", "mass_matrix_sqrt_inv"
        new = {
            name: jax.tree.map(_like, part, getattr(old, name)) for name, part in zip(names, parts)
        }
        return state._replace(adapt_state=old._replace(**new))


def _like(new: Any, old: Any) -> Any:
    """An array for all chains that another one is for."""
    spread = np.broadcast_to if isinstance(new, np.ndarray) else jnp.broadcast_to
    return spread(new.astype(old.dtype), jnp.shape(old))


def _mass_matrix(inverse: Any) -> tuple[Any, Any, Any]:
    """The inverse of a mass matrix, its own root and that of the inverse, as NumPyro has them."""
    if inverse.ndim == 1:
        root = inverse**0.5
        return inverse, 1 / root, root
    values, vectors = np.linalg.eigh(inverse) if isinstance(inverse, np.ndarray) else eigh(inverse)
    roots = values**0.5
    # NumPyro's are triangular, and any root serves.
    return inverse, (vectors / roots) @ vectors.T, (vectors * roots) @ vectors.T


class OfOurs:
    """An adjusted kernel of this package without flattening.

    Its chains jump when its warm-up has ended.

    Args:
        kernel: the kernel; its own jumps are turned off.
    """

    fields: tuple[str, ...] = ()
    jumps_in_warmup = False

    def __init__(self, kernel: Kernel):
        own = object.__new__(type(kernel))
        parts = replace(kernel.parts, jumps=check_jumps(False))
        own.__setstate__(kernel.__getstate__() | {"parts": parts})
        self.kernel = own
        self.source = replace(parts.source, energy="full", minibatch_size=None)

    def on(self, kernel: Any) -> OfOurs:
        """The same around another kernel of the kind."""
        return OfOurs(kernel)

    @property
    def settings(self) -> dict[str, Any]:
        """The kernel's settings by the names of its arguments."""
        return self.kernel.settings

    def like(self, args: tuple, kwargs: dict, init_params: Any) -> Any:
        """The shapes of an unconstrained position of one chain, partly non-centred ones too."""
        found = position_like(self.source, args, kwargs, init_params)
        centring = self.kernel.parts.centring(args, kwargs)
        return found if centring is None else Decentred(found, centring)

    def init(self, rng_key: jax.Array, *arguments: Any) -> Any:
        """The first state, of one chain or of all; the arguments are those of the kernel."""
        return self.kernel.init(rng_key, *arguments)

    def point(self, state: Any) -> Point:
        """Where one chain is, which is not where the draw of a window is."""
        chain = state.sampler.chain
        return Point(chain.position, chain.potential_energy, chain.gradient)

    def moved(self, state: Any, point: Point) -> Any:
        """One chain at another point."""
        chain = state.sampler.chain._replace(
            position=point.position, potential_energy=point.energy, gradient=point.gradient
        )
        return state._replace(sampler=state.sampler._replace(chain=chain))

    def draw(self, state: Any) -> jax.Array:
        """The draw of one chain, of a window before its last position."""
        return ravel(state.z)

    def gradients(self, state: Any) -> jax.Array:
        """Gradients that the last draw of one chain took."""
        return jnp.full_like(state.sampler.chain.steps, self.kernel.parts.num_steps)

    def in_warmup(self, state: Any, length: jax.Array) -> jax.Array:
        """Whether the last draw of one chain was in its warm-up, which may be a longer one."""
        if not state.warmup:
            return state.sampler.chain.steps <= length * self.kernel.parts.num_steps
        warmup = state.warmup
        return (warmup.iteration < warmup.length) | (warmup.idle >= 0)

    def window(self, state: Any) -> jax.Array:
        """Its warm-up has no parts in which chains jump."""
        return jnp.zeros_like(state.sampler.chain.steps)

    def with_metric(self, state: Any, covariance: Covariance) -> Any:
        """Its own preconditioner stays."""
        return state

    def first_tries(self) -> int:
        """Tries after a draw: a tenth of its gradients."""
        return max(1, round(_SHARE_OF_TRIES * self.kernel.parts.num_steps))


def inner_of(kernel: Any) -> Inner:
    """A kernel as `ModeJumping` takes it.

    Raises:
        ValueError: it is of another kind.
    """
    if isinstance(kernel, HMC | BarkerMH):
        return OfNumPyro(kernel)
    got = type(kernel).__name__
    if isinstance(kernel, Kernel):
        parts = kernel.parts
        if type(parts.method) is Plain and parts.temperature == Constant(1.0):
            if parts.moves.adjusted:
                return OfOurs(kernel)
            got += " without it"
    raise ValueError(
        "`inner_kernel` takes NUTS, HMC, BarkerMH, or SGLD or SGHMC with `adjusted=True` at "
        f"temperature 1, whose draws have no bias and equal weights, but got {got}."
    )
