"""The algorithms as pure functions of JAX arrays.

It may import `checks` and `schedules` from the root, and never numpyro or arviz.
"""
