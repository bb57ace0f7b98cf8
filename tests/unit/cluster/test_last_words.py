"""A process that Ray ends at once still says so."""

import subprocess
import sys

import pytest

_PROGRAM = """
import os, signal
from harness.cluster.executor import last_words
with last_words("ended; $HOME"):
    {}
"""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("os._exit(1)", "ended; $HOME\n"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "ended; $HOME\n"),
        ("pass", ""),
        ("raise SystemExit(1)", ""),
    ],
)
def test_only_a_process_that_leaves_no_block_says_its_last_words(code: str, said: str) -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM.format(code)], capture_output=True, text=True, check=False)
    assert done.stderr == said
