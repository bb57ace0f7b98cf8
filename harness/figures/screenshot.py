"""A screen's SVG as a PNG, with fonts that every machine with Matplotlib has.

    python -m harness.figures.screenshot SCREEN.svg SCREEN.png

The screen starts this in a process of its own: it draws no figures itself.
"""

import sys
from pathlib import Path

import matplotlib
import resvg_py

from harness.core.files import write_atomically

_FONT = "DejaVu Sans Mono"


def write_png(svg: Path, png: Path) -> None:
    """Draw `svg` to `png`, whole or not at all. Raises OSError when a file cannot be read or written."""
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    drawn = resvg_py.svg_to_bytes(
        svg_string=svg.read_text(encoding="utf-8"),
        font_dirs=[str(fonts)],
        monospace_family=_FONT,
        skip_system_fonts=True,
    )
    write_atomically(png, bytes(drawn))


if __name__ == "__main__":
    write_png(Path(sys.argv[1]), Path(sys.argv[2]))
