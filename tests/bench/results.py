"""`make results`: every attack on the demo and on surrogate-dev, 120 seconds each, as the README's table.

Runs live in .results/, so that an interrupted `make results` goes on where it was; an attack whose source or settings
have changed is run again. `--write` puts the table into README.md.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.jobs.attack.results import every_guess
from harness.jobs.attack.spec import AttackSpec
from harness.plugins.discovery import AttackFile, find_attacks
from harness.runs.folder import RunFolder
from harness.runs.summary import RunSummary, run_summary

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".results"
SURROGATE = ROOT / "tests" / "rounds" / "surrogate-dev.toml"
BUDGET = "120s"
BEGIN, END = "<!-- results -->", "<!-- /results -->"

SETTINGS: dict[str, dict[str, list[str]]] = {
    # What 120 seconds on two cores have room for; everything else is an attack's default.
    "baseline": {"*": ["trials=10"]},
    "sampling": {"*": ["trials=10"]},
    "soft_prompt": {"*": ["epochs=3", "examples=500", "batch=25"]},
    "ethicist": {"*": ["tokens=20", "epochs=3", "examples=400", "batch=20", "warmup=10", "trials=10"]},
    "two_step": {"surrogate-dev": ["width=3", "examples=600"]},
    "multi_prefix": {"*": ["width=1"]},
    "enumerate": {"surrogate-dev": ["width=4"]},
    "contrastive": {"*": ["top_k=4"]},
}
LEFT_OUT = ("replay",)
"""It submits what was generated elsewhere."""


@dataclass(frozen=True)
class Result:
    """One attack on one round: its run, what it reached, and how many distinct suffixes it submitted or ranked."""

    attack: AttackFile
    round: str
    settings: list[str]
    summary: RunSummary
    spec: AttackSpec
    distinct: int


def results(rounds: dict[str, str]) -> Iterator[Result]:
    """Every attack on each of the rounds, {name: name or file}; what was run before is not run again."""
    attacks = [attack for attack in find_attacks() if attack.origin == "shipped" and attack.name not in LEFT_OUT]
    for name, where in rounds.items():
        for number, attack in enumerate(attacks, 1):
            chosen = SETTINGS.get(attack.name, {})
            settings = chosen.get(name, chosen.get("*", []))
            folder = _earlier_run(attack, name, where, settings)
            if folder is None:
                print(f"{name}, {number} of {len(attacks)}: {attack.name} {' '.join(settings)} …", file=sys.stderr)
                folder = _run(attack, where, settings)
            yield Result(attack, name, settings, run_summary(folder), folder.attack_spec(), len(every_guess(folder)))


def table(found: list[Result]) -> str:
    """The results as Markdown: recall with its interval, seconds and suffixes a second, exact@1 and the ceiling."""
    lines = [
        "| attack | round | Recall@100 | exact@1 | upper bound (any guess) | seconds | distinct suffixes/s |",
        "|---|---|---|---|---|---|---|",
    ]
    for result in sorted(found, key=lambda one: (one.round, one.attack.control, -(one.summary.recall_at_cap or 0))):
        summary = result.summary
        recall = "–" if summary.recall_at_cap is None else f"{summary.recall_at_cap:.3f}"
        if summary.recall_interval is not None:
            recall += f" [{summary.recall_interval[0]:.3f}, {summary.recall_interval[1]:.3f}]"
        ended = "" if str(summary.status) == "finished" else f" ({summary.status.words})"
        cells = (
            f"`{result.attack.name}`{' (control)' if result.attack.control else ''}"
            + (f" {' '.join(result.settings)}" if result.settings else ""),
            result.round,
            recall,
            _share(summary.exact_at_1),
            _share(summary.any_of_n),
            f"{summary.elapsed_s:.0f}{ended}",
            f"{result.distinct / summary.elapsed_s:.0f}" if summary.elapsed_s else "–",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _earlier_run(attack: AttackFile, round_name: str, where: str, settings: list[str]) -> RunFolder | None:
    """A run of the same source with the same parameters, which came to its end."""
    params = json.loads(_harness(*_words(attack, where, settings), "--dry-run", "--json"))["params"]
    for path in sorted((HOME / "runs").glob("*-*")):
        folder = RunFolder(path)
        if not folder.spec_file.is_file():
            continue
        spec, summary = folder.attack_spec(), run_summary(folder)
        is_same = spec.attack.sha256 == attack.sha256 and spec.round.name == round_name and spec.params == params
        if is_same and str(summary.status) in ("finished", "out_of_time"):
            return folder
    return None


def _run(attack: AttackFile, where: str, settings: list[str]) -> RunFolder:
    told = _harness(*_words(attack, where, settings), "--json")
    return RunFolder(Path(json.loads(told.splitlines()[-1])["directory"]))


def _words(attack: AttackFile, where: str, settings: list[str]) -> list[str]:
    set_ = [word for setting in settings for word in ("--set", setting)]
    return ["run", attack.name, "--round", where, "--budget", BUDGET, *set_]


def _harness(*words: str) -> str:
    """What a command prints; ends this program with its complaint where it prints nothing."""
    environment = {**os.environ, "HARNESS_HOME": str(HOME)}
    command = [sys.executable, "-m", "harness", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if not done.stdout.strip():
        sys.exit(f"harness {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def main() -> None:
    """Run what has not been run, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    parser.add_argument("--only", choices=["demo", "surrogate-dev"], help="one of the two rounds")
    chosen = parser.parse_args()
    rounds = {"demo": "demo"}
    if (ROOT.parent / "shared" / "data" / "surrogate-11m").is_dir():
        rounds["surrogate-dev"] = str(SURROGATE)
    found = list(results({name: where for name, where in rounds.items() if chosen.only in (None, name)}))
    print(table(found))
    if chosen.write:
        readme = ROOT / "README.md"
        before, begin, rest = readme.read_text().partition(BEGIN)
        _, end, after = rest.partition(END)
        if not begin or not end:
            sys.exit(f"{readme}: no place for the table between {BEGIN} and {END}.")
        readme.write_text(f"{before}{BEGIN}\n{table(found)}\n{END}{after}")


if __name__ == "__main__":
    main()
