"""Convert the SVG of a screen to PNG, with the fonts that come with Matplotlib.

    python -m harness.figures.screenshot SCREEN.svg SCREEN.png

The screen starts this in a separate process, because it must not import figures.
"""

import sys
from pathlib import Path

import matplotlib
import resvg_py

from harness.core.files import write_export

_FONT = "DejaVu Sans Mono"


def write_png(svg: Path, png: Path) -> None:
    """Convert `svg` to `png`, which is written atomically. Raises OSError if a file cannot be read or written."""
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    drawn = resvg_py.svg_to_bytes(
        svg_string=svg.read_text(encoding="utf-8"),
        font_dirs=[str(fonts)],
        monospace_family=_FONT,
        skip_system_fonts=True,
    )
    write_export(png, bytes(drawn))


if __name__ == "__main__":
    write_png(Path(sys.argv[1]), Path(sys.argv[2]))
