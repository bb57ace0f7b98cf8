"""The characters that can be drawn on every machine: those of DejaVu Sans Mono, which comes with Matplotlib."""

import functools
from pathlib import Path

import matplotlib
from matplotlib.ft2font import FT2Font

_FILE = Path("fonts") / "ttf" / "DejaVuSansMono.ttf"


@functools.cache
def drawable_characters() -> frozenset[int]:
    """Return the code points for which the font has a glyph."""
    return frozenset(FT2Font(str(Path(matplotlib.get_data_path()) / _FILE)).get_charmap())
