"""The notebooks run from top to bottom at a small size, without warnings, and end in their answers.

Each ends with assertions on what it found; here they are only seen to have been there.
"""

import ast
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"

#: the size of each notebook, in place of the values of its cell of parameters
SMALL = {
    "failure": {
        "num_samples": 800,
        "num_steps": 150,
        "climbing_warmup": 1000,
        "climbing_samples": 1200,
    },
    "flights": {
        "num_rows": 10_000,
        "num_warmup": 40,
        "num_samples": 100,
        "num_steps": 200,
        "minibatch": 500,
        "ecs_draws": 100,
        "nuts_rows": 5000,
        "nuts_draws": 100,
    },
    "galaxies": {
        "num_chains": 4,
        "num_warmup": 250,
        "num_samples": 900,
        "num_steps": 250,
        "nuts_samples": 2000,
    },
    "modes": {
        "num_chains": 4,
        "num_warmup": 150,
        "num_samples": 300,
        "num_steps": 100,
        "sgld_samples": 100,
        "nuts_draws": 100,
    },
    "neural_network": {"num_warmup": 40, "num_samples": 40, "num_steps": 50, "nuts_draws": 50},
    "quickstart": {"num_steps": 350, "num_samples": 600},
    "sunspots": {
        "num_chains": 4,
        "num_warmup": 300,
        "num_samples": 1000,
        "num_steps": 100,
        "nuts_draws": 200,
    },
}


def assigned(source):
    """The names that a cell assigns."""
    statements = [s for s in ast.parse(source).body if isinstance(s, ast.Assign)]
    return {target.id for s in statements for target in s.targets}


def with_parameters(notebook, values):
    """The notebook with other values after its cell of parameters."""
    number, cell = next(
        (number, cell)
        for number, cell in enumerate(notebook.cells)
        if "parameters" in cell.metadata.get("tags", [])
    )
    assert set(values) <= assigned(cell.source), "a name is not among the parameters"
    lines = "\n".join(f"{name} = {value!r}" for name, value in values.items())
    notebook.cells.insert(number + 1, nbformat.v4.new_code_cell(lines))
    return notebook


def test_no_notebook_is_left_out():
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == set(SMALL)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("name", SMALL)
def test_a_notebook_runs_and_holds_its_answers(name, monkeypatch):
    ignored = [
        "ignore::FutureWarning:arviz",  # that 0.23 is the last of its kind
        "ignore:IProgress not found",  # that progress bars would be plain ones
        "ignore:This run cannot be trusted",  # at a small size it may be too short
    ]
    monkeypatch.setenv("PYTHONWARNINGS", ",".join(ignored))
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "outputs were kept"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(code[-1].source)))
    notebook = with_parameters(notebook, SMALL[name])
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": NOTEBOOKS}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert [output.text for output in outputs if output.get("name") == "stderr"] == []
    assert any("image/png" in output.get("data", {}) for output in outputs)
