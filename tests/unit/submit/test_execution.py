"""A step of a verification: the output of a command is logged and passed on."""

import sys
from pathlib import Path

import pytest

from harness.submit.execution import run_step


def test_a_closed_terminal_does_not_end_the_command(tmp_path: Path) -> None:
    (scratch := tmp_path / "scratch").mkdir()

    def fail(_: str) -> None:
        raise BrokenPipeError

    script = "import time\nfor n in range(9):\n  print(n, flush=True)\n  time.sleep(0.01)\nopen('end', 'w').close()"
    with pytest.raises(BrokenPipeError):
        run_step(
            [sys.executable, "-c", script],
            scratch=scratch,
            readable=(),
            variables={},
            seconds=60,
            network=False,
            log=tmp_path / "log",
            on_line=fail,
        )
    assert (scratch / "end").exists()
    assert (tmp_path / "log").read_text() == "".join(f"{number}\n" for number in range(9))
