"""One run in a process of its own, which prints two lines of JSON.

`python -m benchmarks.peers.clock.process METHOD POSTERIOR SEED DATA [DRAWS]`

DATA is an npz file with the arrays of the data. The first line comes when the masses of the modes
are known, with the time; the second has what is not part of what is measured: evaluations and
errors.
"""

from __future__ import annotations

import time

began = time.time()

import json  # noqa: E402
import sys  # noqa: E402
from importlib import import_module  # noqa: E402

import numpy as np  # noqa: E402

from benchmarks.peers.clock.methods import METHODS  # noqa: E402
from benchmarks.peers.clock.posteriors import POSTERIORS  # noqa: E402


def main(method: str, name: str, seed: int, file: str, *draws: int) -> None:
    """Run, and print."""
    posterior = POSTERIORS[name]
    with np.load(file) as arrays:
        data = tuple(arrays[key] for key in sorted(arrays))
    module, function = METHODS[method].place.split(".")
    run = getattr(import_module(f"benchmarks.peers.clock.{module}"), function)
    drawn = run(posterior, data, seed, *draws)
    masses = posterior.masses(np.asarray(drawn.x, np.float64), np.asarray(drawn.weights))
    first = {"masses": masses.tolist(), "at": time.time(), "began": began}
    # Imported here: it is not part of what is measured.
    from benchmarks.shared.processes import peak_bytes

    print(json.dumps(first | {"peak": peak_bytes()}), flush=True)
    after = drawn.after()
    errors = after.errors
    if errors is not None:
        # A mass without an error: JSON has no NaN.
        errors = [float(error) if np.isfinite(error) else None for error in errors]
    print(json.dumps({"evaluations": after.evaluations, "errors": errors}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], *map(int, sys.argv[5:]))
