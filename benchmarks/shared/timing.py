"""Clocks: seconds of compiling, and microseconds of a step."""

from __future__ import annotations

import contextlib
import io
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax
import numpy as np
from jax import random
from numpyro.infer import MCMC

Result = TypeVar("Result")
#: rounds in which methods take turns
ROUNDS = 9
#: what JAX reports of the making of a program: tracing, lowering, and XLA's compiling
EVENTS = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)


@contextlib.contextmanager
def compile_seconds() -> Iterator[Callable[[], float]]:
    """Count the seconds spent on tracing, lowering and compiling inside a `with` block.

    The functions that a traced function calls are in its own time: JAX reports them once.

    Example:
        >>> with compile_seconds() as spent:
        ...     result = jax.jit(lambda x: x + 1)(1.0)
        >>> spent() > 0
        True
    """
    seconds = 0.0

    def listen(event: str, duration: float, **_: object) -> None:
        nonlocal seconds
        if event in EVENTS:
            seconds += duration

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield lambda: seconds
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def timed(function: Callable[[], Result]) -> tuple[Result, float, float]:
    """What a function returns, all of its seconds, and those of them that are compiling."""
    with compile_seconds() as spent:
        began = time.perf_counter()
        result = function()
        return result, time.perf_counter() - began, spent()


def seconds_of(function: Callable[[], Any]) -> float:
    """Seconds until what a function returns is there."""
    began = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - began


def by_steps(
    kernel: Any, steps_of_a_draw: int, *data: Any, run: dict | None = None, **of_mcmc: Any
) -> Callable[[int], None]:
    """Runs of a kernel through NumPyro's driver, as a function of the number of steps.

    Args:
        kernel: the kernel.
        steps_of_a_draw: how many steps of all chains together a draw takes.
        data: the model's arguments.
        run: further arguments of `MCMC.run`.
        of_mcmc: further arguments of `MCMC`.
    """
    drivers: dict[int, MCMC] = {}

    def run_for(steps: int) -> None:
        if steps not in drivers:
            # With its progress bar NumPyro keeps the compiled loop between runs, for vectorised
            # chains too; without it, each run compiles anew.
            drivers[steps] = MCMC(
                kernel,
                **{"num_warmup": 0, **of_mcmc},
                num_samples=steps // steps_of_a_draw,
                progress_bar=True,
            )
        with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            drivers[steps].run(random.key(0), *data, **run or {})
        jax.block_until_ready(drivers[steps].get_samples())

    return run_for


def step_costs(
    methods: dict[str, Callable[[int], None]], steps: int, rounds: int = ROUNDS
) -> dict[str, np.ndarray]:
    """Microseconds a step of each method in each round: the slope from `steps` to six times it."""
    short, long = steps, 6 * steps
    for method in methods.values():
        method(short)
        method(long)
    costs: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(rounds):
        for name, method in methods.items():
            first = seconds_of(lambda method=method: method(short))
            second = seconds_of(lambda method=method: method(long))
            costs[name].append(1e6 * (second - first) / (long - short))
    return {name: np.array(values) for name, values in costs.items()}
