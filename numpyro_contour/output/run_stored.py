"""A run of an `MCMC` in segments, each of which is kept in a Zarr store."""

from __future__ import annotations

import errno
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpyro.infer import MCMC
from tqdm.auto import tqdm

from numpyro_contour import checks
from numpyro_contour.checks import warn_user
from numpyro_contour.core.arrays.hosts import everywhere
from numpyro_contour.output.stored_groups import checks_in, checks_of
from numpyro_contour.runs.energies_over_all_rows import FullEnergies
from numpyro_contour.runs.finished_run import computed_from, hand_over, require_kernel
from numpyro_contour.runs.stored.identity import differences, identity
from numpyro_contour.runs.stored.lazy_states import LazyStates
from numpyro_contour.runs.stored.one_segment import FULL_ENERGY, FULL_NOISE, SegmentStats
from numpyro_contour.runs.stored.processes import by_the_first, locked, of_the_first, writes
from numpyro_contour.runs.stored.rounded import TYPES
from numpyro_contour.runs.stored.segments import Segments, first_state
from numpyro_contour.runs.stored.state_bytes import from_bytes, to_bytes
from numpyro_contour.runs.stored.store import RunStore

# Seconds that a segment takes where its length is not given.
_SECONDS = 20.0
# Checks of the draws so far are made when the run has taken this many times as long as they.
_CHECKS_SHARE = 20.0
_FIRST_CHECKS = 120.0
# What a file system says where there is no room: a full disk, a quota, the largest file there is.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def run_stored(
    mcmc: MCMC,
    path: str | Path,
    key: jax.Array,
    *args: Any,
    segment_draws: int | None = None,
    draws_dtype: str | None = None,
    extra_fields: tuple[str, ...] = (),
    init_params: Any = None,
    **kwargs: Any,
) -> None:
    """Run an `MCMC` as `mcmc.run(key, *args, **kwargs)` does, and keep it in a store as it goes.

    The warm-up and the draws are made in segments. After each the draws are appended to a Zarr
    store and the whole state is kept there, both or neither. The same call after a crash, a full
    disk or Ctrl-C goes on where the store ends, and all draws are those of a run without a break,
    bit for bit, on the same machine with the same versions. Draws do not stay in memory.

    So that it can go on after a break, the warm-up is a part of the program of the draws, which
    takes longer to compile than the programs of `mcmc.run`. Draws are the same but for rounding.

    A finished run goes on with a larger `num_samples`.

    The store can be read at any time, also while the run goes on: `to_inference_data(path)` opens
    it lazily, and `summary`, `expectation`, `diagnose`, `resample` and the plots take what that
    returns, or `mcmc` after the run.

    Args:
        mcmc: a `numpyro.infer.MCMC` with a kernel of this package. Where its `progress_bar` is
            True, one bar shows all segments.
        path: the folder of the store, for instance "run.zarr"; one that does not exist is made.
        key: the random key of the run.
        *args: arguments of the model.
        segment_draws: kept draws of a segment, and draws of the warm-up. None (default): as many as
            take about 20 seconds.
        draws_dtype: floating-point type in which draws are kept. "float16" keeps 11 bits of each
            number and halves the store of a large network; they are read as float32. States,
            weights and energies are not rounded. Or "float32", for runs in float64. None (default)
            for the type of the draws.
        extra_fields: as for `MCMC.run`. Defaults to ().
        init_params: as for `MCMC.run`. None (default) for the kernel's own.
        **kwargs: keyword arguments of the model.

    Raises:
        ValueError: the store is of another run, with what differs; it has another form or is
            damaged; an argument is out of its range; or a draw is too large for `draws_dtype`.
        OSError: the store could not be written, as on a full disk. What it held before is whole.
        RuntimeError: another process writes to the store.

    Warns:
        UserWarning: the store was begun with other versions or on another device, so that draws
            from here on are not those of a run without a break, but as good; its last segment
            is torn, and is made again; or `draws_dtype` hides how draws differ.

    Example:
        >>> import jax, jax.numpy as jnp, os, tempfile
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import SGLD, run_stored, to_inference_data
        >>> mcmc = MCMC(SGLD(potential_fn=lambda x: x**2 / 2, step_size=0.1, num_steps=10),
        ...             num_warmup=100, num_samples=200, progress_bar=False)
        >>> path = os.path.join(tempfile.mkdtemp(), "run.zarr")
        >>> run_stored(mcmc, path, jax.random.key(0), init_params=jnp.array(0.0))
        >>> to_inference_data(path)["posterior"]["z"].shape
        (1, 200)
    """
    require_kernel(mcmc)
    path = Path(path)
    if segment_draws is not None:
        checks.integer("segment_draws", segment_draws, at_least=1)
    if draws_dtype is not None:
        checks.one_of("draws_dtype", draws_dtype, TYPES)
    if mcmc.num_samples % mcmc.thinning:
        raise ValueError(
            f"`num_samples` takes a multiple of `thinning` in a stored run, but got "
            f"{mcmc.num_samples} draws with a thinning of {mcmc.thinning}."
        )
    state = first_state(mcmc, key, init_params, args, kwargs)
    segments = Segments(mcmc, args, kwargs, tuple(extra_fields), state)
    now = identity(mcmc, key, init_params, args, kwargs, state, segments.layout)
    if draws_dtype is not None:
        now["run"]["draws_dtype"] = draws_dtype
    with locked(path), _full_disk_named(path):
        store = _opened_by_all(path, now)
        driver = _Driver(mcmc, store, segments, SegmentStats(mcmc, args, kwargs, draws_dtype))
        try:
            driver.run(_resumed(store, state), segment_draws)
        finally:
            if driver.state is not None and store.progress.kept:
                lazy = [LazyStates(path, segments.layout, by_chain) for by_chain in (True, False)]
                hand_over(mcmc, args, kwargs, driver.state, *lazy)
                _know_energies(mcmc, store, driver.state)


@contextmanager
def _full_disk_named(path: Path) -> Iterator[None]:
    """Say of an error of the file system what of the run is there."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        there = "nothing of the run is there yet"
        if not RunStore.is_new(path):
            there = f"it is whole up to draw {RunStore.open(path).progress.kept}"
        raise OSError(
            error.errno,
            f"The store {str(path)!r} could not be written ({error.strerror or error}), and "
            f"{there}: make room, and the same call goes on.",
        ) from error


class _Driver:
    """The segments of a run that are still to be made."""

    def __init__(self, mcmc: MCMC, store: RunStore, segments: Segments, stats: SegmentStats):
        self._mcmc, self._store, self._segments, self._stats = mcmc, store, segments, stats
        #: the state behind what is in the store
        self.state: Any = None
        self._seconds_of_checks = _FIRST_CHECKS / _CHECKS_SHARE
        self._checked = time.monotonic()

    def run(self, state: Any, segment_draws: int | None) -> None:
        """Make all segments that are left."""
        mcmc, store = self._mcmc, self._store
        self.state = state
        total = mcmc.num_samples // mcmc.thinning
        progress = store.progress
        lengths = _Lengths(segment_draws, self._segments.most)
        with tqdm(
            total=mcmc.num_warmup + total * mcmc.thinning,
            initial=progress.warmup + progress.kept * mcmc.thinning,
            disable=not (mcmc.progress_bar and writes()),
            unit="draw",
        ) as bar:
            while progress.warmup < mcmc.num_warmup or progress.kept < total:
                begin = time.monotonic()
                warms = progress.warmup < mcmc.num_warmup
                bar.set_description("warmup" if warms else "sample", refresh=False)
                if warms:
                    draws = lengths.next(mcmc.num_warmup - progress.warmup)
                    state = self._segments.warm_up(state, draws)
                    arrays: dict[str, np.ndarray] = {}
                    after = progress._replace(warmup=progress.warmup + draws)
                else:
                    draws = lengths.next(total - progress.kept, mcmc.thinning)
                    state, collected, vectors = self._segments.collect(state, draws)
                    arrays = self._stats.arrays(everywhere(state), collected, vectors)
                    after = progress._replace(kept=progress.kept + draws)
                made = draws if warms else draws * mcmc.thinning
                jax.block_until_ready(state)
                seconds = of_the_first(time.monotonic() - begin)
                lengths.took(made, seconds)
                after = after._replace(
                    segments=progress.segments + 1, seconds=progress.seconds + seconds
                )
                kept = to_bytes(everywhere(state))
                by_the_first(store.append, arrays, kept, after)
                _seen_by_all(store)
                self.state, progress = state, after
                bar.update(made)
                if mcmc.progress_bar and writes():
                    bar.set_postfix_str(mcmc.sampler.get_diagnostics_str(_one(mcmc, state)))
                if not warms:
                    self._check(state, ended=progress.kept >= total)
        if progress.kept and not _are_known(store):
            self._check(state, ended=True)

    def _check(self, state: Any, ended: bool) -> None:
        """What is found of the draws so far, where the run is over or that is cheap by now."""
        since = of_the_first(time.monotonic() - self._checked)
        # Readers need the first ones soon, and the rest when they are cheap by then.
        quickly = not ended and not self._store.checks
        if not (ended or quickly) and since < _CHECKS_SHARE * self._seconds_of_checks:
            return
        begin = time.monotonic()
        groups = checks_of(
            self._store, self._stats, self._segments.layout, everywhere(state), quickly
        )
        by_the_first(self._store.write_checks, groups)
        _seen_by_all(self._store)
        if not quickly:
            self._checked = time.monotonic()
            self._seconds_of_checks = of_the_first(self._checked - begin)


class _Lengths:
    """How many draws the next segment has: a power of two, so that few programs are compiled."""

    def __init__(self, given: int | None, most: int):
        self._given, self._most = given, most
        self._number = 1

    def next(self, left: int, thinning: int = 1) -> int:
        """The draws of the next segment, of so many that are left."""
        wanted = self._given or max(1, self._number // thinning)
        return min(wanted, self._most, left)

    def took(self, draws: int, seconds: float) -> None:
        """Learn from a segment."""
        fitting = draws * _SECONDS / max(seconds, 1e-3)
        # At most eight times as many: the first segment of each kind was compiled too.
        self._number = 2 ** int(math.log2(min(max(fitting, 1), 8 * max(draws, 1))))


def _opened_by_all(path: Path, now: dict[str, Any]) -> RunStore:
    """The store of this run: one process makes it, and the others read it."""
    by_the_first(_opened, path, now)
    return RunStore.open(path, read_only=not writes())


def _seen_by_all(store: RunStore) -> None:
    """The processes that do not write look at what was written."""
    if not writes():
        store.refresh()


def _opened(path: Path, now: dict[str, Any]) -> RunStore:
    """The store of this run, a new one where there is nothing yet."""
    if RunStore.is_new(path):
        return RunStore.create(path, now)
    store = RunStore.open(path, read_only=False)
    found = differences(store.identity, now)
    if found:
        raise ValueError(
            f"`path` takes the store of this run or a new folder, but {str(path)!r} is of another "
            f"run: {'; '.join(found)}."
        )
    before, versions = store.identity["versions"], now["versions"]
    changed = [f"{n} {before[n]}, now {versions[n]}" for n in versions if before[n] != versions[n]]
    if changed:
        warn_user(
            f"The store {str(path)!r} was begun with {', '.join(changed)}: draws from here on are "
            "not those of a run without a break, bit for bit, but as good."
        )
    store.remove_partial()
    store.check_draws()
    return store


def _resumed(store: RunStore, first: Any) -> Any:
    """The state from which the run goes on.

    Raises:
        ValueError: none of the states that were kept is whole.
    """
    if not store.progress.segments:
        return first
    kept = store.state(store.progress)
    if kept is None:
        before = store.before
        kept = None if before is None else store.state(before)
        if kept is None:
            raise ValueError(
                f"The state in the store {str(store.path)!r} is not the one that was written: the "
                "run cannot go on from there. Its draws can be read as before."
            )
        by_the_first(store.go_back)
        _seen_by_all(store)
        warn_user("The last segment of the store is torn. It is made again.")
    return from_bytes(kept, first)


def _are_known(store: RunStore) -> bool:
    """Whether the checks of all draws are in the store."""
    try:
        return bool(checks_in(store)) and store.checks["kept"] == store.progress.kept
    except ValueError:  # they are torn
        return False


def _know_energies(mcmc: MCMC, store: RunStore, state: Any) -> None:
    """The energies over all data are in the store: they need not be computed again."""
    if FULL_ENERGY in store.names("stats"):
        found = (store.draws(f"stats/{name}") for name in (FULL_ENERGY, FULL_NOISE))
        computed_from(mcmc, state)["full_energies"] = FullEnergies(*found)


def _one(mcmc: MCMC, state: Any) -> Any:
    """The state of the first chain, for the text of the progress bar."""
    together = mcmc.num_chains == 1 or mcmc.chain_method == "vectorized"
    return state if together else jax.tree.map(lambda x: x[0], state)
