"""How much depends on what the warm-up finds: its findings multiplied by 1/2 and 2, and pooled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from numpyro.util import is_prng_key

from benchmarks.accuracy.defaults import figures_of, run
from benchmarks.accuracy.known_targets import BEYOND, Target, targets
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table
from numpyro_contour import ContourSGLD
from numpyro_contour.kernels import FoundStep, Kernel, langevin_moves
from numpyro_contour.kernels.methods import Contour
from numpyro_contour.kernels.parts.moves import langevin_step
from numpyro_contour.warmup.stages.energies import SIZE
from numpyro_contour.warmup.stages.flatten import BIN_WIDTH


def scaled(
    model: Any = None,
    step_size_factor: float = 1.0,
    range_factor: float = 1.0,
    bins_factor: float = 1.0,
    collect_theta: bool = True,
    **arguments: Any,
) -> Kernel:
    """`ContourSGLD` with step size, range and bins multiplied after they were found."""
    method = Contour(
        num_bins=round(128 * bins_factor),
        bin_width=BIN_WIDTH * range_factor / bins_factor,
        collect_theta=collect_theta,
    )
    moves = replace(langevin_moves(), found_step=partial(scaled_step, step_size_factor))
    return Kernel(model, moves=moves, method=method, **arguments)


def scaled_step(factor: float, *arguments: Any) -> FoundStep:
    """The step size of Langevin moves, multiplied."""
    found = langevin_step(*arguments)
    return found._replace(step_size=factor * found.step_size)


class Pooled(ContourSGLD):
    """`ContourSGLD` whose chains share what the warm-up finds.

    Step size and preconditioner are geometric means over all chains; partitions are found from the
    energies of all chains.
    """

    def init(self, *arguments: Any, **settings: Any) -> Any:
        """The state before the warm-up, which `sample` then makes."""
        return self.first_state(*arguments, **settings)

    def sample(self, state: Any, model_args: tuple, model_kwargs: dict | None) -> Any:
        warmup = state.warmup
        if not is_prng_key(state.rng_key):
            tuning = warmup.tuning

            def mean(x: jax.Array) -> jax.Array:
                return jnp.broadcast_to(x.mean(0), x.shape)

            def mix(x: jax.Array) -> jax.Array:
                places = jnp.arange(SIZE)
                return jnp.broadcast_to(x[places % x.shape[0], places], x.shape)

            tuning = tuning._replace(
                step_size=tuning.step_size._replace(
                    log_value=mean(tuning.step_size.log_value),
                    log_average=mean(tuning.step_size.log_average),
                ),
                preconditioner=jnp.exp(mean(jnp.log(tuning.preconditioner))),
            )
            state = state._replace(
                warmup=warmup._replace(tuning=tuning, energies=jax.tree.map(mix, warmup.energies))
            )
        return super().sample(state, model_args, model_kwargs)


CHAINS = 32
#: Targets whose gradients or numbers of steps leave time for only 8 chains.
FEW = ("regression", "poisson", "logistic")


def error_of(target: Target, make_kernel: Callable, **arguments: Any) -> float:
    """The error of a single chain."""
    chains = 8 if target.name in FEW else CHAINS
    mcmc = run(target, make_kernel, chains, collect_theta=False, **arguments)
    return next(iter(figures_of(target, mcmc).values()))


def main(experiment: Experiment) -> str:
    """The section of the page."""
    columns = {"as found": {}}
    for what in experiment.choose(("step_size", "range", "bins"), ("step_size",)):
        for factor in experiment.choose((0.5, 2.0), (0.5,)):
            columns[f"{what.replace('_', ' ')} x {factor:g}"] = {f"{what}_factor": factor}
    one = dict.fromkeys(("step_size_factor", "range_factor", "bins_factor"), 1.0)
    rows = []
    for name, target in targets().items():
        if name == BEYOND or (experiment.quick and name != "mix1"):
            continue
        if experiment.quick:
            target = replace(target, steps=1000, warmup=1000)
        errors = [error_of(target, scaled, **one | factors) for factors in columns.values()]
        errors.append(error_of(target, Pooled))
        worst = max(errors[1:-1]) / errors[0]
        rows.append([name, *(f"{error:.3f}" for error in errors[:-1]), f"{worst:.2f}"])
        rows[-1].append(f"{errors[-1]:.3f}")
        print(*rows[-1], sep=" | ", flush=True)
        # So many programs of one process are more than the system maps.
        jax.clear_caches()
    return (
        "## Sensitivity to what the warm-up finds\n\n"
        "The table gives the error of a single chain: first with the settings as found, then with "
        "the step size, the range of the partition or the number of its bins multiplied, and last "
        f"with chains that share what they find. It is the mean or root mean square over {CHAINS} "
        f"chains, accurate to about an eighth. For {', '.join(FEW)} it is over 8 chains, "
        "accurate to a quarter.\n\n"
        + markdown_table(["target", *columns, "worst ratio", "pooled warm-up"], rows)
    )
