"""The pictures that pages show."""

import re

from tests.functional.machine import ROOT

PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]


def test_every_picture_on_a_page_exists() -> None:
    shown = {
        name for page in PAGES for name in re.findall(r"/\.pictures/([\w.-]+)\)", page.read_text(encoding="utf-8"))
    }
    drawn = {file.name for file in (ROOT / ".pictures").iterdir()}
    assert shown
    assert shown <= drawn
