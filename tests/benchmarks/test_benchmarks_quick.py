"""The table of benchmarks against their pages, and the quick forms that no other test runs."""

from importlib.util import find_spec

import pytest


@pytest.fixture(autouse=True)
def _from_the_root(pytestconfig, monkeypatch):
    monkeypatch.syspath_prepend(str(pytestconfig.rootpath))


def test_each_page_has_the_sections_of_the_table_in_their_order(pytestconfig):
    from benchmarks.catalogue import BENCHMARKS, HEADS
    from benchmarks.shared.pages import sections_of

    for page, head in HEADS.items():
        text = (pytestconfig.rootpath / "docs" / page).read_text()
        assert text.startswith(head + "<!-- ")
        sections = [name.split(".")[-1] for name, row in BENCHMARKS.items() if row.page == page]
        assert list(sections_of(text)) == sections
    for name in BENCHMARKS:
        assert find_spec(f"benchmarks.{name}") is not None


def test_names_and_questions_name_benchmarks(capsys):
    from benchmarks.__main__ import main, named
    from benchmarks.catalogue import BENCHMARKS

    assert named("cost.steps") == named("steps") == ["cost.steps"]
    assert named("minibatches") == [
        f"minibatches.{name}" for name in ("subsampling", "modes_of_rows", "peers_on_rows")
    ]
    assert named("mixture") == ["accuracy.mixture", "papers.mixture"]
    main(["--list"])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(BENCHMARKS)
    with pytest.raises(SystemExit):
        main(["nothing"])
    assert "no benchmark is called nothing" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["cost", "--only", "galaxies"])
    with pytest.raises(SystemExit):
        main(["peers", "--methods", "SGLD"])


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "name",
    [
        "accuracy.mixture",
        "accuracy.coverage",
        "accuracy.shared_theta",
        "accuracy.kinds",
        "calibration",
        "posteriordb",
        "minibatches.modes_of_rows",
        "minibatches.peers_on_rows",
        "cost.large_data",
        "cost.accelerator",
    ],
)
def test_quick_forms_write_their_sections(name, tmp_path):
    from benchmarks.__main__ import main
    from benchmarks.catalogue import BENCHMARKS

    main([name, "--quick", "--output", str(tmp_path)])
    text = (tmp_path / BENCHMARKS[name].page).read_text()
    assert text.count("<!-- ") == 1
    assert f"<!-- {name.split('.')[-1]} -->\n## " in text
    assert "\n| --- | --- " in text
