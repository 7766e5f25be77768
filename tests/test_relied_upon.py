"""What is private in other packages, or not documented, and relied upon here.

Each check says in a sentence what broke with a release of another package, and which file uses it.
"""

import ast
import importlib
import inspect
import tomllib
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer import MCMC
from packaging.requirements import Requirement

import numpyro_contour
from numpyro_contour import SGLD
from numpyro_contour.statistics.arviz_versions import IS_DATATREE

ROOT = Path(numpyro_contour.__file__).parent

#: the releases with which all of it was checked
CHECKED = {
    "numpyro": ("0.22.0",),
    "jax": ("0.10.2", "0.12.0.1"),
    "arviz": ("0.23.4", "1.3.0"),
    "arviz-stats": ("1.3.3",),
}

#: modules that are not documented: package, release, file that imports them, names in them
MODULES = {
    "numpyro.contrib.funsor.enum_messenger": ("numpyro", "models/enumeration.py", ["trace"]),
    "numpyro.contrib.funsor.infer_util": (
        "numpyro",
        "models/enumeration.py",
        ["plate_to_enum_plate"],
    ),
    "arviz.sel_utils": ("arviz", "statistics/arviz_versions.py", ["xarray_var_iter"]),
    "arviz_stats.base": ("arviz-stats", "statistics/arviz_versions.py", ["array_stats"]),
    "arviz_stats.base.stats_utils": (
        "arviz-stats",
        "statistics/arviz_versions.py",
        ["round_num"],
    ),
    "arviz_stats.summary": (
        "arviz-stats",
        "statistics/arviz_versions.py",
        ["SummaryDataFrame", "_build_fmt_map"],
    ),
}


def broke(package, what, file):
    return (
        f"{package} {version(package)} {what}, and numpyro_contour/{file} relies on it; it was "
        f"checked with {', '.join(CHECKED[package])}. Mend the file or lower the upper bound."
    )


def finished():
    kernel = SGLD(potential_fn=lambda x: x**2 / 2, step_size=0.1)
    mcmc = MCMC(kernel, num_warmup=0, num_samples=3, progress_bar=False)
    mcmc.run(jax.random.key(0), init_params=jnp.array(1.0))
    return mcmc


def test_numpyro_keeps_the_arguments_of_a_run():
    kept = getattr(finished(), "_args", None), getattr(finished(), "_kwargs", None)
    said = "does not keep the arguments of a run as `MCMC._args` and `MCMC._kwargs`"
    assert kept == ((), {}), broke("numpyro", said, "runs/finished_run.py")


def test_numpyro_goes_on_from_a_warm_up_of_a_kernel_with_a_sample_fn():
    source = inspect.getsource(MCMC._single_chain_mcmc)
    said = 'does not ask for `getattr(self.sampler, "_sample_fn", None)` before it initialises'
    assert '"_sample_fn", None)' in source, broke("numpyro", said, "kernels/base.py")


def test_numpyro_asks_for_the_text_of_several_chains_in_a_function_of_this_name():
    source = inspect.getsource(MCMC._single_chain_mcmc)
    said = "does not initialise chains in `MCMC._single_chain_mcmc` of an MCMC with `progress_bar`"
    assert "self.progress_bar" in source and "self.sampler.init(" in source, broke(  # noqa: PT018
        "numpyro", said, "kernels/said.py"
    )
    said = "does not ask for `self.sampler.is_ensemble_kernel` in `MCMC._single_chain_mcmc`"
    assert "self.sampler.is_ensemble_kernel" in source, broke("numpyro", said, "kernels/said.py")


@pytest.mark.parametrize("module", MODULES)
def test_modules_that_are_not_documented(module):
    package, file, names = MODULES[module]
    if package.startswith("arviz") and (package == "arviz-stats") != IS_DATATREE:
        pytest.skip("of the other generation of ArviZ")
    if package == "numpyro":
        pytest.importorskip("funsor")
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        pytest.fail(broke(package, f"has no `{module}` ({error})", file))
    for name in names:
        assert hasattr(found, name), broke(package, f"has no `{module}.{name}`", file)


@pytest.mark.skipif(not IS_DATATREE, reason="of arviz 1.x")
def test_signatures_of_arviz_stats():
    from arviz_stats.base import array_stats
    from arviz_stats.base.stats_utils import round_num
    from arviz_stats.summary import SummaryDataFrame, _build_fmt_map

    file = "statistics/arviz_versions.py"
    weights = np.log(np.random.default_rng(0).random(1000))
    shape = array_stats.psislw(-weights, r_eff=1.0)[1]
    said = "does not return the tail's shape second from `array_stats.psislw`"
    assert np.ndim(shape) == 0 and np.isfinite(shape), broke("arviz-stats", said, file)  # noqa: PT018
    said = "does not round to as many decimals by `round_num(value, decimals)`"
    assert float(round_num(1.23456, 2)) == 1.23, broke("arviz-stats", said, file)
    said = "does not make a format for each column by `_build_fmt_map(table, decimals)`"
    assert len(inspect.signature(_build_fmt_map).parameters) == 2, broke("arviz-stats", said, file)
    said = "does not take `SummaryDataFrame(table, fmt_map=...)`"
    taken = inspect.signature(SummaryDataFrame.__init__).parameters
    assert "fmt_map" in taken, broke("arviz-stats", said, file)


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def test_each_of_them_stands_in_one_file():
    for path in ROOT.rglob("*.py"):
        file = str(path.relative_to(ROOT))
        for module in imported(path):
            if module in MODULES or module.startswith(("arviz_", "arviz.")):
                assert module in MODULES, f"{file} imports {module}, which this test does not know"
                assert file == MODULES[module][1], f"{file} imports {module}"


def test_later_releases_are_not_let_in_unseen():
    """Upper bounds: the checked releases, and no minor release after the last of them."""
    project = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["project"]
    bounds = {r.name: r.specifier for r in map(Requirement, project["dependencies"])}
    for package in ("numpyro", "jax", "arviz"):
        for release in CHECKED[package]:
            assert release in bounds[package], package
        major, minor = CHECKED[package][-1].split(".")[:2]
        assert f"{major}.{int(minor) + 1}.0" not in bounds[package], package
