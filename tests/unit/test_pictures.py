"""The gallery and the files of its pictures."""

import re

from rich.style import Style

from tests.bench.real_target import PICTURE
from tests.functional.machine import ROOT
from tests.pictures import PICTURES
from tests.pictures.film import Frame, to_svg
from tests.pictures.pages import PAGES
from tests.pictures.recording import RECORDING
from tests.pictures.screens import SCREENS, file_name, variants

GALLERY = ROOT / "docs" / "gallery.md"
BYTES = 5_000_000


def test_the_gallery_shows_every_picture_and_no_other() -> None:
    linked = set(re.findall(r"\]\(pictures/([\w.-]+)\)", GALLERY.read_text(encoding="utf-8")))
    screens = {file_name(name, size, theme) for name in SCREENS for size, theme in variants(name)}
    drawn = screens | {f"{name}.png" for name in PAGES} | {f"{RECORDING}.svg", PICTURE.name}
    assert linked == drawn == {file.name for file in PICTURES.iterdir()}


def test_every_picture_on_a_page_exists() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    names = {name for page in pages for name in re.findall(r"pictures/([\w.-]+)\)", page.read_text(encoding="utf-8"))}
    assert names <= {file.name for file in PICTURES.iterdir()}


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
