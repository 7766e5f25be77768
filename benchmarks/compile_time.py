"""How long JAX takes to make programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import jax

#: what JAX reports of the making of a program: tracing, lowering, and XLA's compiling
EVENTS = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)


@contextmanager
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
