"""The notebooks run from top to bottom, and what they print is right."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


def printed_by(name):
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": NOTEBOOKS}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    return "".join(output.get("text", "") for output in outputs)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_two_modes():
    text = printed_by("two_modes.ipynb")
    number = r"(\d\.\d+)"
    match = re.search(rf"P\(a > 0\) = {number} \+- {number}, exact {number}", text)
    mass, error, exact = map(float, match.groups())
    assert abs(mass - exact) < 4 * error
    assert 0.0 < error < 0.05
    assert re.search(r"share of a > 0 by chain: \[[01. \n]+\]", text), "SGLD crossed"
    resampled, expected = map(float, re.search(rf"weight {number}, exact {number}", text).groups())
    assert abs(resampled - expected) < 0.03
