"""What a traced function computes, counted before it is compiled.

XLA's own `cost_analysis` counts the body of a loop once, however often it runs, and asks for a
compilation first.
"""

from __future__ import annotations

import math
from typing import Any


def inner_jaxprs(equation: Any) -> list[Any]:
    """The functions that an equation calls: the body of a loop, the branches of a condition."""
    inner = []
    for value in equation.params.values():
        for part in value if isinstance(value, tuple | list) else (value,):
            part = getattr(part, "jaxpr", part)
            if hasattr(part, "eqns"):
                inner.append(part)
    return inner


def result_bytes(jaxpr: Any) -> int:
    """The size of all results, in bytes, with the body of a loop counted once."""
    size = 0
    for equation in jaxpr.eqns:
        size += sum(math.prod(v.aval.shape) * v.aval.dtype.itemsize for v in equation.outvars)
        size += sum(result_bytes(inner) for inner in inner_jaxprs(equation))
    return size


def operations(jaxpr: Any) -> float:
    """How many numbers are computed, and multiplied in products of matrices, in all steps."""
    number = 0.0
    for equation in jaxpr.eqns:
        inside = sum(operations(inner) for inner in inner_jaxprs(equation))
        if inside:
            number += inside * equation.params.get("length", 1)
            continue
        size = max((math.prod(v.aval.shape) for v in equation.outvars), default=0)
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            shape = equation.invars[0].aval.shape
            size *= math.prod(shape[axis] for axis in contracted)
        number += size
    return max(number, 1.0)


def sources(jaxpr: Any) -> list[set[int]]:
    """The numbers of the arguments that each result of a traced function depends on."""
    known: dict[Any, set[int]] = {v: {i} for i, v in enumerate(jaxpr.invars)}
    of = lambda variables: [known.get(v, set()) for v in variables if not hasattr(v, "val")]
    for equation in jaxpr.eqns:
        # The results of loops and branches are taken together.
        known.update(dict.fromkeys(equation.outvars, set().union(*of(equation.invars))))
    return [set() if hasattr(v, "val") else known.get(v, set()) for v in jaxpr.outvars]
