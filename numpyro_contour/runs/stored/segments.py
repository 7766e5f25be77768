"""The programs of a run that goes on in segments: first states, warm-up, kept draws."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from operator import attrgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from numpyro.infer import MCMC
from numpyro.util import is_prng_key

from numpyro_contour.core.arrays.hosts import everywhere
from numpyro_contour.core.arrays.vectors import ravel

# Bytes that the collected draws of a segment may take, and the most draws that one collects.
_BYTES = 64 * 2**20
_MOST_DRAWS = 1024


class Segments:
    """What an `MCMC` does at one call of `run`, in as many calls as one likes.

    The chains take the same steps with the same keys. How many draws a segment has is an argument
    of one compiled program, so that its length changes no bit of them.
    """

    def __init__(
        self, mcmc: MCMC, args: tuple, kwargs: dict, extra_fields: tuple[str, ...], first: Any
    ):
        self._mcmc, self._data = mcmc, (args, kwargs)
        self._kernel = mcmc.sampler
        self._is_batch = mcmc.num_chains > 1 and mcmc.chain_method == "vectorized"
        named = (mcmc._sample_field, *mcmc._default_fields, *extra_fields)
        excluded = f"~{mcmc._sample_field}."
        #: the fields of the state that are collected, the draws first
        self.fields = tuple(dict.fromkeys(n for n in named if not n.startswith(excluded)))
        self._left_out = [n.removeprefix(excluded) for n in named if n.startswith(excluded)]
        one = first if mcmc.num_chains == 1 or self._is_batch else _chain(first, 0)
        # Arguments of the model need not be arrays.
        self._blank = jax.eval_shape(lambda state: self._collected(state, self._data), one)
        #: what is collected of a draw, by field
        self.layout = {name: self._blank[0][name] for name in self.fields}
        leaves = jax.tree.leaves(self._blank)
        size = sum(x.size * x.dtype.itemsize for x in leaves)
        size *= 1 if self._is_batch else mcmc.num_chains
        #: the most draws of a segment
        self.most = max(1, min(_MOST_DRAWS, _BYTES // max(size, 1)))

    # ------------------------------------------------------------------ what is done

    def warm_up(self, state: Any, draws: int) -> Any:
        """The state after so many more draws of the warm-up."""
        return self._of_chains(state, draws, 0)[0]

    def collect(self, state: Any, draws: int) -> tuple[Any, dict[str, Any], np.ndarray]:
        """So many more kept draws.

        Args:
            state: the last state.
            draws: their number, at most `most`.

        Returns:
            The state after them; what was collected, arrays (chains, draws, ...) by field; and the
            unconstrained draws as vectors, (chains, draws, d).
        """
        state, collected = self._of_chains(state, draws * self._mcmc.thinning, 1)
        kept, vectors = jax.tree.map(partial(self._by_chain, draws), collected)
        return state, kept, vectors

    # ------------------------------------------------------------------ program of a chain

    def _made(self, data: tuple, draws: jax.Array, kept: jax.Array, state: Any) -> tuple[Any, Any]:
        """So many draws more, and the last of each `thinning` of them unless `kept` is 0.

        One program for the warm-up and for what follows: compiling takes longer than all else.
        """
        blank = jax.tree.map(lambda x: jnp.zeros((self.most, *x.shape), x.dtype), self._blank)

        def make(number: jax.Array, carry: tuple) -> tuple:
            state, all_kept = carry
            state = self._kernel.sample(state, *data)
            place = jnp.where(kept > 0, number // self._mcmc.thinning, self.most)
            new = self._collected(state, data)
            put = lambda all, x: all.at[place].set(x, mode="drop")
            return state, jax.tree.map(put, all_kept, new)

        return lax.fori_loop(0, draws, make, (state, blank))

    def _collected(self, state: Any, data: tuple) -> tuple[dict[str, Any], jax.Array]:
        found = {name: attrgetter(name)(state) for name in self.fields}
        own = self._mcmc.postprocess_fn
        constrain = self._kernel.postprocess_fn(*data) if own is None else own
        vector = ravel
        if self._is_batch:
            constrain, vector = jax.vmap(constrain), jax.vmap(ravel)
        draws = constrain(found[self.fields[0]])
        if self._left_out:
            draws = {name: x for name, x in draws.items() if name not in self._left_out}
        return found | {self.fields[0]: draws}, vector(state.z)

    # ------------------------------------------------------------------ chains

    @cached_property
    def _compiled(self) -> Callable:
        mcmc, method = self._mcmc, self._mcmc.chain_method

        def of_all(data: tuple, draws: jax.Array, kept: jax.Array, state: Any) -> Any:
            chain = partial(self._made, data or self._data, draws, kept)
            mapped = mcmc.num_chains > 1 and not isinstance(method, str)
            return method(chain)(state) if mapped else chain(state)

        if mcmc.num_chains > 1 and method == "parallel":
            return jax.pmap(of_all, in_axes=(None, None, None, 0))
        return jax.jit(of_all)

    def _of_chains(self, state: Any, draws: int, kept: int) -> Any:
        mcmc = self._mcmc
        made = partial(self._compiled, self._data if mcmc._jit_model_args else (), draws, kept)
        if mcmc.num_chains > 1 and mcmc.chain_method == "sequential":
            return stacked([made(_chain(state, number)) for number in range(mcmc.num_chains)])
        return made(state)

    def _by_chain(self, draws: int, kept: jax.Array) -> np.ndarray:
        found: np.ndarray = np.asarray(everywhere(kept))
        if self._mcmc.num_chains == 1:
            return found[None, :draws]
        return np.swapaxes(found[:draws], 0, 1) if self._is_batch else found[:, :draws]


def first_state(mcmc: MCMC, key: jax.Array, init_params: Any, args: tuple, kwargs: dict) -> Any:
    """The state before the warm-up, of one chain or of all, as `MCMC.run` begins."""
    # The warm-up is made in segments too.
    start = getattr(mcmc.sampler, "first_state", mcmc.sampler.init)
    more = {"model_args": args, "model_kwargs": kwargs}
    init_params = jax.tree.map(jnp.asarray, init_params)
    if mcmc.num_chains > 1 and is_prng_key(key):
        key = random.split(key, mcmc.num_chains)
    if mcmc.num_chains == 1 or mcmc.chain_method == "vectorized":
        state = start(key, mcmc.num_warmup, init_params, **more)
    else:
        state = stacked(
            [
                start(key[n], mcmc.num_warmup, _chain(init_params, n), **more)
                for n in range(mcmc.num_chains)
            ]
        )
    # With a type of their own, as they come back from a store: the program is the same then.
    return jax.tree.map(lambda x: x if _is_key(x) else jnp.asarray(x, jnp.result_type(x)), state)


def stacked(chains: list[Any]) -> Any:
    """One pytree of several, with their number as the first axis."""
    return jax.tree.map(lambda *each: jnp.stack(each), *chains)


def _is_key(leaf: Any) -> bool:
    return jax.dtypes.issubdtype(getattr(leaf, "dtype", np.dtype(float)), jax.dtypes.prng_key)


def _chain(tree: Any, number: int) -> Any:
    return jax.tree.map(lambda x: x[number], tree)
