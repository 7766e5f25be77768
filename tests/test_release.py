"""What is released: the wheel, its metadata, and that both programs of README run from it.

Nothing is downloaded. The environments in which the wheel is installed hold only what it asks for,
by links to the packages of this one.
"""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from email import message_from_string
from importlib.metadata import distribution
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from numpyro_contour import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HOME = PROJECT["urls"]["Homepage"]

#: the program of README as a package index shows it, and where its modules come from
README_PROGRAM = """
import doctest, sys
from importlib.metadata import metadata
from pathlib import Path

import numpyro_contour
from numpyro_contour.examples import datasets

for module in (numpyro_contour, datasets):
    assert Path(module.__file__).is_relative_to(sys.prefix), module.__file__
assert all(len(column) == 82 for column in datasets.read_columns("galaxies").values())
flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
text = metadata("numpyro_contour").get_payload()
test = doctest.DocTestParser().get_doctest(text, {}, "README", None, 0)
print(doctest.DocTestRunner(optionflags=flags).run(test))
"""

#: the entry point of the demo with runs that are shorter than its quick ones
SHORT_DEMO = """
from importlib.metadata import entry_points

from numpyro_contour.examples import demo_nine_modes, demo_rows
from numpyro_contour.examples.demo_runs import Job

demo_nine_modes.QUICK_JOB = demo_rows.QUICK_JOB = Job(2, 20, 20, 20)
demo_rows.QUICK_NUTS_DRAWS = 2
(demo,) = entry_points(group="console_scripts", name="numpyro-contour-demo")
demo.load()(["--quick"])
"""


def test_the_version_stands_in_the_changelog_and_in_the_citation():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    version, date = re.search(r"^## (\S+) \((\S+)\)$", changelog, re.M).groups()
    assert version == __version__
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    assert {f"version: {version}", f"date-released: {date}", f"repository-code: {HOME}"} <= {
        *citation
    }


def test_the_project_has_one_home():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    homes = re.findall(r"https://(?:github|raw\.githubusercontent)\.com/([\w-]+/[\w-]+)", text)
    assert len(homes) > 5
    assert {f"https://github.com/{home}" for home in homes} == {HOME}
    assert all(url.startswith(HOME) for url in PROJECT["urls"].values())


def test_only_extras_that_users_need_are_published():
    assert set(PROJECT["optional-dependencies"]) == {"plots", "io", "demo"}


def build(checkout, target, folder):
    """Build one file of a release where each warning is an error; its path."""
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-m", "hatchling", "build", "-t", target, "-d", folder],
        cwd=checkout,
        capture_output=True,
        text=True,
    )
    said = finished.stdout + finished.stderr
    assert finished.returncode == 0, said
    built = next(Path(folder).glob("*.whl" if target == "wheel" else "*.tar.gz"))
    # Nothing but the path, which may be relative, below the name of the target.
    assert [PurePosixPath(word).name for word in said.split()][-1:] == [built.name], said
    assert said.split()[:-1] in ([], [f"[{target}]"]), said
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel from the source distribution, as for a release."""
    folder = tmp_path_factory.mktemp("dist")
    source = build(ROOT, "sdist", folder)
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    return build(folder / source.name.removesuffix(".tar.gz"), "wheel", folder)


@pytest.fixture(scope="module")
def metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        name = f"numpyro_contour-{__version__}.dist-info/METADATA"
        return message_from_string(archive.read(name).decode("utf-8"))


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = ROOT / "numpyro_contour"
    there = {
        path.relative_to(ROOT).as_posix()
        for path in package.rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }
    assert names == there
    data = {path.name for path in (package / "examples" / "data").glob("*.csv")}
    assert "galaxies.csv" in data
    assert {f"numpyro_contour/examples/data/{name}" for name in data} <= names
    assert "numpyro_contour/py.typed" in names


@pytest.mark.slow
def test_links_and_pictures_of_the_index_lead_to_files_of_this_version(metadata):
    text = metadata.get_payload()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]*)\)", text)
    assert len(links) == len(re.findall(r"\]\(", readme)) > 40
    raw = HOME.replace("github.com", "raw.githubusercontent.com")
    for picture, link in links:
        assert link.startswith("https://"), link
        if "github" in link:
            start = f"{raw if picture else f'{HOME}/blob'}/v{__version__}/"
            assert link.startswith(start), link
            assert (ROOT / link.removeprefix(start).partition("#")[0]).is_file(), link
    assert "pip install 'numpyro_contour[plots,io]'" in text
    assert "checkout, with" not in text


@pytest.mark.slow
def test_the_metadata_are_those_of_a_release(metadata):
    assert metadata["License-Expression"] == "Apache-2.0"
    assert not [c for c in metadata.get_all("Classifier") if c.startswith("License ::")]
    assert set(metadata.get_all("Provides-Extra")) == {"plots", "io", "demo"}
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert len(metadata.get_all("Project-URL")) == len(PROJECT["urls"])


def asked_for(requirements, extra):
    """The installed distributions that these requirements need with an extra, and so on."""
    waiting = [(Requirement(text), extra) for text in requirements]
    seen, found = set(), {}
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        for of_name in ("", *requirement.extras):
            if (name, of_name) not in seen:
                seen.add((name, of_name))
                found[name] = distribution(name)
                needs = map(Requirement, found[name].requires or ())
                waiting += [(need, of_name) for need in needs]
    return found.values()


def install(wheel, metadata, extra, folder):
    """The folder of programs of an environment that holds the wheel and what it asks for."""
    venv.create(folder, with_pip=False)
    programs = folder / "bin"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(subprocess.check_output([programs / "python", "-c", where], text=True).strip())
    for needed in asked_for(metadata.get_all("Requires-Dist"), extra):
        for top in {file.parts[0] for file in map(PurePosixPath, needed.files)} - {
            "..",
            "__pycache__",
        }:
            if not (site / top).exists():
                (site / top).symlink_to(Path(needed.locate_file(top)).resolve())
    # Without an index: pip finds all that it needs, or fails.
    pip = [sys.executable, "-m", "pip", "--python", programs / "python", "install", "--quiet"]
    offline = ["--no-index", "--disable-pip-version-check"]
    subprocess.run([*pip, *offline, f"numpyro_contour[{extra}] @ {wheel.as_uri()}"], check=True)
    return programs


def output_of(command, folder, **settings):
    """What a program prints that runs in a folder outside the checkout."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    finished = subprocess.run(
        command,
        cwd=folder,
        env=variables | {"JAX_PLATFORMS": "cpu", "MPLBACKEND": "agg"} | settings,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr[-3000:]
    return finished.stdout


@pytest.mark.slow
def test_readme_runs_from_the_wheel_with_what_it_asks_for(wheel, metadata, tmp_path):
    programs = install(wheel, metadata, "", tmp_path / "environment")
    said = output_of([programs / "python", "-c", README_PROGRAM], tmp_path)
    assert re.search(r"TestResults\(failed=0, attempted=1\d\)", said), said


@pytest.mark.slow
def test_the_demo_runs_from_the_wheel_with_its_extra(wheel, metadata, tmp_path):
    programs = install(wheel, metadata, "demo", tmp_path / "environment")
    assert "--quick" in output_of([programs / "numpyro-contour-demo", "--help"], tmp_path)
    command = [programs / "python", "-W", "ignore", "-c", SHORT_DEMO]
    said = output_of(command, tmp_path, JAX_DISABLE_MOST_OPTIMIZATIONS="1")
    assert "Phase retrieval" in said
    assert "blackjax" in said
    written = {path.name for path in (tmp_path / "demo-output").iterdir()}
    assert written == {"phase_retrieval.nc", "demo.png", "warmup.png"}
