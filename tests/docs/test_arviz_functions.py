"""The table of ArviZ's functions in docs/arviz.md is what they are found to do."""

import pytest


@pytest.fixture(autouse=True)
def _from_the_root(pytestconfig, monkeypatch):
    monkeypatch.syspath_prepend(str(pytestconfig.rootpath))


def columns(pytestconfig):
    from benchmarks import arviz_functions

    page = (pytestconfig.rootpath / "docs" / "arviz.md").read_text(encoding="utf-8")
    return page, arviz_functions.read(page)


def test_no_function_fails_without_a_word_on_what_to_do(pytestconfig):
    from benchmarks import arviz_functions

    page, found = columns(pytestconfig)
    assert arviz_functions.table(found) in page
    assert all(len(of_version) > 35 for of_version in found.values())
    for of_version in found.values():
        assert not [cell for cell in of_version.values() if "Error" in cell]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_the_column_of_the_installed_version(pytestconfig):
    from benchmarks import arviz_functions

    _, found = columns(pytestconfig)
    expected = found[arviz_functions.COLUMN]
    assert arviz_functions.column(arviz_functions.DRAWS) == expected


def test_what_goes_wrong_is_written_into_the_table():
    from benchmarks import arviz_functions

    name = arviz_functions.COLUMN
    other = next(v for v in arviz_functions.COLUMNS.values() if v != name)
    made = {name: {"summary": "right", "loo": "ValueError: x"}, other: {"waic": "right"}}
    begin, end = arviz_functions.BEGIN, arviz_functions.END
    assert arviz_functions.read(begin + arviz_functions.table(made) + end) == made
    # A case without draws: nothing is right.
    failed = arviz_functions.tried(arviz_functions.Case(*[None] * 4), "summary")
    assert "Error" in failed
