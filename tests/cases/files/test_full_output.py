"""Output that cannot be written is an error in one sentence; a reader that has gone is none."""

import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = (["list", "attacks"], ["list", "rounds", "--json"], ["--help"])


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_full_disk_behind_stdout_is_one_sentence(command: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "harness", *command], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    sentence = "output cannot be written (No space left on device). Free some space, or write to another disk."
    assert (done.returncode, done.stderr) == (1, f"harness: {sentence}\n")


def test_a_reader_that_has_gone_is_no_error() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", "list", "attacks"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == "" and process.wait() == 0
    process.stderr.close()
