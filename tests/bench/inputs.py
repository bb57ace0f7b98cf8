"""The inputs of the benchmarks, and the harness commands that some of them time."""

import os
import subprocess
import sys
from pathlib import Path

from harness.core.errors import HarnessError
from harness.core.rounds import Round, load_round
from harness.engine.resolving import resolve_target
from tests.data import DATA, SURROGATE, what_is_missing
from tests.functional.machine import ROOT, homes

SURROGATE_ROUND = ROOT / "tests" / "rounds" / "surrogate-dev.toml"
OFFSETS = ROOT / ".surrogates" / "offsets"
"""A surrogate that has read its rows at random offsets: `python -m tests.surrogate offsets` trains it."""
OFFSETS_ROUND = ROOT / "tests" / "rounds" / "surrogate-offsets.toml"


def is_surrogate() -> bool:
    """Return True if the surrogate is measured, for which figures are required."""
    return target_name() == "surrogate"


def target_name() -> str:
    """Return which target is measured, `surrogate` or `demo`, as BENCH_TARGET says."""
    return os.environ.get("BENCH_TARGET", "surrogate")


def surrogate_or_demo() -> tuple[Round, Path]:
    """Return the round and the directory of the target that BENCH_TARGET names: `surrogate`, the default, or `demo`.

    Raises HarnessError if the surrogate is missing, because figures of another target are not comparable.
    """
    name = target_name()
    if name == "demo":
        return load_round("demo"), resolve_target("demo").path
    if name != "surrogate" or (missing := what_is_missing(SURROGATE)):
        reason = f"BENCH_TARGET={name} is neither surrogate nor demo" if name != "surrogate" else missing
        raise HarnessError(f"{str(reason).rstrip('.')}. BENCH_TARGET=demo measures the demo's target instead.")
    # The round's files lie beside the surrogate, unless the user has them elsewhere.
    os.environ.setdefault("HARNESS_DATA", str(DATA))
    return load_round(str(SURROGATE_ROUND)), resolve_target(str(SURROGATE)).path


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
