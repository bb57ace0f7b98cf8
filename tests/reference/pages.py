"""The generated parts of pages: commands, attacks, tables of keys, printed objects, and the API.

A part stands between two comments: `<!-- generated: NAME ... -->` and `<!-- end of the generated part -->`.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import typer
from pydantic import BaseModel

from harness.audits.registry import AUDITS, audit_named
from harness.cli.app import PANELS, app, load_command
from harness.cli.typer_classes import HarnessGroup, examples_of, summary_of
from harness.core.parameters import Parameter, parameters_in
from harness.core.rounds import Round
from harness.core.settings import Settings
from harness.plugins.discovery import BUILT_IN, AttackFile, find_attacks
from harness.plugins.schema import fetch_schema
from harness.rankers import RANKER_HELP
from harness.sweeps.file import SWEEP_FILE
from tests.functional.machine import ROOT
from tests.reference.api import entries, escaped
from tests.reference.printed import objects

PAGES = sorted((ROOT / "docs" / "reference").glob("*.md"))
MARK = re.compile(
    r"(?P<begin><!-- generated: (?P<text>[\w-]+)(?P<rest>[^>]*) -->)\n.*?(?P<end><!-- end of the generated part -->)",
    re.DOTALL,
)


def commands() -> Iterator[str]:
    """Yield the reference of the command line: one section for each command, below the heading of its panel."""
    (common,) = (sections[_COMMON] for sections in [_sections_of("harness", typer.main.get_command(app))])
    yield from ("## Common options", *_definitions(common))
    for panel, names in PANELS.items():
        yield f"## {panel}"
        for name in names:
            command = load_command(name)
            yield from _command(f"harness {name}", command)
            for below in getattr(command, "commands", {}).values():
                yield from _command(f"harness {name} {below.name}", below)


_COMMON = "Common options"


def _sections_of(path: str, command: Any) -> dict[str, list[tuple[str, str]]]:
    sections: dict[str, list[tuple[str, str]]] = command.help_sections(typer.Context(command, info_name=path))
    return sections


def _command(path: str, command: Any) -> Iterator[str]:
    context = typer.Context(command, info_name=path)
    yield f"### {path}"
    summary, _, rest = str(command.help or "").strip().partition("\n")
    yield from filter(None, (escaped(summary_of(command) or summary), escaped(rest.strip())))
    yield "```text\n" + " ".join([path, *command.collect_usage_pieces(context)]) + "\n```"
    for title, records in _sections_of(path, command).items():
        if records and title != _COMMON:
            yield f"{title}:"
            yield from _definitions(records)
    if isinstance(command, HarnessGroup):
        yield "Commands:"
        yield from _definitions([(f"{path} {one.name}", summary_of(one)) for one in command.commands.values()])
    examples, page = examples_of(path)
    yield f"Examples:\n\n```sh\n{examples}\n```"
    yield f"Read more: [{page}](../{page.removeprefix('docs/')})"


def _definitions(records: list[tuple[str, str]]) -> Iterator[str]:
    yield "\n".join(f"- `{name}`: {escaped(text)}" for name, text in records)


def keys_of(model: type[BaseModel], *, without: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the table of the keys of a TOML file, from the model that checks it."""
    parameters = (_in_toml(one) for one in parameters_in(model.model_json_schema()) if one.name not in without)
    yield _table("key", parameters)


def _in_toml(key: Parameter) -> Parameter:
    """Return a key as it is written in TOML, which has tables and no null. Patterns of names say nothing to people."""
    is_optional = key.default == "none"
    type_ = key.type.removesuffix(" or none") if is_optional else key.type
    bounds = tuple(bound for bound in key.bounds if not bound.startswith("matching "))
    default = "" if is_optional else key.default
    return replace(key, type=type_.replace("object", "table"), default=default, bounds=bounds)


def _table(what: str, parameters: Iterable[Parameter]) -> str:
    rows = [f"| {what} | value | default | meaning |", "|---|---|---|---|"]
    for one in parameters:
        value = ", ".join((one.type, *one.bounds))
        default = "required" if one.default is None else f"`{one.default}`" if one.default else ""
        cells = (_cell(f"`{one.name}`"), _cell(escaped(value)), _cell(default), _cell(one.description))
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def attacks() -> Iterator[str]:
    """Yield a section for each built-in attack: what it does, where it is from, and its parameters."""
    for attack in find_attacks():
        if attack.origin == BUILT_IN:
            yield from _attack(attack)


def _attack(attack: AttackFile) -> Iterator[str]:
    schema = fetch_schema(attack.path, digest=attack.sha256)
    yield f"## {attack.name}"
    yield from map(escaped, schema.doc.strip().split("\n\n"))
    facts = [f"From: {escaped(attack.reference)}."] if attack.reference else []
    facts += ["It is a control and may not be submitted."] if attack.control else []
    facts += [] if attack.uses_target else ["It uses no target."]
    facts += [f"It needs {', '.join(attack.requires)}."] if attack.requires else []
    yield " ".join(facts)
    parameters = [_with_link(one) for one in schema.parameters]
    yield _table("parameter", parameters) if parameters else "It has no parameters."


def _with_link(parameter: Parameter) -> Parameter:
    """Return a ranker with a link to the table that explains the ten of them, any other parameter as it is."""
    if parameter.description != RANKER_HELP:
        return parameter
    text = "Score that [orders suffixes](../how-to/write-an-attack.md#rankers)."
    return replace(parameter, type="a ranker", description=text)


def measures() -> Iterator[str]:
    """Yield a section for each audit: the quantities that it reports."""
    for name in AUDITS:
        audit = audit_named(name)
        if audit.measures:
            yield f"## {name}"
            rows = ["| measure | title | parameter `at` | meaning |", "|---|---|---|---|"]
            for one in audit.measures:
                cells = (f"`{one.name}`", escaped(one.label()), escaped(one.at_name), escaped(one.meaning))
                rows.append("| " + " | ".join(map(_cell, cells)) + " |")
            yield "\n".join(rows)


TEXTS: dict[str, Callable[[str], Iterator[str]]] = {
    "commands": lambda _: commands(),
    "settings": lambda _: keys_of(Settings),
    "round": lambda _: keys_of(Round, without=("source",)),
    "sweep": lambda _: keys_of(SWEEP_FILE),
    "attacks": lambda _: attacks(),
    "measures": lambda _: measures(),
    "objects": lambda _: objects(),
    "api": entries,
}


def filled(page: str) -> str:
    """Return the text of a page with all of its generated parts written again."""
    return MARK.sub(lambda mark: "\n\n".join([mark["begin"], *TEXTS[mark["text"]](mark["rest"]), mark["end"]]), page)
