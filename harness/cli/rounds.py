"""Rounds as `harness list rounds` and `harness show` print them."""

from typing import Any

from harness.cli.output import align_columns, print_json, sanitize
from harness.core.examples import error_cap_of
from harness.core.rounds import Round, preset_text
from harness.core.times import format_duration
from harness.data.status import RoundStatus, round_status

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


def print_round(round_: Round, *, json: bool) -> None:
    """Print the rules and the files of a round."""
    status = round_status(round_)
    rules = _rules(status)
    if json:
        print_json({**round_as_json(status), **rules, "presets": status.round.presets, "files": files_as_json(status)})
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


def round_row(status: RoundStatus) -> tuple[str, ...]:
    """Return name, size, state and title of a round."""
    return status.round.name, f"{_examples(status)} examples", state_of(status), sanitize(status.round.title)


def round_as_json(status: RoundStatus) -> dict[str, Any]:
    """Return what a list of rounds prints with `--json`."""
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
