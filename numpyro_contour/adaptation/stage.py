"""What a stage of the warm-up is: a row of flags that say what its draws do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """A stage of the warm-up.

    Its flags are read by the programs that make draws. All chains and all stages share these
    programs, so that a further stage costs no compilation.
    """

    #: its name in the group `warmup` and in the progress bar
    name: str
    #: whether moves are measured: both ends are evaluated on one minibatch. Else the kernel's own
    #: sampler makes the draw
    measures: bool = False
    #: whether the chain descends to a typical point instead of sampling
    descends: bool = False
    #: whether the step size is searched for
    searches: bool = False
    #: whether theta is learnt and the density flattened
    flattens: bool = False
    #: whether anchors are placed where energies are noisy
    places_anchors: bool = False
    #: whether the energy partition is renewed when the stage ends
    renews_partition: bool = False
    #: whether theta begins anew when the stage ends
    begins_theta: bool = False


#: after the warm-up
SAMPLE = Stage("sample", flattens=True)
