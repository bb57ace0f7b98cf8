"""The answer of a command that runs in a process of its own."""

import sys

import pytest

from harness.runs import launch


def test_a_long_answer_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import json; print(json.dumps({'text': 'x' * (3 << 20)}))"
    monkeypatch.setattr(launch, "PROGRAM", (sys.executable, "-c", program))
    answer = launch.run_subcommand(["show"], on_progress=lambda line: None)
    assert answer is not None and len(answer["text"]) == 3 << 20
