"""The API reference: the pages name all that is public, and all they name is documented in full.

The list of public names is that of the directives on the pages, docs/api.md and docs/api/*.md.
"""

import ast
import builtins
import importlib
import inspect
import re
import textwrap
from dataclasses import dataclass, is_dataclass
from functools import cache, reduce
from itertools import pairwise
from pathlib import Path

import pytest

import numpyro_contour
from numpyro_contour import diagnostics, plots
from numpyro_contour.core import diffusions, samplers

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "api.md", *sorted((DOCS / "api").glob("*.md"))]

ALL = "all"

#: Of a field or a property Napoleon takes the text before a colon for its type.
COLON = "a colon"

#: Names without a formula or without a source, and why. A dot at the end: all of a module.
WITHOUT_FORMULA = {
    "a picture, a table or a report of what has formulas": (
        "plots.plot_dashboard",
        "plots.plot_warmup",
        "plots.plot_modes",
        "plots.plot_theta_trace",
        "plots.plot_energy_trace",
        "plots.plot_pair",
        "plots.plot_weighted_draws",
        "plots.plot_predictions",
        "diagnose",
        "summary",
        "print_summary",
    ),
    "counts, or takes things from one place to another": (
        "run_stored",
        "training",
        "step_key",
        "diagnostics.round_trips",
        "models.coordinates.constrained",
        "models.handlers.",
        "on_disk",
        "models.disk.",
        "core.samplers.chain.start",
        "core.samplers.guard.initial_guard",
        "examples.datasets.read_columns",
        "examples.datasets.load",
        "examples.images.load_images",
        "examples.augmentation.random_crop_and_flip",
        "examples.flights.load",
        "examples.flights.regression",
        "examples.faults.run",
    ),
    "what the kernels made of it sample is at the kernels": (
        "kernels.Kernel",
        "kernels.langevin_moves",
        "kernels.underdamped_moves",
        "kernels.nose_hoover_moves",
    ),
}
WITHOUT_SOURCE = {
    "arithmetic of textbooks": (
        "diagnostics.normalise",
        "diagnostics.weighted_sd",
        "diagnostics.weighted_eti",
        "diagnostics.weighted_mad",
        "diagnostics.round_trips",
        "diagnostics.counted_share",
        "diagnostics.end_masses",
        "diagnostics.noise_in_bins",
        "diagnostics.share_above",
        "predictive",
        "predictive_mean",
        "examples.datasets.split_and_standardise",
        "examples.nine_modes.mode_masses",
        "examples.nine_modes.exact_masses",
        "examples.phase_retrieval.has_sign_of_signal",
        "examples.phase_retrieval.exact_mass",
        "examples.concrete.network",
        "examples.concrete.predict",
        "examples.concrete.rmse",
        "examples.concrete.coverage",
        "examples.concrete.linear_regression",
        "examples.flights.design",
        "examples.flights.normal_approximation",
    ),
    "made for this package": (
        "plots.",
        "diagnose",
        "run_stored",
        "training",
        "step_key",
        "to_inference_data",
        "core.flattening.widening_partition.WideningPartition",
        "core.flattening.theta.initial_theta",
        "core.flattening.psi.log_psi_at_nodes",
        "core.diffusions.clip_drift",
        "core.diffusions.diffusion.normal_like",
        "core.samplers.chain.",
        "core.samplers.guard.",
        "models.coordinates.constrained",
        "models.handlers.",
        "on_disk",
        "models.disk.",
        "examples.concrete.model",
        "examples.phase_retrieval.load",
        "examples.phase_retrieval.model",
        "examples.flights.regression",
        "examples.faults.run",
    ),
    "files, whose sources are in data/README.md": (
        "examples.datasets.read_columns",
        "examples.datasets.load",
        "examples.images.load_images",
        "examples.flights.load",
    ),
    "what the kernels made of it come from is at the kernels": WITHOUT_FORMULA[
        "what the kernels made of it sample is at the kernels"
    ],
}

# ---------------------------------------------------------------------------------- the pages


@dataclass(frozen=True)
class Name:
    """A name on a page: "numpyro_contour.plots.plot_pair", a function, with no members."""

    full: str
    kind: str
    members: tuple[str, ...] | str = ()

    @property
    def short(self):
        return self.full.removeprefix("numpyro_contour.")


def names_of(page):
    """The names that the autodoc directives of a page's text are for."""
    module, found = "", []
    for line in page.splitlines():
        if match := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = f"{match[1]}."
        elif match := re.match(r"\.\. auto(class|function|method|data):: (\S+)", line):
            inside = match[2].startswith("numpyro_contour.")
            found.append(Name(match[2] if inside else module + match[2], match[1]))
        elif match := re.match(r" +:members:(.*)", line):
            listed = tuple(member.strip() for member in match[1].split(",") if member.strip())
            found[-1] = Name(found[-1].full, found[-1].kind, listed or ALL)
    return found


@cache
def listed():
    return [name for page in PAGES for name in names_of(page.read_text())]


def resolve(full):
    """The object of a name, which may be the name of a module as well."""
    parts = full.split(".")
    for end in range(1, len(parts)):
        try:
            module = importlib.import_module(".".join(parts[:end]))
            found = reduce(getattr, parts[end:], module)
        except (AttributeError, ModuleNotFoundError):
            continue
        if not inspect.ismodule(found):
            return found
    raise ModuleNotFoundError(full)


# ---------------------------------------------------------------------------------- docstrings


def sections(doc):
    """The text before any section under "", and the lines of each section by its name."""
    found, name = {"": []}, ""
    for line in inspect.cleandoc(doc or "").splitlines():
        if match := re.fullmatch(r"(Args|Attributes|Returns|Raises|Warns|Example):", line):
            name = match[1]
            found[name] = []
        else:
            if line and not line.startswith(" "):
                name = ""
            found[name].append(line)
    return found


def entries(lines):
    """The entries of a section: name to text. Names that share a text stand side by side."""
    found, names = {}, []
    for line in textwrap.dedent("\n".join(lines)).splitlines():
        if match := re.match(r"((?:\*{0,2}\w+, )*\*{0,2}\w+): (.*)", line):
            names = match[1].split(", ")
            found.update(dict.fromkeys(names, match[2]))
        elif line.startswith(" "):
            found.update({name: f"{found[name]} {line.strip()}" for name in names})
    return found


def arguments(doc):
    """The entries of Args."""
    return entries(sections(doc).get("Args", []))


def text_of(full, name, seen=()):
    """What is said of an argument, with what is said where the text refers to."""
    text = arguments(resolve(full).__doc__).get(name, "")
    if match := re.match(r"as (?:for|in) `(\w+)`", text):
        for other in listed():
            if other.full.endswith(f".{match[1]}") and other.full not in seen:
                text += " " + text_of(other.full, name, (*seen, full))
    return text


def states(text, default):
    """Whether a text says that this is the default."""
    phrases = re.findall(r"Defaults to (\([^()]*\)|.+?)(?:[.;,:] |[.;,:]?$)", text)
    phrases += re.findall(r"(\S+) \(default[,)]", text)
    if default is None:  # what it stands for may be stated instead
        return bool(phrases)
    return any(means(phrase, default) for phrase in phrases)


def means(phrase, default):
    """Whether a phrase, "the paper's 0.1", "80 bins" or "`init_to_uniform`", is a value."""
    forms = {str(default), getattr(default, "__name__", ""), f"{type(default).__name__}()"}
    if isinstance(default, str):
        return phrase.startswith(f'"{default}"')
    if isinstance(default, tuple):
        return phrase == str(default)
    if is_dataclass(default) and default != type(default)():
        return False
    phrase = re.sub(r"(\d+) MiB", lambda match: str(int(match[1]) * 2**20), phrase)
    for word in phrase.replace("`", "").split():
        same = re.fullmatch(r"-?[\d.]+(e-?\d+)?", word) and float(word) == default
        if word in forms or (same and not isinstance(default, bool)):
            return True
    return False


# ---------------------------------------------------------------------------------- the code


def is_container(found):
    return isinstance(found, type) and (issubclass(found, tuple) or is_dataclass(found))


def constructors(found):
    """The `__init__`s that take part in making an object of a class."""
    if is_container(found):
        return []
    return [vars(c)["__init__"] for c in found.__mro__ if "__init__" in vars(c) and c is not object]


def parameters(found):
    """Parameters by their names as a docstring has them, `*args` and `**kwargs` with stars."""
    if "__signature__" in vars(found):  # of a named kernel, its shared arguments listed
        return dict(inspect.signature(found).parameters)
    collected, rest = {}, None
    for function in constructors(found) if isinstance(found, type) else [found]:
        rest = None
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                rest = f"**{name}", parameter
            elif parameter.kind is parameter.VAR_POSITIONAL:
                collected[f"*{name}"] = parameter
            elif name not in ("self", "cls"):
                collected.setdefault(name, parameter)
        if rest is None:
            break
    if rest is not None:  # nobody takes them up by name
        collected[rest[0]] = rest[1]
    return collected


def raised(function):
    """The exceptions that a function raises by its source, those of checked arguments included."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    found, rest = set(), list(tree.body[0].body)
    while rest:
        node = rest.pop()
        if isinstance(node, ast.FunctionDef | ast.Lambda):  # what is made, and runs later
            continue
        if isinstance(node, ast.Raise) and node.exc is not None:
            text = ast.unparse(node.exc)
            known = re.match(r"\w+", text)[0]
            found.add(known if hasattr(builtins, known) else "ValueError")
        if isinstance(node, ast.Call) and "check" in ast.unparse(node.func):
            found.add("ValueError")
        rest += ast.iter_child_nodes(node)
    return found


def texts_of_fields(found):
    """What the source of a container says of its fields, by name."""
    known, text = entries(sections(found.__doc__).get("Attributes", [])), []
    for line in inspect.getsource(found).splitlines():
        if line.strip().startswith("#:"):
            text.append(line.strip().removeprefix("#:"))
        elif (match := re.match(r" +(\w+):", line)) and text:
            known[match[1]] = "".join(text)
            text = []
        else:
            text = []
    return known


def fields(found):
    own = getattr(found, "_fields", None) or found.__dataclass_fields__
    return [name for name in own if name in found.__annotations__ or "_fields" in vars(found)]


# ---------------------------------------------------------------------------------- what is missing


def faults_of(name):
    """What is missing in the documentation of a name, in words."""
    if name.kind == "data":
        return faults_of_data(name)
    found = resolve(name.full)
    is_class = isinstance(found, type)
    own = vars(found).get("__doc__") if is_class else found.__doc__
    faults = [*faults_of_text(own), *faults_of_arguments(name.full, found)]
    if not is_class and inspect.signature(found).return_annotation not in ("None", None):
        faults += [] if "Returns" in sections(own) else ["no Returns"]
    if is_class and is_container(found):
        known = texts_of_fields(found)
        faults += [f"no text for the field {one}" for one in fields(found) if one not in known]
        faults += [f"{field}: {COLON}" for field, text in known.items() if ":" in text]
    elif name.kind != "method":
        faults += [] if ">>>" in (own or "") else ["no Example"]
        faults += [] if ".. math::" in own or ":math:" in own else ["no formula"]
        faults += [] if "Source:" in own else ["no Source"]
    return faults + [fault for member in members(name, found) for fault in faults_of_member(member)]


def faults_of_text(doc):
    paragraph = "\n".join(sections(doc)[""]).split("\n\n")[0].strip()
    return [] if re.fullmatch(r"[\w`].*[.:]", paragraph, re.DOTALL) else ["no first sentence"]


def faults_of_arguments(full, found):
    doc = found.__doc__
    given, said = parameters(found), arguments(doc)
    faults = [f"the argument {name} is not documented" for name in given if name not in said]
    faults += [f"the argument {name} does not exist" for name in said if name not in given]
    for name in set(given) & set(said):
        default = given[name].default
        if default is not inspect.Parameter.empty and not states(text_of(full, name), default):
            faults.append(f"the default of {name}, {default!r}, is not stated")
    checked = constructors(found) if isinstance(found, type) else [found]
    checked = [one for one in checked if one.__module__.startswith(("numpyro_contour", __name__))]
    says = entries(sections(doc).get("Raises", []))
    missing = set().union(*map(raised, checked)) - set(says)
    faults += [f"no Raises for {error}" for error in sorted(missing)]
    faults += [f"{error} is no exception" for error in says if not hasattr(builtins, error)]
    return faults


def members(name, found):
    """The members of a class that are on the page, as (full name, member)."""
    if name.members == ALL:
        taken = [n for n, x in vars(found).items() if not n.startswith("_") and is_code(x)]
    else:
        taken = [n for n in name.members if n not in getattr(found, "__annotations__", {})]
    return [(f"{name.full}.{n}", inspect.getattr_static(found, n)) for n in taken]


def is_code(member):
    return isinstance(member, property | classmethod | staticmethod) or inspect.isfunction(member)


def faults_of_member(member):
    full, found = member
    short = full.rpartition(".")[2]
    if isinstance(found, property) or not is_code(found):  # a cached property is one too
        colon = [COLON] if ":" in (found.__doc__ or "").split("\n")[0] else []
        return [f"{short}: {fault}" for fault in faults_of_text(found.__doc__) + colon]
    function = getattr(found, "__func__", found)
    faults = [*faults_of_text(function.__doc__), *faults_of_arguments(full, function)]
    if inspect.signature(function).return_annotation not in ("None", None):
        faults += [] if "Returns" in sections(function.__doc__) else ["no Returns"]
    return [f"{short}: {fault}" for fault in faults]


def faults_of_data(name):
    module, _, constant = name.full.rpartition(".")
    lines = inspect.getsource(importlib.import_module(module)).splitlines()
    for above, line in pairwise(lines):
        if re.match(rf"{constant}\b.* = ", line) and above.startswith("#:"):
            return []
    return ["no text"]


def excused(name, fault):
    table = {"no formula": WITHOUT_FORMULA, "no Source": WITHOUT_SOURCE}.get(fault, {})
    return any(covers(entry, name.short) for excused in table.values() for entry in excused)


def covers(entry, name):
    """Whether an excuse is for a name: the name itself, or a module and a dot for all in it."""
    return name.startswith(entry) if entry.endswith(".") else name == entry


# ---------------------------------------------------------------------------------- the tests


def test_every_public_name_is_on_a_page_once():
    full = [name.full for name in listed()]
    assert sorted(full) == sorted(set(full))
    on_pages = {id(resolve(name)) for name in full}
    for module in (numpyro_contour, plots, diagnostics, diffusions):
        missing = [name for name in module.__all__ if id(getattr(module, name)) not in on_pages]
        assert not missing, f"{module.__name__}: not in docs/api: {missing}"


def test_every_sampler_is_on_a_page():
    full = {name.full for name in listed()}
    for path in Path(samplers.__file__).parent.glob("*.py"):
        module = importlib.import_module(f"numpyro_contour.core.samplers.{path.stem}")
        for name, found in vars(module).items():
            makes = inspect.isfunction(found) and found.__annotations__.get("return") == "Sampler"
            if makes and found.__module__ == module.__name__:
                assert f"{module.__name__}.{name}" in full


def test_every_public_name_is_documented_in_full():
    found = {
        name.short: [fault for fault in faults_of(name) if not excused(name, fault)]
        for name in listed()
    }
    text = [f"{name}: {fault}" for name, faults in found.items() for fault in faults]
    assert not text, "\n".join(["what is not documented:", *text])


@pytest.mark.parametrize("table", [WITHOUT_FORMULA, WITHOUT_SOURCE])
def test_no_excuse_is_out_of_date(table):
    fault = "no formula" if table is WITHOUT_FORMULA else "no Source"
    lacking = [name.short for name in listed() if fault in faults_of(name)]
    for entry in (entry for excused in table.values() for entry in excused):
        assert any(covers(entry, name) for name in lacking), f"{entry} needs no excuse"


def test_every_source_is_among_the_papers():
    known = (DOCS / "api.md").read_text()
    for name in listed():
        doc = inspect.getdoc(resolve(name.full)) or "" if name.kind != "data" else ""
        for paragraph in re.findall(r"Source: (.+?)(?:\n\n|$)", doc, re.DOTALL):
            text = " ".join(paragraph.split())
            for author, year in re.findall(r"([A-Z]\w+)(?:,? [\w.,]+?)*? \(?(\d{4})", text):
                line = rf"^(- |.*of ){author}\b.*\({year}\)"
                assert re.search(line, known, re.MULTILINE), f"{name.short}: {author} ({year})"


# ---------------------------------------------------------------------------------- the test itself


def documented(scale: float, mode: str = "fast", *, count: int = 3) -> float:
    r"""A number.

    .. math:: s

    Args:
        scale: s > 0.
        mode: "fast" (default) or "slow".
        count: how many. Defaults to 3.

    Returns:
        It.

    Raises:
        ValueError: `scale` is not above 0.

    Source: Nobody (2000).

    Example:
        >>> 1
        1
    """
    if scale <= 0:
        raise ValueError("scale")
    return scale


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("A number.", "", "no first sentence"),
        ("scale: s > 0.", "", "the argument scale is not documented"),
        ("scale: s", "scale, size: s", "the argument size does not exist"),
        ('"fast" (default)', '"fast"', "the default of mode, 'fast', is not stated"),
        ('"fast" (default) or "slow"', '"fast" or "slow" (default)', "the default of mode"),
        ("Defaults to 3.", "Defaults to 30.", "the default of count, 3, is not stated"),
        ("Returns:", "Returned:", "no Returns"),
        ("Raises:", "Raised:", "no Raises for ValueError"),
        ("ValueError: `", "ScaleError: `", "ScaleError is no exception"),
        (">>> 1", "1", "no Example"),
        (".. math::", "", "no formula"),
        ("Source:", "From", "no Source"),
    ],
)
def test_what_is_missing_is_found(monkeypatch, old, new, fault):
    name = Name(f"{__name__}.documented", "function")
    monkeypatch.setattr("test_api_reference.resolve", lambda full: documented)
    assert faults_of(name) == []
    assert old in documented.__doc__
    monkeypatch.setattr(documented, "__doc__", documented.__doc__.replace(old, new, 1))
    assert any(found.startswith(fault) for found in faults_of(name)), faults_of(name)
