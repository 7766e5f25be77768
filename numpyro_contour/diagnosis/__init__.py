"""Whether a run can be trusted, told from what is in its InferenceData."""

from numpyro_contour.diagnosis.diagnose import diagnose
from numpyro_contour.diagnosis.report import Report, Verdict

__all__ = ["Report", "Verdict", "diagnose"]
