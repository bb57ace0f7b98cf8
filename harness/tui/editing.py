"""A file in the user's editor, the screen stepping aside meanwhile."""

import os
import shlex
import subprocess
from pathlib import Path

from textual.app import App, SuspendNotSupported

from harness.core.errors import HarnessError


def edited(app: App[None], path: Path) -> None:
    """Open `path` in `$VISUAL`, `$EDITOR` or vi, and come back when it ends. Raises HarnessError when that fails."""
    wanted = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        command = shlex.split(wanted)
        with app.suspend():
            subprocess.run([*command, str(path)], check=False)
    except SuspendNotSupported:
        raise HarnessError("this terminal cannot be lent to an editor.") from None
    except (OSError, IndexError, ValueError) as error:
        raise HarnessError(f"{wanted.strip() or 'the editor'} does not start ({error}); set EDITOR.") from None
