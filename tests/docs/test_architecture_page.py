"""docs/architecture.md and its figure show the rooms as the imports have them."""

import importlib.util
import re
from pathlib import Path

from PIL import Image

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "architecture.md").read_text(encoding="utf-8")


def counted():
    spec = importlib.util.spec_from_file_location("draw_rooms", DOCS / "draw_rooms.py")
    draw_rooms = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw_rooms)
    return draw_rooms.counts(DOCS.parent)


def test_the_page_and_the_figure_count_the_rooms_that_are_there():
    words, files, arrows, wrong = counted()
    assert not wrong
    assert len(files) > 10
    assert len(arrows) > 10
    assert words in " ".join(PAGE.split())
    drawn = Image.open(DOCS / "figures" / "rooms.png").text["Description"]
    assert drawn == words, "draw it anew: python docs/draw_rooms.py"


def test_the_files_that_the_page_names_exist():
    named = re.findall(r"`((?:numpyro_contour|tests)/[\w/]+\.py)`", PAGE)
    assert len(named) > 10
    for name in named:
        assert (DOCS.parent / name).is_file(), name
