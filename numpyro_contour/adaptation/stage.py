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


#: to a typical point
DESCENT = Stage("descent", measures=True, descends=True)
#: the step size is searched for, and the preconditioner for it
TUNE = Stage("tune", places_anchors=True, measures=True, searches=True)
#: at the step size that was found, whose noise is measured
SETTLE = Stage("settle", places_anchors=True, measures=True)
#: the density as it is: its energies say where bins are needed
PILOT = Stage("pilot", places_anchors=True, renews_partition=True, begins_theta=True)
#: flattened: weighted energies say better where bins are needed
WINDOW = Stage("window", flattens=True, places_anchors=True, renews_partition=True)
#: as after the warm-up, until theta has settled
LEARN = Stage("learn", flattens=True, places_anchors=True)
#: after the warm-up
SAMPLE = Stage("sample", flattens=True)
