"""The two tiers of tests: `make test` runs the first, `make test-all` both."""

import pytest


def in_second_tier(*values):
    """A parameter of a test that the first tier leaves out."""
    return pytest.param(*values, marks=pytest.mark.slow)
