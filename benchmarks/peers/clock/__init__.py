"""Whole processes by the clock: posteriors, one module for the methods of each package, results."""
