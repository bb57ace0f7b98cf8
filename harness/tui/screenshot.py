"""The screen as it stands, in a file."""

import subprocess
import sys
import time
from pathlib import Path

from harness.core import paths
from harness.core.errors import HarnessError
from harness.core.files import write_export
from harness.core.text import shorten

_DRAWING_SECONDS = 60.0


def saved_svg(svg: str) -> Path:
    """Where `svg` was written, among the harness's own files. Raises HarnessError when that fails."""
    folder = paths.state_home() / "screenshots"
    file = folder / time.strftime("harness-%Y%m%d-%H%M%S.svg")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_export(file, svg)
    except OSError as error:
        raise HarnessError(f"{file}: cannot be written ({error.strerror}).") from None
    return file


def drawn_png(svg: Path) -> Path:
    """The PNG that a process of its own has drawn beside `svg`. Raises HarnessError when that fails."""
    png = svg.with_suffix(".png")
    command = [sys.executable, "-P", "-m", "harness.figures.screenshot", str(svg), str(png)]
    try:
        subprocess.run(
            command, env=paths.environment_with_package(), capture_output=True, timeout=_DRAWING_SECONDS, check=True
        )
    except subprocess.CalledProcessError as error:
        last = error.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise HarnessError(f"{png}: cannot be drawn ({shorten(last, 200)}).") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HarnessError(f"{png}: cannot be drawn ({shorten(str(error), 200)}).") from None
    return png
