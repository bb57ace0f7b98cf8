"""Attacks as `harness list attacks` and `harness show` print them."""

from dataclasses import asdict
from typing import Any

from harness.cli.output import print_json, sanitize
from harness.plugins.discovery import AttackFile
from harness.plugins.parameters import parameters_in
from harness.plugins.schema import fetch_schema


def print_attack(attack: AttackFile, *, json: bool) -> None:
    """Print what an attack does, its file and its parameters."""
    schema = fetch_schema(attack.path, digest=attack.sha256)
    parameters = parameters_in(schema.schema)
    if json:
        described = {"doc": schema.doc, "parameters": [asdict(parameter) for parameter in parameters]}
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
    """Return what a list of attacks prints with `--json`."""
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
