"""The pictures of the documentation and their files."""

import re

from rich.style import Style

from tests.bench.real_target import PICTURE
from tests.functional.machine import ROOT
from tests.pictures import PICTURES
from tests.pictures.film import Frame, to_svg
from tests.pictures.pages import PAGES
from tests.pictures.recording import RECORDING
from tests.pictures.screens import SCREENS, file_name, variants

BYTES = 5_000_000


def linked_pictures() -> set[str]:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    texts = [page.read_text(encoding="utf-8") for page in pages]
    return {name for text in texts for name in re.findall(r"pictures/([\w.-]+)[)\"]", text)}


def test_the_pages_show_every_picture_and_no_other() -> None:
    screens = {file_name(name, size, theme) for name in SCREENS for size, theme in variants(name)}
    drawn = screens | {f"{name}.png" for name in PAGES} | {f"{RECORDING}.svg", PICTURE.name}
    assert linked_pictures() == drawn == {file.name for file in PICTURES.iterdir()}


def test_pictures_are_small_and_load_nothing() -> None:
    files = list(PICTURES.iterdir())
    assert sum(file.stat().st_size for file in files) < BYTES
    assert all(file.stat().st_size < 150_000 for file in files if file.suffix == ".png")
    for file in PICTURES.glob("*.svg"):
        assert not re.search(r"<script|@import|url\(\"?http", file.read_text(encoding="utf-8")), file


def test_the_recording_begins_with_its_last_frame() -> None:
    film = to_svg([Frame(0, ()), Frame(2, ((("a", Style()),),))], columns=10, title="a", last_pause=6)
    assert ".film{transform:translateX(-84px);animation:film 8.00s" in film
    assert "@keyframes film{0.00%{transform:translateX(-84px)}75.00%{transform:translateX(0px)}}" in film
    recording = (PICTURES / f"{RECORDING}.svg").read_text(encoding="utf-8")
    still = re.findall(r"\.film\{(transform:translateX\(-\d+px\));", recording)
    assert len(still) == 1 and f"@keyframes film{{0.00%{{{still[0]}}}" in recording
