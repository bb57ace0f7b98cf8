"""Sphinx extension that generates parts of the reference from the code.

These are commands, tables of keys and parameters, and docstrings. A page has a comment such as
`<!-- generated: commands -->` where the text belongs.
"""

import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
from docutils import nodes
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.typing import stringify_annotation

from harness.cli.app import PANELS, app, load_command
from harness.cli.typer_classes import HarnessGroup, summary_of
from harness.core import arrays
from harness.core.rounds import Round
from harness.core.settings import Settings
from harness.plugins.discovery import SHIPPED, AttackFile, find_attacks
from harness.plugins.parameters import Parameter, parameters_in
from harness.plugins.schema import fetch_schema
from harness.sweeps.file import SweepFile

MARK = re.compile(r"^<!-- generated: ([\w-]+) -->$", re.MULTILINE)


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
    yield from filter(None, (_escaped(summary_of(command) or summary), _escaped(rest.strip())))
    yield "```text\n" + " ".join([path, *command.collect_usage_pieces(context)]) + "\n```"
    for title, records in _sections_of(path, command).items():
        if records and title != _COMMON:
            yield from _definitions(records)
    if isinstance(command, HarnessGroup):
        yield from _definitions([(f"{path} {one.name}", summary_of(one)) for one in command.commands.values()])


def _definitions(records: list[tuple[str, str]]) -> Iterator[str]:
    for name, text in records:
        yield f"`{name}`\n: {_escaped(text)}"


def _escaped(text: str) -> str:
    """Return a help text as Markdown: names of code stay code, and brackets are no links."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([\[\]<>*_|])", r"\\\1", part) for part in parts)


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
        cells = (_cell(f"`{one.name}`"), _cell(_escaped(value)), _cell(default), _cell(one.description))
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def attacks() -> Iterator[str]:
    """Yield a section for each shipped attack: what it does, where it is from, and its parameters."""
    for attack in find_attacks():
        if attack.origin == SHIPPED:
            yield from _attack(attack)


def _attack(attack: AttackFile) -> Iterator[str]:
    schema = fetch_schema(attack.path, digest=attack.sha256)
    yield f"## {attack.name}"
    yield from map(_escaped, schema.doc.strip().split("\n\n"))
    facts = [f"From: {_escaped(attack.reference)}."] if attack.reference else []
    facts += ["It is a control and may not be submitted."] if attack.control else []
    facts += [] if attack.uses_target else ["It uses no target."]
    facts += [f"It needs {', '.join(attack.requires)}."] if attack.requires else []
    yield " ".join(facts)
    parameters = list(parameters_in(schema.schema))
    yield _table("parameter", parameters) if parameters else "It has no parameters."


TEXTS = {
    "commands": commands,
    "settings": lambda: keys_of(Settings),
    "round": lambda: keys_of(Round, without=("source",)),
    "sweep": lambda: keys_of(SweepFile),
    "attacks": attacks,
}


def _fill(app: Sphinx, page: str, content: list[str]) -> None:
    content[0] = MARK.sub(lambda mark: "\n\n".join(TEXTS[mark[1]]()), content[0])


def _pages_with_marks(app: Sphinx, env: Any, added: set[str], changed: set[str], removed: set[str]) -> list[str]:
    """Return the pages that every build reads again, because the code can have changed."""
    pages = (Path(env.doc2path(page)) for page in env.found_docs)
    texts = {page: page.read_text(encoding="utf-8") for page in pages if page.suffix == ".md"}
    return [env.path2doc(str(page)) for page, text in texts.items() if MARK.search(text)]


def _shorten_arrays(
    app: Sphinx, what: str, name: str, documented: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str, str] | None:
    """Write the names of array types in a signature, as its source does."""
    if getattr(documented, "_is_protocol", False):
        return "", ""
    return None if signature is None else (_with_array_names(signature), _with_array_names(returned or ""))


def _shorten_properties(app: Sphinx, page: nodes.document) -> None:
    """Write the names of array types in the types of properties, for which autodoc has no event."""
    for node in page.findall(addnodes.desc_annotation):
        shown = node.astext()
        if (short := _with_array_names(shown)) != shown:
            node.children = [nodes.Text(short)]


def _with_array_names(text: str) -> str:
    for name, type_ in _ARRAYS.items():
        marked = stringify_annotation(type_, "smart")
        text = text.replace(marked, name).replace(re.sub(r"~[\w.]+\.", "", marked), name)
    return text


_ARRAYS = {
    "Tokens": arrays.Tokens,
    "Ints": arrays.Ints,
    "Floats": arrays.Floats,
    "NDArray": NDArray[Any],
    "ArrayLike": ArrayLike,
}


def _list_names(app: Sphinx, what: str, name: str, documented: Any, options: Any, lines: list[str]) -> None:
    """Make a list of the sentences that explain parameters or fields, such as `row: [rows] int64. count: ...`."""
    names = _names_of(documented)
    if not names:
        return
    one = "|".join(sorted(names, key=len, reverse=True))
    begin = re.compile(rf"(?:^|(?<=[.)] ))((?:{one})(?:, (?:{one}))*): ")
    changed: list[str] = []
    for paragraph in "\n".join(lines).split("\n\n"):
        text = " ".join(paragraph.split())
        first, *rest = begin.split(text)
        changed += [first.strip()] if first.strip() else []
        changed += [_item(*pair) for pair in zip(rest[::2], rest[1::2], strict=True)]
    lines[:] = "\n\n".join(changed).split("\n")


def _item(names: str, text: str) -> str:
    # A sentence about the whole can follow the last explanation.
    text, mark, rest = text.strip().partition(" Raises HarnessError")
    item = f"- {', '.join(f'`{name}`' for name in names.split(', '))}: {text}"
    return f"{item}\n\nRaises HarnessError{rest}" if mark else item


def _names_of(documented: Any) -> set[str]:
    """Return the names that a docstring can explain: parameters of a function, attributes of a class."""
    if inspect.isclass(documented):
        fields = {*getattr(documented, "__annotations__", {}), *vars(documented)}
        own = documented.__init__ if "__init__" in vars(documented) else None
        assigned = set() if own is None else {*own.__code__.co_names, *inspect.signature(own).parameters}
        return {name for name in fields | assigned if not name.startswith("_")} - {"self"}
    try:
        return set(inspect.signature(documented).parameters) - {"self"}
    except (TypeError, ValueError):
        return set()


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the functions of this module to the build."""
    app.connect("source-read", _fill)
    app.connect("env-get-outdated", _pages_with_marks)
    app.connect("autodoc-process-signature", _shorten_arrays)
    app.connect("doctree-read", _shorten_properties)
    app.connect("autodoc-process-docstring", _list_names)
    return {"parallel_read_safe": True}
