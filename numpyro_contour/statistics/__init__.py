"""Statistics of weighted draws, whose public face is `numpyro_contour.diagnostics`.

It may import the root's `checks`; what depends on the version of ArviZ is in one of its files.
"""
