"""Run every audit on the demo and keep its findings, or compare the values of two such folders.

    python -m tests.tools.audit_values record before
    git switch new && python -m tests.tools.audit_values record after
    python -m tests.tools.audit_values compare before after

A change of the audits that is not meant to change a value leaves all values equal. Each version runs its own audits, so
the records of one need not be readable by the other.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tests.functional.machine import Machine
from tests.functional.test_audits import AUDITS, TINY

ON_ROUND = ("--round", "demo", "--threads", "1", "--limit", "64")
MORE = {
    "round-leakage": ("audit", "leakage", *ON_ROUND, "--target", "demo-tiny", "--suffix-tokens", "8"),
    "round-compare": ("audit", "compare", *ON_ROUND, "--target", "demo-tiny", "--target", "demo"),
    "round-sequence": ("audit", "sequence", "--round", "demo", "--limit", "40", *TINY),
}
"""Audits of the demo round by name, beside those of `tests/functional/test_audits.py`."""
FACTS = ("conclusion", "is_complete", "sequences", "clusters", "windows", "members", "non_members", "word_shift")
"""Other parts of the findings that are compared."""


def record(folder: Path) -> None:
    """Run every audit in its own directory of `folder`, and write NAME.json with its findings there."""
    for name in (*AUDITS, *MORE, "stored-compare"):
        directory = folder / name
        directory.mkdir(parents=True)
        machine = Machine(directory.resolve())
        if name == "stored-compare":
            targets = ("demo-tiny", "demo-small")
            runs = [
                _findings(machine, "audit", "leakage", *ON_ROUND, "--near", "0", "--target", name)[0]
                for name in targets
            ]
            arguments: tuple[str, ...] = ("audit", "compare", "--run", runs[0], "--run", runs[1])
        else:
            arguments = MORE[name] if name in MORE else AUDITS[name](machine.folder)
        _, findings = _findings(machine, *arguments)
        (folder / f"{name}.json").write_text(json.dumps(findings, indent=1) + "\n")
        print(f"{name}: {len(findings['measures']):,} values", flush=True)


def compare(before: Path, after: Path) -> int:
    """Print every value, figure and word of an answer that differs. Return 1 if some does, else 0."""
    faults = 0
    for path in sorted(before.glob("*.json")):
        first, second = (json.loads((folder / path.name).read_text()) for folder in (before, after))
        values = [{_key(row): row for row in findings["measures"]} for findings in (first, second)]
        for key in values[0].keys() | values[1].keys():
            if values[0].get(key) != values[1].get(key):
                faults += 1
                print(f"{path.stem}: {key}: {values[0].get(key)} != {values[1].get(key)}")
        for name in FACTS:
            if first.get(name) != second.get(name):
                faults += 1
                print(f"{path.stem}: {name}: {first.get(name)} != {second.get(name)}")
        print(f"{path.stem}: {len(values[0]):,} values compared")
    return int(faults > 0)


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("measure", "model", "side", "case", "at"))


def _findings(machine: Machine, *arguments: str) -> tuple[str, dict[str, Any]]:
    """Run an audit to its end. Return its id and its findings."""
    machine.run(*arguments)
    id_ = max(machine.folders(), key=lambda run: run.path.stat().st_mtime).id
    return id_, machine.json("show", id_)["findings"]


if __name__ == "__main__":
    command, *folders = sys.argv[1:]
    if command == "record":
        record(Path(folders[0]))
    else:
        sys.exit(compare(Path(folders[0]), Path(folders[1])))
