"""Whether all that a run has told is there to be checked."""

from __future__ import annotations

from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.diagnosis.report import Verdict, unknown


def record(evidence: Evidence) -> list[Verdict]:
    """Draws without the rest of their run tell too little, however good they look."""
    if evidence.settings.get("resampled"):
        why = "The draws were resampled, and what their run has told of itself was left behind."
    elif "kernel" not in evidence.settings and "inference_library" in evidence.settings:
        why = (
            "`az.from_numpyro` takes the draws alone: neither the warm-up, the energy partition "
            "nor the energies over all rows could be checked."
        )
    else:
        return []
    return [unknown("record", f"{why} Hand over the MCMC, or what `to_inference_data` returns.")]
