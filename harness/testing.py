"""The checks that the tests of an attack call: `check_attack` checks that it keeps the rules of attacks."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.notebook.runs import Run
from harness.notebook.starting import run
from harness.plugins.discovery import AttackFile, attack_named
from harness.plugins.parameters import parameters_in
from harness.plugins.schema import fetch_schema
from harness.runs.facts import nondeterminism_reasons
from harness.runs.folder import RunFolder
from harness.runs.status import Status


def check_attack(
    attack: str,
    *,
    home: Path,
    round: str | Path = "demo",
    target: str | Path | None = None,
    params: Mapping[str, Any] | None = None,
    examples: int = 16,
    attacks: str | Path | None = None,
) -> Run:
    """Run an attack twice on the first examples of a round, and return the first run for further checks.

    The attack has to be found without an error, have a docstring and a description of each parameter, run to its end
    within the budget, guess something, and give the same submission both times, unless it reads the clock.

    attack: Name of the attack.
    home: Directory of the runs, such as pytest's `tmp_path`.
    round: Name or TOML file of the round.
    target: Hub id or directory of the target. The default is the round's.
    params: Parameters by name. The others have their defaults.
    examples: Number of examples.
    attacks: Directory of the attack, if it is neither installed nor in ./attacks.

    Raises AssertionError, which says what is wrong, if the attack breaks a rule, and HarnessError if it cannot be found
    or a run crashed.
    """
    found = attack_named(attack, None if attacks is None else Path(attacks))
    _check_description(found)
    with _home(home):
        first, second = (
            run(
                attack,
                round=round,
                target=target,
                params=params,
                limit=examples,
                attacks=attacks,
                progress=False,
            )
            for _ in range(2)
        )
        for one in (first, second):
            _require(one.status is Status.FINISHED, f"{attack}: its run is {one.status.words}, not finished.")
        _require(first.summary.guesses > 0, f"{attack}: guessed nothing for {examples} examples.")
        is_equal = (
            RunFolder(first.directory).submission.read_bytes() == RunFolder(second.directory).submission.read_bytes()
        )
        _require(
            is_equal or bool(nondeterminism_reasons(RunFolder(second.directory))),
            f"{attack}: two runs with the same seed gave different submissions. Draw with the seed of the batch.",
        )
    return first


def _check_description(attack: AttackFile) -> None:
    """Check what `harness attacks show` prints."""
    _require(bool(attack.summary), f"{attack.path}: has no docstring. Say in one line what the attack does.")
    parameters = parameters_in(fetch_schema(attack.path, digest=attack.sha256).schema)
    undescribed = ", ".join(parameter.name for parameter in parameters if not parameter.description)
    _require(not undescribed, f"{attack.path}: parameters without a description: {undescribed}.")


def _require(is_kept: bool, sentence: str) -> None:
    if not is_kept:
        raise AssertionError(sentence)


@contextmanager
def _home(path: Path) -> Iterator[None]:
    """Keep runs and locks in `path` inside the block."""
    before = os.environ.get("HARNESS_HOME")
    os.environ["HARNESS_HOME"] = str(path.absolute())
    try:
        yield
    finally:
        if before is None:
            del os.environ["HARNESS_HOME"]
        else:
            os.environ["HARNESS_HOME"] = before
