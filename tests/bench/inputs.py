"""The inputs of the benchmarks, and the harness commands that some of them time."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harness.core.arrays import Tokens
from harness.core.errors import HarnessError
from harness.core.examples import load_answers, load_prefixes
from harness.core.hardware import usable_cores
from harness.core.rounds import Round, load_round
from harness.engine.loading import load_target
from harness.engine.resolving import resolve_target
from harness.engine.target import Target
from harness.runs.folder import RunFolder
from tests.functional.machine import ROOT, homes
from tests.tools.data import DATA, SATML, what_is_missing

SURROGATE = ROOT / ".surrogate"
"""A stand-in for GPT-Neo 1.3B that has read rows of the challenge: `python -m tests.tools.surrogate` trains it."""
SURROGATE_ROUND = ROOT / "tests" / "rounds" / "surrogate.toml"


class Inputs(NamedTuple):
    """A round with its examples, [examples, 50] each, and the directory of the target that is measured."""

    round: Round
    path: Path
    prefixes: Tokens
    answers: Tokens

    def target(self, **options: Any) -> Target:
        """Load the target for the lengths of the round, with a thread for each core unless `options` say otherwise."""
        defaults = {"threads": usable_cores(), "suffix_length": self.round.suffix_length}
        return load_target(self.path, **(defaults | options))

    def spread(self, examples: int) -> "Inputs":
        """Return some examples, spread over the round."""
        chosen = np.linspace(0, len(self.prefixes) - 1, examples).round().astype(int)
        return self._replace(prefixes=self.prefixes[chosen], answers=self.answers[chosen])


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


def surrogate_or_demo() -> Inputs:
    """Return the round and the target that BENCH_TARGET names: `surrogate`, the default, or `demo`.

    Raises HarnessError if the surrogate is missing, because figures of another target are not comparable.
    """
    if (name := target_name()) not in ("surrogate", "demo"):
        raise HarnessError(f"BENCH_TARGET={name}: unknown target. Use surrogate or demo.")
    round_, target = "demo", "demo"
    if name == "surrogate":
        try:
            require_surrogate()
        except HarnessError as error:
            raise HarnessError(f"{error} BENCH_TARGET=demo measures the target of the demo instead.") from None
        round_, target = str(SURROGATE_ROUND), str(SURROGATE)
    loaded = load_round(round_)
    answers = load_answers(loaded)
    assert answers is not None
    return Inputs(loaded, resolve_target(target).path, load_prefixes(loaded), answers)


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


def run_attack(folder: Path, *arguments: str) -> tuple[RunFolder, dict[str, Any]]:
    """Run `harness run ARGUMENTS` to its end, and return the run and its summary."""
    summary = json.loads(run_harness(folder, "run", *arguments, "--json").splitlines()[-1])
    return RunFolder(Path(summary["directory"])), summary


def write_bench_round(folder: Path, prefixes: Tokens, **fields: object) -> Path:
    """Write a round with `prefixes` to `folder`, and return its file. fields: further lines of it."""
    np.save(folder / "prefix.npy", prefixes)
    lines = {"name": "bench", "title": "A round for benchmarks", "prefix_file": "prefix.npy", "clusters": "none"}
    path = folder / "round.toml"
    path.write_text(
        "".join(f"{name} = {json.dumps(value)}\n" for name, value in (lines | {"budget": "1h"} | fields).items())
    )
    return path
