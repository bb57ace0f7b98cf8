"""The page of the docs with the pictures of the screen."""

import re
from itertools import product

from tests.functional.machine import ROOT
from tests.pictures import PICTURES, SCREENS, SIZES, THEMES


def test_the_docs_show_every_screen_in_every_size_and_theme() -> None:
    linked = set(re.findall(r"\]\(\.\./\.pictures/([\w-]+\.svg)\)", (ROOT / "docs" / "screen.md").read_text()))
    drawn = {f"{name}-{size[0]}-{theme}.svg" for name, size, theme in product(SCREENS, SIZES, THEMES)}
    assert linked == drawn == {file.name for file in PICTURES.glob("*.svg")}
