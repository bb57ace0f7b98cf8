"""The user's editor, which gets the whole terminal."""

import os
import shlex
import subprocess
from pathlib import Path

from textual.app import App, SuspendNotSupported

from harness.core.errors import HarnessError


def open_in_editor(app: App[None], path: Path) -> None:
    """Open `path` in `$VISUAL`, `$EDITOR` or vi, and return when the editor exits.

    Raises HarnessError if the editor does not start.
    """
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        command = shlex.split(editor)
        with app.suspend():
            subprocess.run([*command, str(path)], check=False)
    except SuspendNotSupported:
        raise HarnessError(f"this terminal cannot start an editor. Edit {path} in another one.") from None
    except (OSError, IndexError, ValueError) as error:
        raise HarnessError(
            f"the editor {editor.strip() or repr(editor)} does not start ({error}). Set EDITOR."
        ) from None
