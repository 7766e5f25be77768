"""Samplers as pairs of pure functions, without NumPyro."""
