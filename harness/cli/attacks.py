"""`harness attacks`: list attacks, show one with its parameters, write a new one."""

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.options import AttackName, Attacks, Json
from harness.cli.output import align_columns, print_json, sanitize, say
from harness.cli.typer_classes import CommandLine
from harness.plugins.discovery import AttackFile, attack_named, find_attacks
from harness.plugins.parameters import parameters_in
from harness.plugins.scaffold import new_attack
from harness.plugins.schema import fetch_schema

app = CommandLine(name="attacks", invoke_without_command=True)


@app.callback()
def list_attacks(context: typer.Context, attacks: Attacks = None, json: Json = False) -> None:
    """List attacks, show one, or write a new one.

    Without a command, attacks are listed with their summary, their directory and their errors.
    """
    if context.invoked_subcommand is not None:
        return
    found = find_attacks(attacks)
    if json:
        print_json({"attacks": [_as_json(attack) for attack in found]})
    elif found:
        print(align_columns([_row(attack) for attack in found]))
    else:
        say("no attacks. `harness attacks new NAME` writes one.")


@app.command("show")
def show_attack(attack: AttackName, attacks: Attacks = None, json: Json = False) -> None:
    """Show what an attack does, its file and its parameters."""
    file = attack_named(attack, attacks)
    schema = fetch_schema(file.path, digest=file.sha256)
    parameters = parameters_in(schema.schema)
    if json:
        described = {"doc": schema.doc, "parameters": [asdict(parameter) for parameter in parameters]}
        print_json({**_as_json(file), **described, "schema": schema.schema})
        return
    print(sanitize(file.shown_name))
    for line in schema.doc.splitlines():
        print(f"  {sanitize(line)}".rstrip())
    print()
    print(f"  from        {sanitize(file.origin)}, {sanitize(str(file.path))}")
    for label, text in (("reference", file.reference), ("flags", _flags(file)), ("requires", file.requires)):
        if text:
            print(f"  {label:11} {sanitize(text if isinstance(text, str) else ', '.join(text))}")
    print("\n  parameters" if parameters else "\n  no parameters")
    width = max((len(sanitize(parameter.name)) for parameter in parameters), default=0)
    for parameter in parameters:
        print(f"    {sanitize(parameter.name):{width}}  {sanitize(parameter.in_words)}")


@app.command("new")
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Lower-case letters, digits and underscores.")],
    directory: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where to write.")] = Path("attacks"),
    json: Json = False,
) -> None:
    """Write a new attack that runs as it is."""
    path = new_attack(name, directory)
    option = "" if directory.resolve() == Path("attacks").resolve() else f" --attacks {shlex.quote(str(directory))}"
    say(f"next: harness run {name} --round demo{option}")
    if json:
        print_json({"attack": name, "path": str(path.absolute())})
    else:
        print(path)


def _row(attack: AttackFile) -> tuple[str, str, str]:
    what = attack.summary if attack.error is None else f"broken: {attack.error}"
    return sanitize(attack.shown_name), sanitize(attack.origin), sanitize(what)


def _as_json(attack: AttackFile) -> dict[str, Any]:
    fields = dict(attack)
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
