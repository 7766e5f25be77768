"""The rooms of the package and the arrows between them, in one table.

A room is a folder, or a module of the root. It imports only rooms that its row names, and each of
them has a row above: no arrow goes up.
"""

import ast
from pathlib import Path

import pytest

import numpyro_contour

ROOT = Path(numpyro_contour.__file__).parent

#: room: (packages that it must not import, rooms that it may import)
ROOMS = {
    "_version": ("jax numpyro arviz", ""),
    "checks": ("jax numpyro arviz", ""),
    "schedules": ("numpyro arviz", "checks"),
    "core.arrays": ("numpyro arviz", ""),
    "core.diffusions": ("numpyro arviz", "core.arrays checks"),
    "core.flattening": ("numpyro arviz", "core.arrays schedules checks"),
    "core.samplers": (
        "numpyro arviz",
        "core.flattening core.diffusions core.arrays schedules checks",
    ),
    "modes": ("numpyro arviz", "core.samplers core.arrays"),
    "warmup.stages": (
        "numpyro arviz",
        "modes core.samplers core.flattening core.diffusions core.arrays schedules",
    ),
    "models.disk": ("arviz", "checks"),
    "models": ("arviz", "models.disk core.arrays checks"),
    "kernels.methods": (
        "numpyro arviz",
        "warmup.stages core.samplers core.flattening core.diffusions core.arrays schedules checks",
    ),
    "energies": (
        "arviz",
        "kernels.methods models models.disk warmup.stages modes core.samplers core.arrays checks",
    ),
    "kernels.parts": (
        "arviz",
        "energies kernels.methods models warmup.stages modes core.samplers "
        "core.diffusions core.arrays schedules checks",
    ),
    "warmup": (
        "arviz",
        "kernels.parts energies models models.disk warmup.stages modes core.samplers "
        "core.arrays schedules checks",
    ),
    "kernels": (
        "arviz",
        "warmup kernels.parts energies kernels.methods models warmup.stages modes "
        "core.samplers core.flattening core.arrays schedules checks",
    ),
    "statistics": ("jax numpyro", "checks"),
    "diagnostics": ("jax numpyro", "statistics"),
    "runs": (
        "arviz",
        "statistics kernels energies models models.disk warmup.stages modes "
        "core.arrays schedules checks _version",
    ),
    "runs.stored": ("arviz", "runs models core.arrays schedules checks _version"),
    "diagnosis": ("jax numpyro arviz", "statistics"),
    "output": (
        "",
        "diagnosis runs.stored runs diagnostics statistics models models.disk core.arrays checks",
    ),
    "plots": ("jax numpyro", "output diagnosis runs statistics checks"),
    "numpyro_contour": (
        "",
        "output diagnosis kernels models models.disk modes core.flattening schedules _version",
    ),
    "examples": (
        "",
        "numpyro_contour plots runs statistics core.flattening core.arrays schedules checks",
    ),
    "__main__": ("", "examples"),
}
MODULES_IN_ROOT = 6
LINES_OF_A_FUNCTION = 80
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def room_of(path):
    """The room of a file: its folder, or its own name in the root."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    if len(parts) == 1:
        return "numpyro_contour" if parts[0] == "__init__" else parts[0]
    return ".".join(parts[:-1])


def module_room(name):
    """The room of a module of this package by its dotted name without the package's."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        room = ".".join(parts[:length])
        if room in ROOMS:
            return room
    return "numpyro_contour"


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


FILES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_what_its_room_may(file):
    room = room_of(file)
    if room == "core":  # which holds rooms, and nothing of its own
        assert not list(imports(file))
        return
    forbidden, allowed = (names.split(" ") for names in ROOMS[room])
    for name in imports(file):
        package, _, inside = name.partition(".")
        assert package not in forbidden, f"{file} imports {name}"
        if package == "numpyro_contour":
            other = module_room(inside)
            assert other == room or other in allowed, f"{file} imports {name}"


def test_no_arrow_goes_up():
    order = list(ROOMS)
    for room, (_, allowed) in ROOMS.items():
        for other in filter(None, allowed.split(" ")):
            assert order.index(other) < order.index(room), f"{room} -> {other}"


def test_the_table_has_no_room_and_no_arrow_that_is_not_there():
    seen = {room: set() for room in ROOMS}
    for file in FILES:
        if room_of(file) == "core":
            continue
        for name in imports(file):
            package, _, inside = name.partition(".")
            if package == "numpyro_contour":
                seen[room_of(file)].add(module_room(inside))
    for room, (_, allowed) in ROOMS.items():
        unused = set(allowed.split(" ")) - seen[room] - {""}
        assert not unused, f"{room} does not import {unused}"


def test_the_root_is_no_heap():
    assert len(list(ROOT.glob("*.py"))) <= MODULES_IN_ROOT


def test_every_room_says_what_it_owns_and_what_it_may_import():
    for room in ROOMS:
        folder = ROOT.joinpath(*room.split("."))
        if folder.is_dir():
            words = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
            assert "import" in (words or ""), room


def own_lines(function):
    """Lines of a function's body, without its docstring and the functions that it defines."""
    body = function.body[ast.get_docstring(function) is not None :]
    if not body:
        return 0
    lines, inside = body[-1].end_lineno - body[0].lineno + 1, list(body)
    while inside:
        node = inside.pop()
        if isinstance(node, FUNCTIONS):
            lines -= node.end_lineno - node.lineno + 1
        else:
            inside.extend(ast.iter_child_nodes(node))
    return lines


def test_functions_can_be_taken_in_at_once():
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, FUNCTIONS):
                assert own_lines(node) <= LINES_OF_A_FUNCTION, (path, node.name)
