"""Kernels for NumPyro's `MCMC`."""
