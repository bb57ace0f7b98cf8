"""A form made of whatever an attack says of its parameters, and the command line that it stands for."""

from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field as ParamsField
from pydantic import ValidationError

from harness.cli.resolving import settings_in
from harness.core.attack import Params
from harness.plugins.discovery import AttackFile
from harness.plugins.schema import AttackSchema
from harness.tui.faults import fault_in, round_in_words
from harness.tui.form import MAX_PARAMETERS, Field, Form, Kind, form_for


class Size(Enum):
    SMALL = "small"
    VAST = "vast"


class Everything(Params):
    trials: int = ParamsField(2, ge=1, le=9, description="Draws.")
    even: int = ParamsField(4, multiple_of=2)
    rate: float = ParamsField(1.0, gt=0, lt=10)
    deep: bool = False
    mode: Literal["a", "b"] = "a"
    power: Literal[1, 2] = 1
    size: Size = Size.SMALL
    some: int | None = ParamsField(3, ge=2)
    maybe: bool | None = None
    either: int | bool = 0
    layers: list[int] = ParamsField([1], min_length=1, max_length=2)
    fresh: list[int] = ParamsField(default_factory=lambda: [7])
    source: Path | None = None
    label: str = ParamsField("x", pattern="^[a-z]+$", max_length=3)
    seed: int = 5
    needed: int
    switch_needed: bool


def form_of(schema: dict[str, Any], *, uses_target: bool = True, folder: Path | None = None) -> Form:
    attack = AttackFile(name="some", path=Path("some.py"), origin="./attacks", uses_target=uses_target)
    return form_for(attack, AttackSchema(schema, "", None, ()), attacks_folder=folder)


FORM = form_of(Everything.model_json_schema())
FIELDS = {field.key: field for field in FORM.fields}


@pytest.mark.parametrize(
    ("key", "kind", "default"),
    [
        ("trials", Kind.INTEGER, "2"),
        ("rate", Kind.NUMBER, "1.0"),
        ("deep", Kind.SWITCH, "false"),
        ("mode", Kind.CHOICE, "a"),
        ("power", Kind.CHOICE, "1"),
        ("size", Kind.CHOICE, "small"),
        ("some", Kind.INTEGER, "3"),
        ("maybe", Kind.CHOICE, "none"),
        ("either", Kind.JSON, "0"),
        ("layers", Kind.JSON, "[1]"),
        ("fresh", Kind.JSON, ""),
        ("source", Kind.PATH, "none"),
        ("label", Kind.TEXT, "x"),
        ("needed", Kind.INTEGER, None),
        ("switch_needed", Kind.CHOICE, None),
        ("--round", Kind.ROUND, None),
        ("--dtype", Kind.CHOICE, "auto"),
    ],
)
def test_each_type_has_its_kind_of_field_and_its_default(key: str, kind: Kind, default: str | None) -> None:
    assert (FIELDS[key].kind, FIELDS[key].default) == (kind, default)


def test_choices_are_what_one_would_type() -> None:
    assert FIELDS["size"].choices == ("small", "vast")
    assert FIELDS["power"].choices == ("1", "2")
    assert FIELDS["maybe"].choices == ("true", "false", "none")


def test_a_field_tells_its_bounds_its_default_and_what_it_is_for() -> None:
    assert FIELDS["trials"].placeholder == "whole number, at least 1, at most 9"
    assert FIELDS["trials"].facts == "at least 1, at most 9; default 2"
    assert FIELDS["some"].facts == "at least 2, or none; default 3"
    assert FIELDS["trials"].description == "Draws."


@pytest.mark.parametrize(
    ("key", "text", "fault"),
    [
        ("trials", "0", "at least 1"),
        ("trials", "10", "at most 9"),
        ("trials", "two", "a whole number"),
        ("trials", "9" * 5000, "a whole number"),
        ("trials", "", None),
        ("even", "3", "a multiple of 2"),
        ("rate", "0", "more than 0"),
        ("rate", "10", "less than 10"),
        ("rate", "nan", "a number"),
        ("rate", "fast", "a number"),
        ("mode", "c", "one of a, b"),
        ("some", "none", None),
        ("some", "1", "at least 2"),
        ("either", "anything", None),
        ("layers", "1", "a list, written as JSON"),
        ("layers", "[1", "a list, written as JSON"),
        ("layers", "[" * 100_000, "a list, written as JSON"),
        ("layers", "[]", "at least 1 items"),
        ("layers", "[1, 2, 3]", "at most 2 items"),
        ("source", "/no/such/place", "no such file or folder"),
        ("source", "~nobody-of-this-name/x", "not a path of this machine"),
        ("source", "x" * 5000, "not a path of this machine"),
        ("source", "/", None),
        ("label", "A", "matching ^[a-z]+$"),
        ("label", "", "matching ^[a-z]+$"),
        ("label", "aaaa", "at most 3 characters"),
        ("needed", "", "required"),
        ("switch_needed", "", "required"),
        ("--seed", "-1", "at least 0"),
        ("--limit", "0", "at least 1"),
        ("--limit", "", None),
        ("--budget", "soon", "a duration such as 24h, 90m or 1h30m"),
        ("--budget", "90m", None),
        ("--device", "cuda:1", None),
        ("--device", "toaster", "auto, cpu, cuda, cuda:N or mps"),
        ("--dtype", "int3", "one of auto, float32, float16, bfloat16"),
        ("--round", "demo", None),
        ("--round", "demo:fold1of5", None),
        ("--round", "demmo", "unknown round 'demmo': did you mean demo?"),
        ("--round", "/dev/zero", "/dev/zero: a folder or a device, not a round file"),
        (
            "--round",
            "~nobody-of-this-name/x.toml",
            "~nobody-of-this-name/x.toml: unknown user. Write the complete path",
        ),
        ("--round", "", "required"),
    ],
)
def test_a_fault_is_one_short_clause(key: str, text: str, fault: str | None) -> None:
    assert fault_in(FIELDS[key], text) == fault


def test_a_round_says_what_it_is() -> None:
    assert round_in_words("demo").endswith("budget 10:00")


def test_a_round_without_its_prefixes_says_where_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path))
    fault = fault_in(FIELDS["--round"], "satml-val")
    assert fault is not None and fault.endswith("is not here: harness data status says how to get it")


def test_a_pattern_of_another_dialect_or_one_that_explodes_holds_nothing_up() -> None:
    for pattern in ("(?=a)b", "(", "(a+)+$"):
        field = Field("p", Kind.TEXT, None, rules={"type": "string", "pattern": pattern})
        fault_in(field, "a" * 5000 + "!")


@given(st.integers() | st.integers(-3, 12))
def test_a_whole_number_is_at_fault_exactly_when_the_attack_refuses_it(value: int) -> None:
    assert (fault_in(FIELDS["trials"], str(value)) is None) == accepts("trials", str(value))
    assert (fault_in(FIELDS["even"], str(value)) is None) == accepts("even", str(value))


@given(st.floats(allow_nan=False, allow_infinity=False) | st.floats(-1, 12))
def test_a_number_is_at_fault_exactly_when_the_attack_refuses_it(value: float) -> None:
    assert (fault_in(FIELDS["rate"], str(value)) is None) == accepts("rate", str(value))


@given(st.text(st.characters(codec="utf-8")) | st.from_regex("[a-z]{1,4}", fullmatch=True))
def test_a_text_is_at_fault_exactly_when_the_attack_refuses_it(text: str) -> None:
    assert (fault_in(FIELDS["label"], text) is None) == accepts("label", text)


def accepts(name: str, text: str) -> bool:
    try:
        Everything.model_validate_strings({"needed": "1", "switch_needed": "true", name: text})
    except ValidationError:
        return False
    return True


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner))
KEYWORDS = st.sampled_from(
    [
        "type",
        "enum",
        "const",
        "anyOf",
        "oneOf",
        "allOf",
        "$ref",
        "format",
        "default",
        "description",
        "items",
        "minimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxItems",
        "pattern",
    ]
)
SHAPES = st.sampled_from(["integer", "number", "boolean", "string", "array", "null", "#/$defs/a", "path"])
DESCRIBED = st.recursive(
    JSON | SHAPES,
    lambda inner: st.dictionaries(KEYWORDS, inner | st.lists(inner, max_size=3), max_size=6),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from(["a", "b", "seed", "", "x=y", "--z", "[/"]), DESCRIBED) | JSON,
    JSON | st.dictionaries(st.just("a"), DESCRIBED),
    JSON | st.lists(st.sampled_from(["a", "b"])),
    st.text(max_size=8),
)
def test_no_schema_and_no_text_breaks_a_form_and_a_default_is_never_at_fault(
    properties: Any, definitions: Any, required: Any, text: str
) -> None:
    form = form_of({"properties": properties, "$defs": definitions, "required": required})
    for field in form.fields:
        assert (field.facts, field.placeholder) is not None
        if field.kind is not Kind.ROUND:
            fault_in(field, text)
            assert field.default is None or fault_in(field, field.default) is None


def test_a_schema_of_a_thousand_parameters_is_cut_and_says_so() -> None:
    form = form_of({"properties": {f"p{number}": {"type": "integer"} for number in range(1000)}})
    assert form.left_out == 1000 - MAX_PARAMETERS


def test_an_attack_without_a_target_is_not_asked_for_one() -> None:
    keys = {field.key for field in form_of({}, uses_target=False).fields}
    assert keys == {"--round", "--budget", "--seed", "--limit"}


def test_the_command_line_leaves_out_what_equals_its_default() -> None:
    defaults = {field.key: field.default or "" for field in FORM.fields}
    assert FORM.command_line(defaults | {"--round": "demo"}) == ["run", "some", "--round", "demo"]
    edited = defaults | {"--round": "demo", "seed": "6", "--seed": "7", "trials": "", "rate": " 2.5 "}
    assert FORM.command_line(edited) == [
        *("run", "some", "--round", "demo", "--set", "rate=2.5", "--set", "seed=6", "--seed", "7"),
    ]


def test_the_command_line_names_the_folder_that_the_attack_is_from() -> None:
    form = form_of({}, folder=Path("/some where"))
    assert form.command_line({"--round": "demo"})[-2:] == ["--attacks", "/some where"]


PARAMETERS = [field for field in FORM.fields if not field.is_option]


@given(st.fixed_dictionaries({}, optional={field.key: st.text() for field in PARAMETERS}))
def test_settings_on_the_command_line_are_read_back_as_they_were_typed(values: dict[str, str]) -> None:
    command = FORM.command_line(values)
    settings = [command[at + 1] for at, word in enumerate(command) if word == "--set" and command[at - 1] != "--set"]
    asked = {field.key: field.given(values[field.key]) for field in PARAMETERS if field.key in values}
    assert settings_in(settings) == {key: value for key, value in asked.items() if value is not None}
