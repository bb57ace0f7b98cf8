"""Screenshots of the screen, as SVG and as PNG."""

import subprocess
import sys
import time
from pathlib import Path

from harness.core import paths
from harness.core.errors import HarnessError
from harness.core.files import write_export
from harness.core.text import shorten

_CONVERT_SECONDS = 60.0


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


def convert_to_png(svg: Path) -> Path:
    """Draw the PNG beside `svg` in a subprocess and return its path. Raises HarnessError if that fails."""
    png = svg.with_suffix(".png")
    command = [sys.executable, "-P", "-m", "harness.figures.screenshot", str(svg), str(png)]
    try:
        subprocess.run(
            command, env=paths.environment_with_package(), capture_output=True, timeout=_CONVERT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        stderr = error.stderr if isinstance(error, subprocess.CalledProcessError) else b""
        reason = stderr.decode(errors="replace").strip().rpartition("\n")[2] or str(error)
        raise HarnessError(f"{png}: cannot be drawn ({shorten(reason, 200)}).") from None
    return png
