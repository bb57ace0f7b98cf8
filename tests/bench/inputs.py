"""The inputs of the benchmarks, and the harness commands that some of them time."""

import os
import subprocess
import sys
from pathlib import Path

from harness.core.rounds import Round, load_round
from harness.engine.resolving import resolve_target
from tests.data import DATA, SURROGATE
from tests.functional.machine import ROOT, homes

SURROGATE_ROUND = ROOT / "tests" / "rounds" / "surrogate-dev.toml"
OFFSETS = ROOT / ".surrogates" / "offsets"
"""A surrogate that has read its rows at random offsets: `python -m tests.surrogate offsets` trains it."""
OFFSETS_ROUND = ROOT / "tests" / "rounds" / "surrogate-offsets.toml"


def surrogate_or_demo() -> tuple[Round, Path]:
    """Return the round and the directory of the surrogate target, or those of the demo if the surrogate is missing."""
    if SURROGATE.is_dir():
        # The round's files lie beside the surrogate, unless the user has them elsewhere.
        os.environ.setdefault("HARNESS_DATA", str(DATA))
    name, target = (str(SURROGATE_ROUND), str(SURROGATE)) if SURROGATE.is_dir() else ("demo", "demo")
    return load_round(name), resolve_target(target).path


def environment_in(folder: Path) -> dict[str, str]:
    """Return this process's environment with all directories of the harness inside `folder`."""
    return {**os.environ, **homes(folder), "HARNESS_CONFIG": str(folder / "config"), "PYTHONPATH": str(ROOT)}


def run_harness(folder: Path, *arguments: str, timeout: float = 600) -> str:
    """Run `harness ARGUMENTS` with its directories in `folder`, and return its standard output.

    Raises CalledProcessError if the command fails.
    """
    command = [sys.executable, "-m", "harness", *arguments]
    environment = environment_in(folder)
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=timeout)
    return done.stdout
