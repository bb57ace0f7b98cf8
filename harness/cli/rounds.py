"""`harness rounds`: which contests there are, and the rules and files of one."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.completion import round_names
from harness.cli.output import print_json, sanitize, say

if TYPE_CHECKING:
    from harness.data.status import RoundStatus

app = typer.Typer(help="List rounds, or show the rules and files of one.", rich_markup_mode=None)

JsonOption = Annotated[bool, typer.Option("--json", help="One line of JSON.")]

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


RoundArgument = Annotated[
    str, typer.Argument(metavar="ROUND", help="A shipped round's name, or a TOML file.", autocompletion=round_names)
]


@app.callback(invoke_without_command=True)
def list_rounds(context: typer.Context, as_json: JsonOption = False) -> None:
    """List rounds, or show the rules and files of one. Alone: every shipped round and the state of its files."""
    if context.invoked_subcommand is not None:
        if as_json:
            raise typer.BadParameter("--json stands after the command: harness rounds show NAME --json")
        return
    from harness.core.rounds import load_round, shipped_rounds
    from harness.data.status import round_status

    listed = [round_status(load_round(name)) for name in shipped_rounds()]
    if as_json:
        print_json([_summary(status) for status in listed])
        return
    names = max((len(status.round.name) for status in listed), default=0)
    for status in listed:
        count = "?" if status.examples is None else f"{status.examples:,}"
        print(
            f"{status.round.name:{names}}  {count:>6} examples  {state_of(status):<22}  {sanitize(status.round.title)}"
        )
    if any(not status.is_complete for status in listed):
        say("`harness data status ROUND` says what is missing and the command that gets it.")


@app.command("show")
def show_round(name: RoundArgument, as_json: JsonOption = False) -> None:
    """The rules of a round, and which of its files are there."""
    from harness.core.rounds import load_round
    from harness.data.status import round_status

    status = round_status(load_round(name))
    round_ = status.round
    rules = _rules(status)
    if as_json:
        print_json({**_summary(status), **rules, "files": files_as_json(status)})
        return
    print(f"{sanitize(round_.name)}: {sanitize(round_.title)}")
    print(f"{state_of(status)}, {'?' if status.examples is None else f'{status.examples:,}'} examples")
    for rule in _RULES:
        if (value := rules[rule]) is not None:
            print(f"  {rule.removesuffix('_s').replace('_', ' '):14} {sanitize(_as_text(rule, value))}")
    print_files(status)


def state_of(status: "RoundStatus") -> str:
    """The state of a round's files in two or three words."""
    if not status.is_complete:
        unfit = len(status.files) - len(status.missing) - sum(file.state == "present" for file in status.files)
        what = [f"{len(status.missing)} missing"] if status.missing else []
        return "files: " + ", ".join([*what, *([f"{unfit} wrong"] if unfit else [])])
    return "complete, blind" if status.round.is_blind else "complete"


def print_files(status: "RoundStatus") -> None:
    """A line for each file: state, path, shape or fault, and what the round has it for."""
    paths = max((len(sanitize(str(file.path))) for file in status.files), default=0)
    for file in status.files:
        shape = " × ".join(f"{axis:,}" for axis in file.shape) if file.shape is not None else file.fault
        uses = ", ".join(field.removesuffix("_file").replace("_", " ") for field in file.fields)
        print(f"  {file.state:12} {sanitize(str(file.path)):{paths}}  {sanitize(shape):12}  {uses}")


def files_as_json(status: "RoundStatus") -> list[dict[str, Any]]:
    """The files of a round, for --json."""
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


def _summary(status: "RoundStatus") -> dict[str, Any]:
    return {
        "name": status.round.name,
        "title": status.round.title,
        "examples": status.examples,
        "is_blind": status.round.is_blind,
        "is_complete": status.is_complete,
        "missing": [str(file.path) for file in status.missing],
    }


def _rules(status: "RoundStatus") -> dict[str, Any]:
    """The rules by name. What a fold has of its own is not its round's: None where its files must be there to know."""
    from harness.core.examples import error_cap_of

    rules = status.round.model_dump(mode="json", include={*_RULES, "budget", "fold"})
    rules["budget_s"] = rules.pop("budget")
    if status.round.fold is not None:
        rules |= {"answer_rows": None, "train_rows": None}
        rules["error_cap"] = error_cap_of(status.round) if status.is_complete else None
    return rules


def _as_text(rule: str, value: Any) -> str:
    from harness.core.times import format_duration

    if rule == "budget_s":
        return format_duration(value)
    if rule in ("answer_rows", "train_rows"):
        return f"{value[0]:,} to {value[1] - 1:,}"
    return f"{value:,}" if isinstance(value, int) else str(value)
