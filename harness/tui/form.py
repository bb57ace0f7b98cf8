"""The form of a command: its fields, made from the description of its parameters, and its command line."""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from harness.core.errors import HarnessError
from harness.core.options import Options
from harness.core.parameters import NEW_PATH, NULL_WORDS, Parameter, parameters_in, setting_text
from harness.core.paths import expand_home
from harness.core.rounds import Round, load_round
from harness.core.text import shorten
from harness.core.times import format_duration
from harness.plugins.schema import AttackSchema

FROM_ROUND = "the round's"
_MAX_CHOICES = 200
_REFUSAL = re.compile(r"(?P<option>--[\w-]+): (?P<reason>.+)")
"""The error of a command about one of its options."""


class FieldKind(StrEnum):
    """The type of a field's value, which decides its control and how its text is read."""

    NUMBER = "number"
    CHOICE = "choice"
    SWITCH = "switch"
    TEXT = "text"
    PATH = "path"
    JSON = "json"
    ROUND = "round"


_KINDS = {
    int: FieldKind.NUMBER,
    float: FieldKind.NUMBER,
    bool: FieldKind.SWITCH,
    str: FieldKind.TEXT,
    Path: FieldKind.PATH,
}


@dataclass(frozen=True)
class Field(Parameter):
    """One value of a form.

    default: '' if an empty field means what `empty_means` says.
    choices: as texts.
    is_option: an option of the command (`--seed`), not a parameter of the attack (`--set seed=…`).
    is_argument: an argument of the command, which has no name there.
    is_repeatable: several values with commas between them.
    section: the heading below which the help of the command lists it.
    """

    kind: FieldKind = FieldKind.TEXT
    empty_means: str = ""
    is_option: bool = False
    is_argument: bool = False
    is_repeatable: bool = False
    section: str = ""

    @property
    def key(self) -> str:
        """A unique key, even if a parameter has the name of an option."""
        return f"--{self.name}" if self.is_option else self.name

    @property
    def placeholder(self) -> str:
        """The text that an empty field shows."""
        return self.empty_means or ", ".join(filter(None, (self.type, *self.bounds)))

    @property
    def facts(self) -> str:
        """The valid values and the default, in a few words."""
        # Bounds imply the type, and a choice lists its values itself.
        values = (*self.bounds, *(("or none",) if self.is_nullable else ())) if self.bounds else (self.type,)
        default = f"default {shorten(self.default)}" if self.default else ""
        return "; ".join(filter(None, (shorten(", ".join(values), 120), default)))

    def value_of(self, text: str) -> str | None:
        """Return the value that `text` stands for, None for the default. An empty parameter that is text is empty."""
        is_literal = self.kind is FieldKind.TEXT and not self.is_option
        value = text if is_literal else text.strip()
        if value == self.default or (not value and (not is_literal or self.default is None)):
            return None
        return value

    def error(self, text: str) -> str | None:
        """Return why `text` is not valid, as a clause; None if it is, is empty, or if only the command can tell.

        The check of a path or a round reads the disk, which may take a while.
        """
        value = self.value_of(text)
        if value is None or (self.is_nullable and value.strip().lower() in NULL_WORDS):
            return None
        if self.choices:
            return None if value in self.choices else f"expected one of {shorten(', '.join(self.choices))}"
        try:
            if self.kind is FieldKind.PATH and not expand_home(value).exists():
                return None if self.rules.get("format") == NEW_PATH else "no such file or directory"
            if self.kind is FieldKind.ROUND and not (prefixes := load_round(value).prefix_file).exists():
                return f"{prefixes.name} is missing: see harness data status"
        except (HarnessError, OSError, ValueError) as error:
            return str(error).rstrip(".") if isinstance(error, HarnessError) else "not a valid path"
        return self.fault(value)

    def words(self, value: str) -> list[str]:
        """Return the words of the command line that set `value`."""
        if not self.is_option:
            return ["--set", f"{self.name}={value}"]
        if self.kind is FieldKind.SWITCH:
            return [self.key] if value == "true" else []
        if self.kind is FieldKind.PATH:
            with contextlib.suppress(HarnessError):
                # A shell would do it only for a word without quotes.
                value = str(expand_home(value)) if value.startswith("~") else value
        values = [part.strip() for part in value.split(",")] if self.is_repeatable else [value]
        return [word for part in values if part for word in ([part] if self.is_argument else [self.key, part])]


@dataclass(frozen=True)
class Form:
    """The fields of a command that starts something, in the order of the screen.

    command: such as `run baseline`.
    name: under which the values are remembered.
    omitted: parameters without a field.
    groups: keys of fields, of which each group needs a value for one.
    """

    command: tuple[str, ...]
    name: str
    fields: tuple[Field, ...]
    attacks_folder: Path | None = None
    omitted: int = 0
    groups: tuple[tuple[str, ...], ...] = ()

    @property
    def needs(self) -> list[list[Field]]:
        """The fields of which one is needed, for each need; its first field is marked."""
        by_key = {field.key: field for field in self.fields}
        alone = [[field] for field in self.fields if field.default is None]
        return alone + [[by_key[key] for key in group] for group in self.groups]

    def missing(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return the fields that need a value, by field key, with the words for it."""
        return {
            fields[0].key: ", or ".join(filter(None, ("needed", " or ".join(field.name for field in fields[1:]))))
            for fields in self.needs
            if all(field.value_of(texts.get(field.key, "")) is None for field in fields)
        }

    def errors(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return what is missing or not valid, by field key. It reads the disk, as `Field.error` does."""
        invalid = {field.key: error for field in self.fields if (error := field.error(texts[field.key]))}
        return self.missing(texts) | invalid

    @property
    def defaults(self) -> dict[str, str]:
        """The default text of each field, by field key."""
        return {field.key: field.default or "" for field in self.fields}

    def command_line(self, texts: Mapping[str, str]) -> list[str]:
        """Return the arguments of `harness` that start the same; defaults are left out."""
        values = changed_values(self.fields, texts)
        arguments_first = sorted(self.fields, key=lambda field: not field.is_argument)
        words = [word for field in arguments_first if field.key in values for word in field.words(values[field.key])]
        folder = [] if self.attacks_folder is None else ["--attacks", str(self.attacks_folder)]
        return [*self.command, *words, *folder]

    def refused(self, error: str) -> dict[str, str]:
        """Return the fields that an error of the command is about, by field key, with the reason for each."""
        match = _REFUSAL.fullmatch(error)
        if match is None:
            return {}
        reasons = {match["option"]: match["reason"]}
        if match["option"] == "--set":
            reasons = dict(part.partition(": ")[::2] for part in re.split(r"; (?=\w+: )", match["reason"]))
        keys = {field.key for field in self.fields}
        return {key: reason.rstrip(".") for key, reason in reasons.items() if key in keys and reason}


def changed_values(fields: Iterable[Field], texts: Mapping[str, str]) -> dict[str, str]:
    """Return the values that differ from their defaults, by field key; `texts` are by field key too."""
    values = {field.key: field.value_of(texts.get(field.key, field.default or "")) for field in fields}
    return {key: value for key, value in values.items() if value is not None}


def round_description(round_: Round) -> str:
    """Return the title and the budget of a round as a clause."""
    parts = [round_.title, f"budget {format_duration(round_.budget)}", "blind" if round_.is_blind else ""]
    return ", ".join(filter(None, parts))


def option_fields(options: type[Options], *, uses_target: bool = True) -> Iterator[Field]:
    """Yield the field of each option of a command that a form asks for; some options need a target."""
    sections = options.panels()
    for parameter in parameters_in(options.model_json_schema()):
        hints = parameter.hints
        is_useless = hints.get("needs_target") and not uses_target
        if hints.get("is_hidden") or not hints.get("is_in_form", True) or is_useless:
            continue
        default, separator = hints.get("default"), hints.get("separator")
        is_needed, is_list = parameter.default is None, parameter.value_type is list
        text = None if is_needed else "" if default is None else parameter.default
        if is_list:
            text = None if is_needed else str(separator or "").join(map(str, default or ()))
            parameter = replace(parameter, rules={"type": "string"})
        option = _field(replace(parameter, default=text, is_nullable=False))
        is_repeatable = is_list and not separator
        yield replace(
            option,
            name=(hints.get("name") or parameter.name).replace("_", "-"),
            kind=FieldKind.ROUND if parameter.name.endswith("round") else option.kind,
            description=parameter.description + (" Separate several with commas." if is_repeatable else ""),
            empty_means=hints.get("unset") or ("" if text or option.kind is FieldKind.SWITCH else "not used"),
            type=option.type if option.kind is FieldKind.NUMBER else "",
            bounds=() if is_list else option.bounds,
            is_option=True,
            is_argument=bool(hints.get("is_argument")),
            is_repeatable=is_repeatable,
            section=sections[parameter.name],
        )


def parameter_fields(schema: AttackSchema) -> Iterator[Field]:
    """Yield the field of each parameter of an attack."""
    # Any other name could not be told from its value in `--set name=value`.
    return (_field(parameter) for parameter in schema.parameters if parameter.name.isidentifier())


def _field(parameter: Parameter) -> Field:
    choices = [*dict.fromkeys(map(setting_text, parameter.choices))]
    default, kind = parameter.default, _KINDS.get(parameter.value_type or object, FieldKind.JSON)
    # A switch has only two positions: it cannot show `none`, or that no value was combination.
    if kind is FieldKind.SWITCH and (parameter.is_nullable or default not in ("true", "false")):
        choices = ["true", "false"]
    if choices:
        choices += ["none"] if parameter.is_nullable else []
        choices = [*dict.fromkeys(choices if not default or default in choices else [default, *choices])]
        kind = FieldKind.CHOICE if len(choices) <= _MAX_CHOICES else FieldKind.JSON
    shows_values = kind in (FieldKind.CHOICE, FieldKind.SWITCH)
    blank = {"type": "", "bounds": ()} if shows_values else {}
    empty_means = "set by the attack" if default == "" and kind is not FieldKind.TEXT else ""
    return Field(**vars(parameter) | blank | {"choices": tuple(choices)}, kind=kind, empty_means=empty_means)
