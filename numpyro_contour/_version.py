"""The version of the package, for what must not import the package."""

__version__ = "0.2.0"
