"""Tiers of tests: `make test` runs the first, `make test-all` two, `make test-long` the third."""

import pytest


def in_second_tier(*values):
    """A parameter of a test that the first tier leaves out."""
    return pytest.param(*values, marks=pytest.mark.slow)


def in_third_tier(*values):
    """A parameter of a test that the first two tiers leave out."""
    return pytest.param(*values, marks=pytest.mark.long)
