"""The inputs of the benchmarks, and the harness commands that some of them time."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.core.errors import HarnessError
from harness.core.rounds import Round, load_round
from harness.engine.resolving import resolve_target
from tests.functional.machine import ROOT, homes
from tests.tools.data import DATA, SATML, what_is_missing

SURROGATE = ROOT / ".surrogate"
"""A stand-in for GPT-Neo 1.3B that has read rows of the challenge: `python -m tests.tools.surrogate` trains it."""
SURROGATE_ROUND = ROOT / "tests" / "rounds" / "surrogate.toml"


def is_surrogate() -> bool:
    """Return True if the surrogate is measured."""
    return target_name() == "surrogate"


def target_name() -> str:
    """Return which target is measured, `surrogate` or `demo`, as BENCH_TARGET says."""
    return os.environ.get("BENCH_TARGET", "surrogate")


def require_surrogate() -> None:
    """Raise HarnessError if the surrogate or the rows that it has read are not on this machine."""
    if missing := what_is_missing(SATML):
        raise HarnessError(missing)
    if not SURROGATE.is_dir():
        raise HarnessError(f"{SURROGATE}: no such directory. `python -m tests.tools.surrogate` trains the surrogate.")
    # The round reads the files of the challenge from there, unless the user has them elsewhere.
    os.environ.setdefault("HARNESS_DATA", str(DATA))


def surrogate_or_demo() -> tuple[Round, Path]:
    """Return the round and the directory of the target that BENCH_TARGET names: `surrogate`, the default, or `demo`.

    Raises HarnessError if the surrogate is missing, because figures of another target are not comparable.
    """
    if (name := target_name()) not in ("surrogate", "demo"):
        raise HarnessError(f"BENCH_TARGET={name}: unknown target. Use surrogate or demo.")
    if name == "demo":
        return load_round("demo"), resolve_target("demo").path
    try:
        require_surrogate()
    except HarnessError as error:
        raise HarnessError(f"{error} BENCH_TARGET=demo measures the target of the demo instead.") from None
    return load_round(str(SURROGATE_ROUND)), resolve_target(str(SURROGATE)).path


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Exit with the text of a HarnessError, without a traceback."""
    try:
        yield
    except HarnessError as error:
        sys.exit(str(error))


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
