"""The parts of a kernel, values that are checked once, and what they decide together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpyro_contour import checks
from numpyro_contour.checks import warn_user
from numpyro_contour.core.arrays.decentred import Centring
from numpyro_contour.energies.choice import chosen
from numpyro_contour.energies.source import Energies, EnergySource
from numpyro_contour.kernels.methods.method import Method
from numpyro_contour.kernels.parts.jumping import Tries
from numpyro_contour.kernels.parts.moves import Moves
from numpyro_contour.kernels.parts.scaling import Scaling
from numpyro_contour.models.centring import centring_of
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.schedules import Constant, Schedule
from numpyro_contour.warmup.stages.plan import Plan


@dataclass(frozen=True)
class Parts:
    """What a kernel is composed of."""

    #: where potential energies come from, and how they are estimated
    source: EnergySource
    #: how a step moves
    moves: Moves
    #: the size of the steps and the scale of each coordinate
    scaling: Scaling
    #: what is made of the moves
    method: Method
    temperature: Schedule
    #: steps of a draw, or the most of them; and which of them is handed out
    num_steps: int
    draw: str
    init_strategy: Callable
    #: how often chains try to jump between modes
    jumps: Tries
    #: whether the steps of a draw may be found in the warm-up
    finds_num_steps: bool = False

    def __post_init__(self) -> None:
        if self.moves.adjusted and self.scaling.by_rmsprop:
            takes = "another one where `adjusted` is True, since it changes with each step"
            raise checks.fail("preconditioner", "rmsprop", takes)
        share, _, asked = self.jumps
        if asked and not self.method.jumps:
            raise checks.fail("jumps", share, "nothing but False for this kernel")
        if asked and self.plan is None:
            takes = "nothing but False where everything is given, as a warm-up finds the modes"
            raise checks.fail("jumps", share, takes)

    @property
    def plan(self) -> Plan | None:
        """The plan of the warm-up, None where everything is given."""
        return self.method.plan(
            self.scaling.is_found, self.source.asks_for_control_variate, self.moves.settles
        )

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments by name, without the model."""
        return {
            **self.scaling.settings,
            "temperature": self.temperature,
            "num_steps": "tuned" if self.finds_num_steps else self.num_steps,
            "draw": self.draw,
            "minibatch_size": self.source.minibatch_size,
            "energy": self.source.energy,
            "chunk_bytes": self.source.chunk_bytes,
            "jumps": self.jumps.exact,
            **self.moves.settings,
            **self.method.settings,
        }

    def can_jump(self, estimator: str | Callable) -> bool:
        """Whether chains may jump between modes that the warm-up finds.

        Args:
            estimator: what estimates the potential energy. The noise of minibatches alone is too
                large, and that of a callable is not known.
        """
        told = estimator in ("full", "control_variate")
        return self.jumps.exact > 0 and self.method.jumps and told and self.plan is not None

    def finds_draw_length(self, estimator: str | Callable) -> bool:
        """Whether the steps of a draw are found in the warm-up.

        They are not for a flattened density without jumps: moves within one mode do not show how
        seldom a chain leaves it.

        Args:
            estimator: what estimates the potential energy.
        """
        crosses = self.method.flattening is None or self.can_jump(estimator)
        return self.finds_num_steps and self.plan is not None and crosses

    def estimator(self, potential: ModelPotential | None) -> str | Callable:
        """What estimates the potential energy: a name, or the user's own callable.

        Args:
            potential: the model's potential energy, None for a potential function.

        Raises:
            ValueError: the argument `energy` fits neither the model nor the method.
        """
        result = chosen(self.source.energy, potential, descends=self.plan is not None)
        if self.moves.adjusted and result != "full":
            got = "a callable" if callable(result) else repr(result)
            raise ValueError(
                "`adjusted` takes False where potential energies are estimates, since moves are "
                f"accepted by exact ones, but got True with energies from {got}. Leave rows whole, "
                "or give `energy='full'`."
            )
        self.method.check_energy(result)
        return result

    def energies(self, potential: ModelPotential | None, like: Any) -> Energies:
        """The energies of a run.

        Args:
            potential: the model's potential energy on the data, None for a potential function.
            like: an unconstrained position of one chain.

        Raises:
            ValueError: as `estimator`.
        """
        return self.source.on(potential, like, self.estimator(potential))

    def centring(self, model_args: tuple, model_kwargs: dict) -> Centring | None:
        """How much the model's sites are centred; None where they are as they are written.

        What a user gives of step sizes, energies or temperatures holds in the model's own
        coordinates.
        """
        source, method = self.source, self.method
        finds = self.scaling.is_found and self.scaling.finds_preconditioner
        own = finds and (method.flattening is None or method.finds_partition)
        if source.model is None or not (source.recentred and own) or callable(source.energy):
            return None
        if self.temperature != Constant(1.0):
            return None
        return centring_of(source.model_potential(model_args, model_kwargs))

    def warn_of_short(self, num_warmup: int) -> None:
        """Say how many draws of warm-up a run needs that was given fewer.

        Warns:
            UserWarning: it was.
        """
        plan = self.plan
        if plan is None or num_warmup >= plan.least:
            return
        names = self.method.to_be_found(self.scaling.is_found, self.source.asks_for_control_variate)
        steps, more = plan.least * self.num_steps, plan.least - num_warmup
        draws = f"{num_warmup} {'draw' if num_warmup == 1 else 'draws'}"
        warn_user(
            f"`num_warmup` has {draws}, and {' and '.join(names)} "
            f"{'is' if len(names) == 1 else 'are'} found in a warm-up of at least {plan.least} "
            f"({steps:,} steps): {more} more are made before the first draw. Give some hundred for "
            "a run to be trusted."
        )


def steps_of_a_draw(
    num_steps: int | None, method: Method, scaling: Scaling, temperature: Schedule
) -> tuple[int, bool]:
    """The steps of a draw, or the most of them, and whether they may be found.

    Where the temperature follows a schedule of steps, these are not to be more or fewer than a
    user can know.

    Args:
        num_steps: the argument.
        method: the method.
        scaling: the scaling of the steps. Draws are single steps of a given size by default.
        temperature: the temperature.

    Raises:
        ValueError: the argument is neither None nor an integer above 0.
    """
    if num_steps is not None:
        return checks.integer("num_steps", num_steps, at_least=1), False
    if not scaling.is_found:
        return 1, False
    return method.steps_a_draw, method.finds_steps and isinstance(temperature, Constant)
