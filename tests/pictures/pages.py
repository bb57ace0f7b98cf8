"""Pictures of the pages that the harness writes: the top of each HTML page, and the first page of a PDF."""

import io
import subprocess
from pathlib import Path

from PIL import Image

from tests.pictures import PICTURES
from tests.tools.browser import open_browser

PAGES = {
    "report-run": "baseline.html",
    "report-runs": "runs.html",
    "report-sweep": "sweep.html",
    "audit-sequence": "sequence/index.html",
    "audit-leakage": "leakage/index.html",
    "audit-entities": "entities/index.html",
    "audit-book": "book/index.html",
    "audit-compare": "compare/index.html",
    "audit-membership": "membership/index.html",
    "leaderboard-page": "leaderboard.html",
    "verdict": "submissions/*.verdict.html",
    "description": "description.pdf",
}
"""Each picture, and the file of the records that it shows."""

_WIDTH = 1100
_HEIGHT = 1600
_COLOURS = 96


def draw_page(name: str, folder: Path) -> None:
    """Draw the picture `name` from the records in `folder`."""
    (source,) = folder.glob(PAGES[name])
    png = _first_page(source) if source.suffix == ".pdf" else _rendered(source)
    file = PICTURES / f"{name}.png"
    with Image.open(io.BytesIO(png)) as image:
        top = image.convert("RGB").crop((0, 0, _WIDTH, min(image.height, _HEIGHT)))
        # A palette makes the file a third as large, and the eye sees no difference on text and curves.
        top.quantize(_COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)
    print(file)


def _rendered(page: Path) -> bytes:
    with open_browser() as browser:
        return browser.look(page, width=_WIDTH, takes_picture=True).png


def _first_page(document: Path) -> bytes:
    scale = ["-scale-to-x", str(_WIDTH), "-scale-to-y", "-1"]
    command = ["pdftoppm", "-png", "-singlefile", *scale, str(document)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
