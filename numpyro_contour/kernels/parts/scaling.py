"""The size of the steps and the scale of each coordinate, given or found in the warm-up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from numpyro_contour import checks
from numpyro_contour.core.arrays.vectors import ravel
from numpyro_contour.core.diffusions import Diffusion, rmsprop, whitened
from numpyro_contour.kernels.parts.moves import FoundStep, Moves
from numpyro_contour.schedules import Schedule, as_schedule
from numpyro_contour.warmup.stages.frames import Frame, first_frame
from numpyro_contour.warmup.stages.tuning import LARGEST_STEP_SIZE, Tuning, initial_tuning
from numpyro_contour.warmup.stages.whitening import MOST_DENSE, rank_of

# The most coordinates whose preconditioner is dense without being asked for. A step of a cheap
# model takes 1.4 times as long in 200 and 1.8 times in 300, but ordinary models of a hundred are
# wrong by more than a standard deviation with a diagonal (BYM2 in benchmarks/accuracy/kinds.py).
_MOST_COORDINATES = 250

#: the forms of a preconditioner that is found in the warm-up
FORMS = ("diag", "low-rank", "dense")


@dataclass(frozen=True)
class Scaling:
    """The arguments `step_size`, `preconditioner` and `curvature_correction`.

    Raises:
        ValueError: one of them is out of its range, or does not go with another.
    """

    #: a number or a schedule, a schedule afterwards; None where it is found
    step_size: Any
    #: None where it is found or 1, one of `FORMS`, "identity", "rmsprop", or a pytree like z
    preconditioner: Any
    curvature_correction: bool

    def __post_init__(self) -> None:
        given = self.step_size
        if self.step_size is not None:
            if isinstance(given, str):
                takes = "None to find it in the warm-up, a number above 0 or a schedule"
                raise checks.fail("step_size", given, takes)
            schedule = as_schedule("step_size", self.step_size, checks.positive)
            object.__setattr__(self, "step_size", schedule)
        _check_preconditioner(self.preconditioner)
        if self.by_rmsprop and self.is_found:
            raise checks.fail("step_size", None, "a number or a schedule with 'rmsprop'")
        if self.form is not None and not self.is_found:
            takes = f"None with {self.form!r}, which is found together with it"
            raise checks.fail("step_size", given, takes)
        if checks.boolean("curvature_correction", self.curvature_correction) > self.by_rmsprop:
            raise checks.fail("curvature_correction", True, "False unless with 'rmsprop'")

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments by name."""
        name = "given"
        if isinstance(self.preconditioner, str):
            name = self.preconditioner
        elif self.preconditioner is None:
            name = "tuned" if self.is_found else "identity"
        return {
            "step_size": "tuned" if self.step_size is None else self.step_size,
            "preconditioner": name,
            "curvature_correction": self.curvature_correction,
        }

    @property
    def is_found(self) -> bool:
        """Whether the step size is found in the warm-up."""
        return self.step_size is None

    @property
    def form(self) -> str | None:
        """The form that a preconditioner is found in, if it was given by name."""
        by_name = isinstance(self.preconditioner, str) and self.preconditioner in FORMS
        return self.preconditioner if by_name else None

    @property
    def finds_preconditioner(self) -> bool:
        """Whether the preconditioner is found in the warm-up, where the step size is."""
        return self.preconditioner is None or self.form is not None

    def _chooses(self, size: int) -> bool:
        """Whether the form of the preconditioner is chosen by what it gains."""
        return self.preconditioner is None and self.is_found and 1 < size <= _MOST_COORDINATES

    @property
    def by_rmsprop(self) -> bool:
        """Whether the preconditioner follows the gradients."""
        return isinstance(self.preconditioner, str) and self.preconditioner == "rmsprop"

    def initial_tuning(self, z: Any, turns_from: float, adjusted: bool = False) -> Tuning:
        """What is tuned, before the first step.

        Args:
            z: an unconstrained position.
            turns_from: the condition number that a diagonal has to leave for another preconditioner
                to be taken without being asked for; infinite where it never is taken.
            adjusted: whether moves are accepted by Metropolis-Hastings, so that no bias limits the
                step size. Defaults to False.

        Raises:
            ValueError: one that is not diagonal is asked for and cannot be taken.
        """
        first = None if self.step_size is None else self.step_size(jnp.zeros((), jnp.int32))
        # With a preconditioner of the user's the scale of the steps is the user's too.
        limit = LARGEST_STEP_SIZE if self.finds_preconditioner and not adjusted else np.inf
        flat = ravel(z)
        frame: Frame | tuple[()] = ()
        if self.form in ("low-rank", "dense"):
            if turns_from == np.inf:
                takes = "None or 'diag' where `barrier` is given"
                raise checks.fail("preconditioner", self.form, takes)
            few = self.form == "low-rank" and flat.shape[0] > MOST_DENSE
            frame = first_frame(flat, rank=rank_of(flat.shape[0]) if few else None)
        elif self._chooses(flat.shape[0]) and turns_from < np.inf:
            frame = first_frame(flat, turns_from)
        given = self.given_preconditioner(z)
        return initial_tuning(flat.shape[0], given, first, limit, frame)

    def diffusion(
        self, moves: Moves, temperature: Schedule, warmup: Any, z: Any
    ) -> tuple[Diffusion, Schedule]:
        """The diffusion and the schedule of its step size, with what the warm-up has found.

        Args:
            moves: how steps move.
            temperature: schedule of tau.
            warmup: the warm-up of one chain.
            z: an unconstrained position.
        """
        if self.step_size is None:
            tuning = warmup.tuning
            diffusion = moves.diffusion(tuning.preconditioner, tuning.gradient_noise)
            if tuning.frame:
                diffusion = whitened(diffusion, tuning.factor)
            return (
                diffusion,
                lambda count: self.found_step(moves, tuning, temperature(count)).step_size,
            )
        if self.by_rmsprop:
            diffusion = rmsprop(
                lambda m, c: moves.diffusion(m, None, c), curvature=self.curvature_correction
            )
            return diffusion, self.step_size
        return moves.diffusion(self.given_preconditioner(z)), self.step_size

    def found_step(self, moves: Moves, tuning: Tuning, temperature: jax.Array) -> FoundStep:
        """The step size of the moves, where it is found."""
        return moves.found_step(tuning, temperature, self.finds_preconditioner)

    def given_preconditioner(self, z: Any) -> jax.Array | None:
        """The diagonal of M if it is given, None if it is 1 or found in the warm-up.

        Raises:
            ValueError: its shapes are not those of z.
        """
        given = self.preconditioner
        if given is None or isinstance(given, str):
            return None
        if jax.tree.map(jnp.shape, given) != jax.tree.map(jnp.shape, z):
            raise ValueError(
                "`preconditioner` takes None, 'identity' or a pytree of the shapes of z, "
                f"{jax.tree.map(jnp.shape, z)}, but got {jax.tree.map(jnp.shape, given)}."
            )
        return ravel(given).astype(jnp.result_type(float))


def _check_preconditioner(value: Any) -> None:
    if isinstance(value, str):
        if value not in (*FORMS, "identity", "rmsprop"):
            takes = "None, 'diag', 'low-rank', 'dense', 'identity', 'rmsprop' or a pytree like z"
            raise checks.fail("preconditioner", value, takes)
        return
    takes = "finite numbers above 0"
    try:
        leaves = [np.asarray(leaf, float) for leaf in jax.tree.leaves(value)]
    except (TypeError, ValueError):
        raise checks.fail("preconditioner", value, takes) from None
    if not all(np.all(np.isfinite(leaf) & (leaf > 0)) for leaf in leaves):
        raise checks.fail("preconditioner", value, takes)
