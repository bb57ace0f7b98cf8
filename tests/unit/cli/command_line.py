"""The command line, run in the test's own process."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from harness.cli.app import main
from tests.reference.printed import require_section


@dataclass(frozen=True)
class Done:
    """The output of a command and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Return the object that the command printed as its only line."""
        (line,) = self.out.splitlines()
        value: dict[str, Any] = json.loads(line)
        require_section(value)
        return value


@dataclass(frozen=True)
class CommandLine:
    """Runs `harness` with arguments."""

    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> Done:
        self.monkeypatch.setattr("sys.argv", ["harness", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = self.capsys.readouterr()
        return Done(int(ended.value.code or 0), printed.out, printed.err)
