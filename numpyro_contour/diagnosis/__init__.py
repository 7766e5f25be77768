"""Whether a run can be trusted, told from what is in its InferenceData."""
