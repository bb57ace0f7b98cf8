"""A replacement for `python -m harness` that runs until a test releases it."""

import sys
from pathlib import Path

import pytest

from harness.runs import subcommand

_SOURCE = """
import json, pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
if (folder / "completes").exists():
    signal.signal(signal.SIGINT, lambda *_: (folder / "interrupted").touch())
try:
    print("harness: hashing", file=sys.stderr, flush=True)
    with (folder / "commands").open("a") as file:
        print(*sys.argv[2:], file=file)
    (folder / "started").write_text(json.dumps(sys.argv[2:]))
    while not (folder / "release").exists():
        time.sleep(0.02)
    (folder / "finished").touch()
    print(json.dumps({"id": "abcd-stub"}))
except KeyboardInterrupt:
    (folder / "interrupted").touch()
    sys.exit(130)
"""


class StubCommand:
    """A command that writes files: `started` with its arguments, then `interrupted` or `finished`, which are empty."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        folder.mkdir()
        script = folder / "stub.py"
        script.write_text(_SOURCE)
        monkeypatch.setattr(subcommand, "PROGRAM", (sys.executable, str(script), str(folder)))

    def complete_after_interrupt(self) -> None:
        """Let the command ignore an interrupt, as one does that has begun to start a run."""
        (self.folder / "completes").touch()

    def release(self) -> None:
        """Let the command finish."""
        (self.folder / "release").touch()

    @property
    def commands(self) -> list[str]:
        """The arguments of each command that was started."""
        return (self.folder / "commands").read_text().splitlines()

    def has(self, name: str) -> bool:
        """Return whether the command wrote the file `name`."""
        return (self.folder / name).exists()
