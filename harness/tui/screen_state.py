"""The state that the screen keeps from one start to the next: the chosen round."""

import contextlib
import json
from pathlib import Path

from harness.core import paths
from harness.core.files import write_atomically

_MAX_BYTES = 1 << 16


def load_round_choice() -> str | None:
    """Return the round that was chosen last, None for all rounds."""
    try:
        with _file().open("rb") as file:
            choice = json.loads(file.read(_MAX_BYTES))["round"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return choice if isinstance(choice, str) else None


def save_round_choice(choice: str | None) -> None:
    """Save the choice; do nothing if the file cannot be written."""
    with contextlib.suppress(OSError):
        _file().parent.mkdir(parents=True, exist_ok=True)
        write_atomically(_file(), json.dumps({"round": choice}) + "\n")


def _file() -> Path:
    return paths.state_home() / "screen.json"
