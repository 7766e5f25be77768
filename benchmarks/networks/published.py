"""Table 2 of Deng, Lin and Liang (2020): CIFAR-10, ResNet-20, 1000 epochs, ten runs."""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """Accuracies in per cent, with the standard deviation over runs."""

    #: of the best point
    best: str
    #: of the Bayesian model average
    average: str


TABLE_2 = {
    "M-SGD": Published("90.02 ± 0.06", "92.03 ± 0.08"),
    "SGHMC": Published("90.01 ± 0.07", "91.98 ± 0.05"),
    "CSGHMC": Published("90.87 ± 0.04", "92.85 ± 0.05"),
    "saM-SGD": Published("93.83 ± 0.07", "94.25 ± 0.04"),
    "saSGHMC": Published("93.80 ± 0.06", "94.24 ± 0.06"),
    "saCSGHMC": Published("94.06 ± 0.07", "94.33 ± 0.07"),
}
