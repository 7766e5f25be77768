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
#: the stages of making a program that JAX reports: tracing, lowering, and compiling by XLA
EVENTS = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)


@contextlib.contextmanager
def compile_seconds() -> Iterator[Callable[[], float]]:
    """Count the seconds spent on tracing, lowering and compiling inside a `with` block.

    The time of a traced function includes the functions that it calls; JAX reports them once.

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
    """The result of a function, its total seconds, and the seconds spent on compiling."""
    with compile_seconds() as spent:
        began = time.perf_counter()
        result = function()
        return result, time.perf_counter() - began, spent()


def seconds_of(function: Callable[[], Any]) -> float:
    """Seconds until the result of a function is ready."""
    began = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - began


def by_steps(
    kernel: Any, steps_of_a_draw: int, *data: Any, run: dict | None = None, **of_mcmc: Any
) -> Callable[[int], None]:
    """Runs of a kernel through NumPyro's driver, as a function of the number of steps.

    Args:
        kernel: the kernel.
        steps_of_a_draw: steps per draw, all chains together.
        data: the model's arguments.
        run: further arguments of `MCMC.run`.
        of_mcmc: further arguments of `MCMC`.
    """
    drivers: dict[int, MCMC] = {}

    def run_for(steps: int) -> None:
        if steps not in drivers:
            # With its progress bar NumPyro keeps the compiled loop between runs, also for
            # vectorised chains; without it, each run compiles again.
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
    """Microseconds per step of each method in each round: the slope from `steps` to 6 `steps`."""
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
