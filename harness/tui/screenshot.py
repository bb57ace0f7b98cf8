"""Screenshots of the screen, as SVG."""

import time
from pathlib import Path

from harness.core import paths
from harness.core.errors import HarnessError
from harness.core.files import write_export


def save_svg(svg: str) -> Path:
    """Write `svg` to the screenshots directory and return the file. Raises HarnessError if that fails."""
    # Some viewers drop spaces at the beginning of a text otherwise.
    svg = svg.replace("<svg ", '<svg xml:space="preserve" ', 1)
    folder = paths.state_home() / "screenshots"
    file = folder / time.strftime("harness-%Y%m%d-%H%M%S.svg")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_export(file, svg)
    except OSError as error:
        raise HarnessError(f"{file}: cannot be written ({error.strerror}).") from None
    return file
