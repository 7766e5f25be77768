"""Configuration of the documentation."""

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
from importlib.metadata import version as version_of
from pathlib import Path

import numpyro_contour

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

# README and notebooks link to pages as all lie in the repository; in the site they are together.
readme = (DOCS.parent / "README.md").read_text(encoding="utf-8").replace("](docs/", "](")
for page in ("CONTRIBUTING.md", "CHANGELOG.md"):
    readme = readme.replace(f"]({page})", f"]({page.lower()})")
(DOCS / "_readme.md").write_text(readme, encoding="utf-8")
shutil.rmtree(DOCS / "notebooks", ignore_errors=True)
(DOCS / "notebooks").mkdir()
for notebook in (DOCS.parent / "notebooks").glob("*.ipynb"):
    text = notebook.read_text(encoding="utf-8").replace("](../docs/", "](../")
    (DOCS / "notebooks" / notebook.name).write_text(text, encoding="utf-8")

project = "numpyro_contour"
author = "The numpyro_contour developers"
copyright = f"2026, {author}"
version = release = numpyro_contour.__version__
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
    "sphinx_design",
    "short_names",
]
html_theme = "furo"
html_title = "numpyro_contour"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "figures/favicon.svg"
exclude_patterns = ["programs", "_readme.md"]
autodoc_member_order = "bysource"
# Types, shapes and units are in the texts of the arguments.
autodoc_typehints = "none"
napoleon_use_rtype = False
# Arguments that share a text stand side by side.
napoleon_use_param = False
# Longer signatures have a line for each argument.
python_maximum_signature_line_length = 80
# Values of arguments such as "forward" are quoted as code has them.
smartquotes_action = "De"
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
myst_enable_extensions = ["dollarmath", "colon_fence"]
# Headings are targets of links, which are checked.
myst_heading_anchors = 4
# Pages with code and notebooks are run. What they print is kept until they, the package, a program
# of the docs or one of the packages below is another one.
programs = [*(DOCS.parent / "numpyro_contour").rglob("*.py"), *(DOCS / "programs").glob("*.py")]
made_by = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(programs)))
made_by.update(str([version_of(name) for name in ("jax", "numpyro", "arviz")]).encode())
nb_execution_mode = "cache"
nb_execution_cache_path = str(DOCS.parent / ".docs-cache" / made_by.hexdigest()[:16])
nb_execution_timeout = 900
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_render_markdown_format = "gfm"
# Notebooks are to print no warning; these say that arviz 0.23 is the last of its kind, and that
# progress bars, which they do not show, are plain.
os.environ.setdefault("PYTHONWARNINGS", "ignore::FutureWarning:arviz,ignore:IProgress not found")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Each kernel would say that it talks over TCP, on this machine, without encryption.
profile = Path(tempfile.mkdtemp()) / "profile_default"
profile.mkdir()
(profile / "ipython_kernel_config.py").write_text('c.IPKernelApp.log_level = "ERROR"\n')
atexit.register(shutil.rmtree, profile.parent, ignore_errors=True)
os.environ.setdefault("IPYTHONDIR", str(profile.parent))


def _links_to_notebooks(app, name, source):
    """In the repository notebooks lie beside docs/, in the site below it."""
    source[0] = source[0].replace("](../notebooks/", "](notebooks/")


def setup(app):
    """Sphinx calls this; what it connects is done to each page."""
    app.connect("source-read", _links_to_notebooks)
