"""The pure core knows arrays and functions: it imports neither numpyro nor the layers above it."""

import ast
from pathlib import Path

import pytest

import numpyro_contour

ROOT = Path(numpyro_contour.__file__).parent
PURE = [
    "checks.py",
    "schedules.py",
    "partition.py",
    "contour.py",
    "guard.py",
    "window.py",
    "weights.py",
    "estimates.py",
    "diagnostics.py",
    "flattening_diagnostics.py",
    "arviz_versions.py",
    "flat.py",
    "numpy_data.py",
    "random_bits.py",
    "random_fields.py",
    "compensated.py",
    "smoothing.py",
    *(
        str(path.relative_to(ROOT))
        for folder in ("samplers", "diffusions", "adaptation")
        for path in (ROOT / folder).glob("*.py")
    ),
]
STATISTICS = {"arviz_versions.py"}
ABOVE = {
    "control_variate",
    "draw_temperatures",
    "diagnosis",
    "enumeration",
    "equipartition",
    "estimators",
    "examples",
    "expectations",
    "full_data",
    "full_energies",
    "full_weights",
    "inference_data",
    "kernels",
    "log_likelihood",
    "minibatch",
    "minibatch_variance",
    "on_data",
    "plates",
    "plots",
    "prediction",
    "resampling",
    "row_terms",
    "run_groups",
    "run_weights",
    "runs",
    "summary",
    "warmup_report",
    "weighted_draws",
}


OUTPUTS = tuple(
    f"numpyro_contour.{name}"
    for name in (
        "diagnosis",
        "inference_data",
        "summary",
        "resampling",
        "expectations",
        "weighted_draws",
    )
)


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("file", PURE)
def test_pure_core_imports_nothing_from_above(file):
    for name in imports(ROOT / file):
        parts = name.split(".")
        forbidden = {"numpyro"} if file in STATISTICS else {"numpyro", "arviz"}
        assert parts[0] not in forbidden, f"{file} imports {name}"
        if parts[0] == "numpyro_contour" and len(parts) > 1:
            assert parts[1] not in ABOVE, f"{file} imports {name}"


def test_checks_of_a_run_know_its_groups_alone():
    for path in (ROOT / "diagnosis").glob("*.py"):
        if path.name == "diagnose.py":  # which takes a finished run too
            continue
        for name in imports(path):
            parts = [*name.split("."), ""]
            assert parts[0] not in {"numpyro", "jax"}, f"{path} imports {name}"
            assert parts[1] not in ABOVE - {"diagnosis"}, f"{path} imports {name}"


def test_kernels_do_not_import_outputs():
    for path in (ROOT / "kernels").glob("*.py"):
        for name in imports(path):
            assert not name.startswith(("arviz", *OUTPUTS)), path


def test_files_hold_one_idea():
    for path in ROOT.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 350, path
