"""One first run in a process of its own, which prints what it took as JSON.

`python -m benchmarks.cost.first_run KERNEL MODEL DRAWS [--twice]`

KERNEL is NUTS, "blackjax", "ModeJumping" (around NUTS), or one of this package.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

began = time.perf_counter()

import jax  # noqa: E402
import jax.monitoring  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import numpyro  # noqa: E402
import numpyro.distributions as dist  # noqa: E402
from numpyro.infer import MCMC, NUTS  # noqa: E402


def eight_schools(y: jax.Array, sigma: jax.Array) -> None:
    """Centred, as in the book."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", 8):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def logistic(x: jax.Array, y: jax.Array) -> None:
    """A logistic regression."""
    b = numpyro.sample("b", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Bernoulli(logits=x @ b), obs=y)


def logistic_by_rows(x: jax.Array, y: jax.Array) -> None:
    """The same by minibatches of 100 rows."""
    b = numpyro.sample("b", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("rows", len(y), subsample_size=100) as rows:
        numpyro.sample("y", dist.Bernoulli(logits=x[rows] @ b), obs=y[rows])


def mixture(y: jax.Array) -> None:
    """Two normals, of which nothing is known."""
    share = numpyro.sample("share", dist.Dirichlet(jnp.ones(2)))
    mean = numpyro.sample("mean", dist.Normal(0, 3).expand([2]).to_event(1))
    sd = numpyro.sample("sd", dist.HalfNormal(2).expand([2]).to_event(1))
    with numpyro.plate("rows", len(y)):
        each = dist.MixtureSameFamily(dist.Categorical(share), dist.Normal(mean, sd))
        numpyro.sample("y", each, obs=y)


def case(name: str) -> tuple:
    """A model and its data."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 8)).astype(np.float32)
    chance = 1 / (1 + np.exp(-x @ np.linspace(-1, 1, 8)))
    halves = np.concatenate([rng.normal(-2, 1, 60), rng.normal(2, 1, 40)]).astype(np.float32)
    schools = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
    regression = x, (rng.random(1000) < chance).astype(np.int32)
    return {
        "eight schools": (eight_schools, schools),
        "logistic 1,000 x 8": (logistic, regression),
        "logistic, minibatches of 100": (logistic_by_rows, regression),
        "mixture of 100 rows": (mixture, (halves,)),
    }[name]


class Compiling:
    """Seconds of tracing, lowering and compiling so far."""

    NAMES = (
        ("trace", "/jax/core/compile/jaxpr_trace_duration"),
        ("lower", "/jax/core/compile/jaxpr_to_mlir_module_duration"),
        ("compile", "/jax/core/compile/backend_compile_duration"),
    )

    def __init__(self) -> None:
        self.seconds = {name: 0.0 for name, _ in self.NAMES}
        jax.monitoring.register_event_duration_secs_listener(self._listen)

    def _listen(self, event: str, duration: float, **_: object) -> None:
        for name, of_jax in self.NAMES:
            if event == of_jax:
                self.seconds[name] += duration


def runner(kernel_name: str, model: Callable, args: tuple, draws: int) -> tuple[Callable, Any]:
    """A run by its seed, and the kernel."""
    if kernel_name == "blackjax":
        return partial(blackjax_run, model, args, draws), None
    if kernel_name in ("NUTS", "ModeJumping"):
        kernel: Any = NUTS(model)
    if kernel_name != "NUTS":
        import numpyro_contour

        of = getattr(numpyro_contour, kernel_name)
        kernel = of(kernel) if kernel_name == "ModeJumping" else of(model)
    mcmc = MCMC(
        kernel,
        num_warmup=draws,
        num_samples=draws,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )

    def run(seed: int) -> None:
        mcmc.run(jax.random.key(seed), *args)
        jax.block_until_ready(mcmc.get_samples())

    return run, kernel


def blackjax_run(model: Callable, args: tuple, draws: int, seed: int) -> None:
    """NUTS of blackjax with its window adaptation, four chains in one compiled loop."""
    import blackjax
    from numpyro.infer.util import initialize_model

    keys = jax.random.split(jax.random.key(seed), 3)
    start, potential, *_ = initialize_model(
        jax.random.split(keys[0], 4), model, model_args=args, dynamic_args=False
    )

    def log_density(z: Any) -> jax.Array:
        return -potential(z)

    adaptation = blackjax.window_adaptation(blackjax.nuts, log_density)

    def of_chain(key: jax.Array, z: Any) -> Any:
        of_warmup, of_draws = jax.random.split(key)
        (state, tuned), _ = adaptation.run(of_warmup, z, draws)
        step = blackjax.nuts(log_density, **tuned).step

        def one(state: Any, key: jax.Array) -> Any:
            state, _ = step(key, state)
            return state, state.position

        return jax.lax.scan(one, state, jax.random.split(of_draws, draws))[1]

    made = jax.jit(jax.vmap(of_chain))
    jax.block_until_ready(made(jax.random.split(keys[1], 4), start.z))


def main(kernel_name: str, name: str, draws: int, twice: bool) -> None:
    """Run, and print."""
    model, args = case(name)
    compiling = Compiling()
    run, kernel = runner(kernel_name, model, args, draws)
    imported = time.perf_counter()
    run(0)
    ran = time.perf_counter()
    found: dict[str, Any] = {"import": imported - began, "run": ran - imported}
    found |= compiling.seconds | {"modes": 1, "search": {}}
    if kernel_name == "ModeJumping":
        known = kernel.modes_of(*args)
        found |= {"modes": len(known), "search": known.seconds, "gradients": known.gradients}
    # Imported here: it is not part of what is measured.
    from benchmarks.shared.processes import peak_bytes

    found["peak"] = peak_bytes()
    if twice:
        again = time.perf_counter()
        run(1)
        found["second"] = time.perf_counter() - again
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), "--twice" in sys.argv)
