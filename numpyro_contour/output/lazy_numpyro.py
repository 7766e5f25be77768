"""A workaround for `import arviz` before numpyro, with arviz 1.x.

ArviZ then installs a module that loads numpyro at its first use. Submodules that are loaded in the
course of that do not become attributes of their packages, but ArviZ itself asks for some of them.
"""

from __future__ import annotations

import sys


def attach_submodules() -> None:
    """Make numpyro's loaded submodules attributes of their packages, as imports do."""
    for name, module in list(sys.modules.items()):
        package, _, child = name.rpartition(".")
        if name.startswith("numpyro.") and package in sys.modules:
            parent = sys.modules[package]
            if not hasattr(parent, child):
                setattr(parent, child, module)
