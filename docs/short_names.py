"""Names in single backticks link to the reference, as short as docstrings write them.

Sphinx finds `ContourSGLD` from other names of its own module only. Here a name, or the end of one,
links where the reference has one class or function of that name. Others, arguments say, are code,
and examples are called `model` and `run` as arguments and methods are: their names take a module.
"""

from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

_KINDS = ("class", "function", "data")


def link(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Element
) -> nodes.Element | None:
    """The link of a name that Sphinx has not found, None where no name or several end so."""
    if node.get("refdomain") != "py" or node.get("reftype") != "obj":
        return None
    domain = env.get_domain("py")
    target = node["reftarget"].removesuffix("()")
    found = {
        (page, anchor)
        for name, _, kind, page, anchor, _ in domain.get_objects()
        if kind in _KINDS and f".{name}".endswith(f".{target}")
        if "." in target or ".examples." not in name
    }
    if len(found) != 1:
        return None
    ((page, anchor),) = found
    uri = app.builder.get_relative_uri(node["refdoc"], page) + f"#{anchor}"
    reference = nodes.reference("", "", content, refuri=uri, internal=True)
    reference["reftitle"] = target
    return reference


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the search for names, and make it that of single backticks."""
    app.config.default_role = "py:obj"
    app.connect("missing-reference", link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
