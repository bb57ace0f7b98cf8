"""`harness attacks`: which there are, what one of them takes, and a scaffold for a new one."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.completion import attack_names
from harness.cli.output import print_json, sanitize, say

if TYPE_CHECKING:
    from harness.plugins.discovery import AttackFile

app = typer.Typer(help="List attacks, show one, or begin a new one.", rich_markup_mode=None)

AttacksOption = Annotated[
    Path | None, typer.Option("--attacks", metavar="DIR", help="A folder of attack files, searched first.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="One line of JSON.")]


@app.callback(invoke_without_command=True)
def list_attacks(context: typer.Context, attacks: AttacksOption = None, as_json: JsonOption = False) -> None:
    """List attacks, show one, or begin a new one. Alone: every attack with its summary, place and error."""
    if context.invoked_subcommand is not None:
        if attacks is not None or as_json:
            raise typer.BadParameter("options stand after the command: harness attacks show NAME --json")
        return
    from harness.plugins.discovery import find_attacks

    found = find_attacks(attacks)
    if as_json:
        print_json([_as_json(attack) for attack in found])
        return
    if not found:
        say("no attacks: `harness attacks new NAME` begins one.")
    names = max((len(sanitize(attack.shown_name)) for attack in found), default=0)
    origins = max((len(sanitize(attack.origin)) for attack in found), default=0)
    for attack in found:
        what = attack.summary if attack.error is None else f"broken: {attack.error}"
        print(f"{sanitize(attack.shown_name):{names}}  {sanitize(attack.origin):{origins}}  {sanitize(what)}".rstrip())


@app.command("show")
def show_attack(
    name: Annotated[str, typer.Argument(metavar="NAME", autocompletion=attack_names)],
    attacks: AttacksOption = None,
    as_json: JsonOption = False,
) -> None:
    """What an attack does, where it comes from, and its parameters with types, defaults and bounds."""
    from harness.plugins.discovery import attack_named
    from harness.plugins.parameters import parameters_in
    from harness.plugins.schema import fetch_schema

    attack = attack_named(name, attacks)
    schema = fetch_schema(attack.path, digest=attack.sha256)
    parameters = parameters_in(schema.schema)
    if as_json:
        described = {"doc": schema.doc, "parameters": [asdict(parameter) for parameter in parameters]}
        print_json({**_as_json(attack), **described, "schema": schema.schema})
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


@app.command("new")
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Lower-case letters, digits and underscores.")],
    folder: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where the file is written.")] = Path("attacks"),
) -> None:
    """Write an attack that runs as it is, to be changed line by line."""
    from harness.plugins.scaffold import new_attack

    path = new_attack(name, folder)
    print(path)
    where = "" if folder.resolve() == Path("attacks").resolve() else f" --attacks {folder}"
    say(f"next: harness run {name} --round demo{where}")


def _as_json(attack: "AttackFile") -> dict[str, object]:
    return {**asdict(attack), "path": str(attack.path)}


def _flags(attack: "AttackFile") -> str:
    flags = []
    if attack.control:
        flags.append("a control, which may not be submitted")
    if not attack.uses_target:
        flags.append("uses no target")
    if attack.guesses_per_example != 1:
        flags.append(f"{attack.guesses_per_example or 'any number of'} guesses an example")
    return "; ".join(flags)
