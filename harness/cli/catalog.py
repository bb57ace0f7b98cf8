"""Attacks and rounds as `harness list` and `harness show` print them."""

from datetime import datetime
from typing import Any

from harness.cli.output import align_columns, print_json, sanitize
from harness.core.examples import error_cap_of
from harness.core.rounds import Round, preset_text
from harness.core.times import format_duration, moment_text
from harness.data.files import RoundStatus, round_status
from harness.plugins.discovery import AttackFile
from harness.plugins.schema import fetch_schema

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
_CONTEST_RULES = tuple(name for name, field in Round.model_fields.items() if field.exclude and name != "presets")
"""The rules that records of runs leave out."""


def print_attack(attack: AttackFile, *, json: bool) -> None:
    """Print what an attack does, its file and its parameters.

    Keys:
        doc (string): Documentation of the attack.
        parameters (Parameter[]): Parameters of the attack.
        schema (object): JSON schema of the parameters.
    """
    schema = fetch_schema(attack.path, digest=attack.sha256)
    parameters = schema.parameters
    if json:
        described = {"doc": schema.doc, "parameters": [parameter.as_json() for parameter in parameters]}
        print_json({**attack_as_json(attack), **described, "schema": schema.schema})
        return
    print(sanitize(attack.shown_name))
    for line in schema.doc.splitlines():
        print(f"  {sanitize(line)}".rstrip())
    print()
    print(f"  from        {sanitize(attack.origin)}, {sanitize(str(attack.path))}")
    for label, text in (("reference", attack.reference), ("flags", _flags(attack)), ("requires", attack.requires)):
        if text:
            print(f"  {label:11} {sanitize(text if isinstance(text, str) else ', '.join(text))}")
    print("\n  parameters" if parameters else "\n  no parameters")
    width = max((len(sanitize(parameter.name)) for parameter in parameters), default=0)
    for parameter in parameters:
        print(f"    {sanitize(parameter.name):{width}}  {sanitize(parameter.in_words)}")


def attack_row(attack: AttackFile) -> tuple[str, str, str]:
    """Return name, origin, and summary or error of an attack."""
    sentence = attack.summary if attack.error is None else f"broken: {attack.error}"
    return sanitize(attack.shown_name), sanitize(attack.origin), sanitize(sentence)


def attack_as_json(attack: AttackFile) -> dict[str, Any]:
    """Return an attack as a list of attacks prints it with `--json`.

    Keys:
        attack (string): Name of the attack.
        path, origin, sha256, summary, reference
        is_control (boolean): True if the attack is a control, which may not be submitted.
        uses_target, reference_model, guesses_per_example, requires, models, error
    """
    fields = dict(vars(attack))
    names = {"attack": fields.pop("name"), "is_control": fields.pop("control")}
    return {**names, **fields, "path": str(attack.path)}


def _flags(attack: AttackFile) -> str:
    flags = []
    if attack.control:
        flags.append("control, may not be submitted")
    if not attack.uses_target:
        flags.append("does not use a target")
    if attack.reference_model:
        flags.append(f"reference model {attack.reference_model}")
    if attack.guesses_per_example != 1:
        flags.append(f"{attack.guesses_per_example or 'any number of'} guesses per example")
    return ", ".join(flags)


def print_round(round_: Round, *, json: bool) -> None:
    """Print the rules and the files of a round.

    Keys:
        presets (object): Values of parameters that `run --preset` uses, by the name of the attack.
        files (files_as_json[]): Files that the round names.
    """
    status = round_status(round_)
    rules = _rules(status)
    if json:
        print_json({**round_as_json(status), **rules, "presets": status.round.presets, "files": files_as_json(status)})
        return
    print(f"{sanitize(status.round.name)}: {sanitize(status.round.title)}")
    print(f"{state_of(status)}, {_examples(status)} examples")
    lines = [(rule.removesuffix("_s").replace("_", " "), _rule_text(rule, rules[rule])) for rule in _RULES]
    lines += [(rule.replace("_", " "), _rule_text(rule, getattr(round_, rule))) for rule in _CONTEST_RULES]
    lines += [("preset", f"{attack}: {preset_text(preset)}") for attack, preset in status.round.presets.items()]
    print(align_columns([(f"  {label}", sanitize(text)) for label, text in lines if text]))
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
    """Return the files of a round for `--json`.

    Keys:
        FileStatus.fields, FileStatus.path, FileStatus.state, FileStatus.shape
        fault (string?): Error in the file. Null without an error.
    """
    return [vars(file) | {"path": str(file.path), "fault": file.fault or None} for file in status.files]


def _examples(status: RoundStatus) -> str:
    return "?" if status.examples is None else f"{status.examples:,}"


def round_row(status: RoundStatus) -> tuple[str, ...]:
    """Return name, size, state and title of a round."""
    return status.round.name, f"{_examples(status)} examples", state_of(status), sanitize(status.round.title)


def round_as_json(status: RoundStatus) -> dict[str, Any]:
    """Return a round as a list of rounds prints it with `--json`.

    Keys:
        round (string): Name of the round.
        title (string): Title of the round.
        examples (number?): Number of examples. Null if the files are missing.
        is_blind (boolean): True if the round has no answers.
        is_complete (boolean): True if all files exist and fit the round.
        missing (string[]): Paths of missing files.
    """
    return {
        "round": status.round.name,
        "title": status.round.title,
        "examples": status.examples,
        "is_blind": status.round.is_blind,
        "is_complete": status.is_complete,
        "missing": [str(file.path) for file in status.missing],
    }


def _rules(status: RoundStatus) -> dict[str, Any]:
    """Return the rules by name. A fold has no rows of its own, and no error cap until its files exist.

    Keys:
        answer_rows (number[]?): First row of the answers in their file, and the row after the last.
        train_rows (number[]?): First row of the training rows in their file, and the row after the last.
        Round.clusters, Round.prefix_length, Round.suffix_length, Round.vocabulary
        error_cap (number?): Wrong rows at which scoring stops. Null for a fold whose files are missing.
        Round.row_cap, Round.target, Round.revision
        fold (object?): Fold of the training rows that is attacked: its `index`, and the number of `folds`. Null for a
            whole round.
        budget_s (number): Wall clock that a run may take.
        code_deadline (string?): Last moment for the code. An ISO date with time and offset, as in the next three keys.
        Round.prefixes_released, Round.closes, Round.answers_released, Round.forbidden_models
        Round.training_data_search
    """
    rules = status.round.model_dump(mode="json", include={*_RULES, "budget", "fold"})
    rules["budget_s"] = rules.pop("budget")
    for name in _CONTEST_RULES:
        value = getattr(status.round, name)
        rules[name] = value.isoformat() if isinstance(value, datetime) else value
    if status.round.fold is not None:
        rules |= {"answer_rows": None, "train_rows": None}
        rules["error_cap"] = error_cap_of(status.round) if status.is_complete else None
    return rules


def _rule_text(rule: str, value: Any) -> str:
    """Return a rule as text, "" for one that the round does not have."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return moment_text(value)
    if rule == "forbidden_models":
        return f"{', '.join(value)}; the target is allowed" if value else ""
    if rule == "budget_s":
        return format_duration(value)
    if rule in ("answer_rows", "train_rows"):
        return f"{value[0]:,} to {value[1] - 1:,}"
    return f"{value:,}" if isinstance(value, int) else str(value)
