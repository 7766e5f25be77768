"""Verdicts on a run, from the groups of its InferenceData alone.

It may import `statistics` and the root's `checks`, and never JAX or numpyro.
"""
