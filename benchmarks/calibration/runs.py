"""What is run: the models as they are, broken on purpose, and mended where they are off."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from benchmarks.accuracy.sensitivity import scaled
from benchmarks.calibration.models import MODELS, Model
from numpyro_contour import ContourSGLD


class Run(NamedTuple):
    """A model and the kernel that samples it."""

    of_model: str
    #: makes the kernel of a model
    make: Callable = ContourSGLD
    #: how many times as many steps a draw has
    longer: int = 1

    @property
    def model(self) -> Model:
        """The model, with the steps of this run."""
        model = MODELS[self.of_model]()
        return model._replace(num_steps=self.longer * model.num_steps)


#: the model whose ranks without weights have a panel of their own, and its name
IGNORED, WITHOUT_WEIGHTS = "Poisson", "Poisson, weights ignored"
#: the step size that was found is multiplied with this in the run that is broken on purpose
TOO_LARGE = 4.0
AS_THEY_ARE = {name: Run(name) for name in MODELS}
BROKEN = {
    "hierarchy, steps four times too large": Run(
        "hierarchy, not centred", partial(scaled, step_size_factor=TOO_LARGE)
    )
}
MENDED = {
    "horseshoe, four times the steps": Run("horseshoe", longer=4),
    "funnel, four times the steps": Run("funnel", longer=4),
}
RUNS = AS_THEY_ARE | MENDED | BROKEN
