"""`harness rounds`: list rounds, show the rules and files of one, make one from a corpus."""

from typing import Any

import typer

from harness.cli.options import Json, RoundArgument
from harness.cli.output import align_columns, print_json, sanitize, say
from harness.cli.rounds_make import make_round
from harness.cli.typer_classes import CommandLine
from harness.core.examples import error_cap_of
from harness.core.rounds import load_round, preset_text, shipped_rounds
from harness.core.times import format_duration
from harness.data.status import RoundStatus, round_status

app = CommandLine(name="rounds", invoke_without_command=True)
app.command("make")(make_round)

_RULES = (
    "answer_rows",
    "train_rows",
    "clusters",
    "prefix_length",
    "suffix_length",
    "vocabulary",
    "error_cap",
    "row_cap",
    "budget_s",
    "target",
    "revision",
)


@app.callback()
def list_rounds(context: typer.Context, json: Json = False) -> None:
    """List rounds, show the rules of one, or make one.

    Without a command, the shipped rounds are listed with the state of their files.
    """
    if context.invoked_subcommand is not None:
        return
    rounds = [round_status(load_round(name)) for name in shipped_rounds()]
    if json:
        print_json({"rounds": [_summary(status) for status in rounds]})
        return
    rows = [
        (status.round.name, f"{_examples(status)} examples", state_of(status), sanitize(status.round.title))
        for status in rounds
    ]
    print(align_columns(rows))
    if any(not status.is_complete for status in rounds):
        say("`harness data status ROUND` prints what is missing and the command that fetches it.")


@app.command("show")
def show_round(round_: RoundArgument, json: Json = False) -> None:
    """Show the rules and files of a round."""
    status = round_status(load_round(round_))
    rules = _rules(status)
    if json:
        print_json({**_summary(status), **rules, "presets": status.round.presets, "files": files_as_json(status)})
        return
    print(f"{sanitize(status.round.name)}: {sanitize(status.round.title)}")
    print(f"{state_of(status)}, {_examples(status)} examples")
    for rule in _RULES:
        if (value := rules[rule]) is not None:
            print(f"  {rule.removesuffix('_s').replace('_', ' '):14} {sanitize(_rule_text(rule, value))}")
    for attack, preset in status.round.presets.items():
        print(f"  {'preset':14} {sanitize(f'{attack}: {preset_text(preset)}')}")
    print_files(status)


def state_of(status: RoundStatus) -> str:
    """Return the state of a round's files in two or three words."""
    if not status.is_complete:
        wrong = len(status.files) - len(status.missing) - sum(file.state == "present" for file in status.files)
        missing = [f"{len(status.missing)} missing"] if status.missing else []
        return "files: " + ", ".join([*missing, *([f"{wrong} wrong"] if wrong else [])])
    return "complete, blind" if status.round.is_blind else "complete"


def print_files(status: RoundStatus) -> None:
    """Print a line for each file: state, path, shape or error, use."""
    rows = []
    for file in status.files:
        shape = " × ".join(f"{axis:,}" for axis in file.shape) if file.shape is not None else file.fault
        uses = ", ".join(field.removesuffix("_file").replace("_", " ") for field in file.fields)
        rows.append((f"  {file.state}", sanitize(str(file.path)), sanitize(shape), uses))
    if rows:
        print(align_columns(rows))


def files_as_json(status: RoundStatus) -> list[dict[str, Any]]:
    """Return the files of a round for `--json`."""
    return [
        {
            "fields": file.fields,
            "path": str(file.path),
            "state": file.state,
            "shape": file.shape,
            "fault": file.fault or None,
        }
        for file in status.files
    ]


def _examples(status: RoundStatus) -> str:
    return "?" if status.examples is None else f"{status.examples:,}"


def _summary(status: RoundStatus) -> dict[str, Any]:
    return {
        "round": status.round.name,
        "title": status.round.title,
        "examples": status.examples,
        "is_blind": status.round.is_blind,
        "is_complete": status.is_complete,
        "missing": [str(file.path) for file in status.missing],
    }


def _rules(status: RoundStatus) -> dict[str, Any]:
    """Return the rules by name. A fold has no rows of its own, and no error cap until its files exist."""
    rules = status.round.model_dump(mode="json", include={*_RULES, "budget", "fold"})
    rules["budget_s"] = rules.pop("budget")
    if status.round.fold is not None:
        rules |= {"answer_rows": None, "train_rows": None}
        rules["error_cap"] = error_cap_of(status.round) if status.is_complete else None
    return rules


def _rule_text(rule: str, value: Any) -> str:
    if rule == "budget_s":
        return format_duration(value)
    if rule in ("answer_rows", "train_rows"):
        return f"{value[0]:,} to {value[1] - 1:,}"
    return f"{value:,}" if isinstance(value, int) else str(value)
