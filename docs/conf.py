"""Configuration of the documentation."""

import numpyro_contour

project = "numpyro_contour"
author = "The numpyro_contour developers"
version = release = numpyro_contour.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath"]
html_theme = "furo"
autodoc_member_order = "bysource"
