"""The commands of the tutorials run, one after the other, as a reader types them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.functional.machine import ROOT, Machine

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_the_commands_of_a_tutorial(machine: Machine, page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    environment = machine.env()
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    command = ["bash", "-euo", "pipefail", "-c", "\n".join(blocks)]
    done = subprocess.run(command, cwd=machine.folder, env=environment, capture_output=True, text=True, timeout=600)
    assert blocks and done.returncode == 0, done.stderr
    # What a page shows as output is what the commands print.
    for part in re.findall(r"(?:^    .*\n)+", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE):
        assert re.sub(r"^    ", "", part, flags=re.MULTILINE) in done.stdout, done.stdout
