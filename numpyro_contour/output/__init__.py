"""What users take away from a run: InferenceData, tables, weighted draws, predictions.

It may import `diagnosis`, `runs` and the rooms below them.
"""
