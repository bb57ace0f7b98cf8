"""`make results`: run the attacks on the demo and on the surrogate, 120 seconds each, and print a table of each.

The runs are kept in .results/, so an interrupted `make results` continues where it was. An attack is run again only if
its source, its settings or the target have changed. `--write` writes the tables to docs/explanation/results.md.
`python -m tests.tools.surrogate` trains the surrogate.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.core.scoring import Score
from harness.plugins.discovery import AttackFile, find_attacks
from harness.runs.folder import RunFolder
from harness.runs.summary import RunSummary, run_summary
from harness.submit.run_facts import run_facts
from tests.bench.inputs import SURROGATE_ROUND, require_surrogate
from tests.bench.measuring import exit_on_error, markdown_table, replace_part
from tests.functional.machine import ROOT

ROUNDS = {"demo": "demo", "surrogate": str(SURROGATE_ROUND)}
HOME = ROOT / ".results"
BUDGET = "120s"

SETTINGS: dict[str, dict[str, list[str]]] = {
    # Settings by round that fit into 120 seconds on two cores. All others are the defaults of the attack.
    "baseline": {"*": ["trials=10"]},
    "sampling": {"*": ["trials=10"]},
    "soft_prompt": {"*": ["epochs=3", "examples=500", "batch=25"]},
    "ethicist": {"*": ["tokens=20", "epochs=3", "examples=400", "batch=20", "warmup=10", "trials=10"]},
    "two_step": {"demo": [], "*": ["width=3", "examples=600"]},
    "multi_prefix": {"*": ["width=1"]},
    "enumerate": {"demo": [], "*": ["width=4"]},
    "contrastive": {"*": ["top_k=4"]},
}
LEFT_OUT = ("replay",)
"""Attacks that are not run: `replay` submits guesses that were generated elsewhere."""
ONLY_ON_DEMO = ("soft_prompt", "ethicist")
"""Attacks whose training takes longer than the budget on a surrogate, so only their guesses without it would count."""


@dataclass(frozen=True)
class Result:
    """The result of one attack on one round.

    not_in_train: the score on the examples whose answers the training rows do not contain; None if these are all
    examples, or none.
    """

    attack: AttackFile
    round: str
    settings: list[str]
    summary: RunSummary
    not_in_train: Score | None


def results(rounds: dict[str, str]) -> Iterator[Result]:
    """Yield the result of every attack on each round, from an earlier run if there is one.

    rounds: {name: name or file}.
    """
    built_in = [attack for attack in find_attacks() if attack.origin == "built-in" and attack.name not in LEFT_OUT]
    for name, where in rounds.items():
        attacks = [attack for attack in built_in if name == "demo" or attack.name not in ONLY_ON_DEMO]
        for number, attack in enumerate(attacks, 1):
            chosen = SETTINGS.get(attack.name, {})
            settings = chosen.get(name, chosen.get("*", []))
            folder = _earlier_run(attack, name, where, settings)
            if folder is None:
                print(f"{name}, {number} of {len(attacks)}: {attack.name} {' '.join(settings)} …", file=sys.stderr)
                folder = _run(attack, where, settings)
            facts = run_facts(folder)
            yield Result(attack, name, settings, facts.summary, facts.not_in_train_score)


def table(found: list[Result]) -> str:
    """Return the results on one round as a Markdown table, sorted by recall, with controls last.

    The column "not in train" is left out if no attack has a value.
    """
    rows = []
    for result in sorted(found, key=lambda one: (one.attack.control, -(one.summary.recall_at_cap or 0))):
        summary = result.summary
        recall = _share(summary.recall_at_cap)
        if summary.recall_interval is not None:
            recall += f" [{summary.recall_interval[0]:.3f}, {summary.recall_interval[1]:.3f}]"
        ended = "" if str(summary.status) == "finished" else f" ({summary.status.words})"
        control = " (control)" if result.attack.control else ""
        rows.append(
            {
                "attack": " ".join([f"`{result.attack.name}`{control}", *result.settings]),
                "Recall@100": recall,
                "not in train": _share(None if result.not_in_train is None else result.not_in_train.recall_at_cap),
                "exact@1": _share(summary.exact_at_1),
                "any guess correct": _share(summary.any_guess_correct),
                "seconds": f"{summary.elapsed_s:.0f}{ended}",
            }
        )
    columns = [name for name in rows[0] if name != "not in train" or any(result.not_in_train for result in found)]
    return markdown_table(columns, [[row[name] for name in columns] for row in rows])


def _earlier_run(attack: AttackFile, round_name: str, where: str, settings: list[str]) -> RunFolder | None:
    """Return a completed run with the same source, parameters and target, or None."""
    wanted = json.loads(_harness(*_arguments(attack, where, settings), "--dry-run", "--json"))
    target = (wanted["spec"]["target"] or {}).get("weights_sha256")
    for path in sorted((HOME / "runs").glob("*-*")):
        folder = RunFolder(path)
        if not folder.spec_file.is_file():
            continue
        spec, summary = folder.attack_spec(), run_summary(folder)
        is_same = (spec.attack.sha256, spec.round.name, spec.params) == (attack.sha256, round_name, wanted["params"])
        has_target = target == (None if spec.target is None else spec.target.weights_sha256)
        if is_same and has_target and str(summary.status) in ("finished", "out_of_time"):
            return folder
    return None


def _run(attack: AttackFile, where: str, settings: list[str]) -> RunFolder:
    printed = _harness(*_arguments(attack, where, settings), "--json")
    return RunFolder(Path(json.loads(printed.splitlines()[-1])["directory"]))


def _arguments(attack: AttackFile, where: str, settings: list[str]) -> list[str]:
    set_ = [word for setting in settings for word in ("--set", setting)]
    return ["run", attack.name, "--round", where, "--budget", BUDGET, *set_]


def _harness(*arguments: str) -> str:
    """Run a command and return its standard output. Exits with the error of the command if there is no output."""
    environment = {**os.environ, "HARNESS_HOME": str(HOME)}
    command = [sys.executable, "-m", "harness", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if not done.stdout.strip():
        sys.exit(f"harness {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def main() -> None:
    """Run the attacks without an earlier run, and print a table for each round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the tables to docs/explanation/results.md")
    parser.add_argument("--only", choices=list(ROUNDS), help="run the attacks on one round only")
    chosen = parser.parse_args()
    rounds = {name: where for name, where in ROUNDS.items() if chosen.only in (None, name)}
    if chosen.write and len(rounds) < len(ROUNDS):
        sys.exit("--write needs the results of all rounds. Leave out --only.")
    if "surrogate" in rounds:
        with exit_on_error():
            require_surrogate()
    found = list(results(rounds))
    for name in rounds:
        text = table([result for result in found if result.round == name])
        print(f"{name}\n\n{text}\n")
        if chosen.write:
            replace_part(f"results on {name}", text)


if __name__ == "__main__":
    main()
