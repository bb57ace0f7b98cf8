"""The form of a new run: its fields for any schema, validation, and the command line."""

from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field as ParamsField
from pydantic import ValidationError

from harness.audits.registry import AUDITS
from harness.core.attack import Params
from harness.core.rounds import load_round
from harness.core.run_request import RunRequest
from harness.plugins.discovery import AttackFile
from harness.plugins.schema import AttackSchema
from harness.tui.form import Field, FieldKind, Form, round_description
from harness.tui.screens.new_run import MAX_PARAMETERS, audit_form, form_for


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
        ("trials", FieldKind.NUMBER, "2"),
        ("rate", FieldKind.NUMBER, "1.0"),
        ("deep", FieldKind.SWITCH, "false"),
        ("mode", FieldKind.CHOICE, "a"),
        ("power", FieldKind.CHOICE, "1"),
        ("size", FieldKind.CHOICE, "small"),
        ("some", FieldKind.NUMBER, "3"),
        ("maybe", FieldKind.CHOICE, "none"),
        ("either", FieldKind.JSON, "0"),
        ("layers", FieldKind.JSON, "[1]"),
        ("fresh", FieldKind.JSON, ""),
        ("source", FieldKind.PATH, "none"),
        ("label", FieldKind.TEXT, "x"),
        ("needed", FieldKind.NUMBER, None),
        ("switch_needed", FieldKind.CHOICE, None),
        ("--round", FieldKind.ROUND, None),
        ("--dtype", FieldKind.CHOICE, "auto"),
    ],
)
def test_each_type_has_its_field_kind_and_default(key: str, kind: FieldKind, default: str | None) -> None:
    assert (FIELDS[key].kind, FIELDS[key].default) == (kind, default)


def test_choices_are_written_as_on_the_command_line() -> None:
    assert FIELDS["size"].choices == ("small", "vast")
    assert FIELDS["power"].choices == ("1", "2")
    assert FIELDS["maybe"].choices == ("true", "false", "none")


def test_a_field_shows_its_bounds_default_and_description() -> None:
    assert FIELDS["trials"].placeholder == "whole number, at least 1, at most 9"
    assert FIELDS["trials"].facts == "at least 1, at most 9; default 2"
    assert FIELDS["some"].facts == "at least 2, or none; default 3"
    assert "at least 1 item, at most 2 items" in FIELDS["layers"].facts
    assert FIELDS["trials"].description == "Draws."


@pytest.mark.parametrize(
    ("key", "text", "error"),
    [
        ("trials", "0", "must be at least 1"),
        ("trials", "10", "must be at most 9"),
        ("trials", "two", "must be a whole number"),
        ("trials", "9" * 5000, "Unable to parse input string as an integer, exceeded maximum size"),
        ("trials", "", None),
        ("even", "3", "must be a multiple of 2"),
        ("rate", "0", "must be more than 0.0"),
        ("rate", "10", "must be less than 10.0"),
        ("rate", "nan", "must be a finite number"),
        ("rate", "fast", "must be a number"),
        ("mode", "c", "expected one of a, b"),
        ("some", "none", None),
        ("some", "1", "must be at least 2"),
        ("either", "anything", None),
        ("layers", "1", "must be a list, written as JSON"),
        ("layers", "[1", "must be a list, written as JSON"),
        ("layers", "[" * 100_000, "must be a list, written as JSON"),
        ("layers", "[]", "must have at least 1 item, not 0"),
        ("layers", "[1, 2, 3]", "must have at most 2 items, not 3"),
        ("source", "/no/such/place", "no such file or directory"),
        ("source", "~nobody-of-this-name/x", "~nobody-of-this-name/x: unknown user. Write the complete path"),
        ("source", "x" * 5000, "not a valid path"),
        ("source", "/", None),
        ("label", "A", "must match ^[a-z]+$"),
        ("label", "", "must match ^[a-z]+$"),
        ("label", "aaaa", "must have at most 3 characters"),
        ("needed", "", None),
        ("--seed", "-1", "must be at least 0"),
        ("--limit", "0", "must be at least 1"),
        ("--limit", "", None),
        ("--dtype", "int3", "expected one of auto, float32, float16, bfloat16"),
        ("--round", "demo", None),
        ("--round", "demo:fold1of5", None),
        ("--round", "demmo", "unknown round 'demmo': did you mean demo?"),
        ("--round", "/dev/zero", "/dev/zero: not a regular file. Name a file"),
        (
            "--round",
            "~nobody-of-this-name/x.toml",
            "~nobody-of-this-name/x.toml: unknown user. Write the complete path",
        ),
    ],
)
def test_a_validation_error_is_one_short_clause(key: str, text: str, error: str | None) -> None:
    assert FIELDS[key].error(text) == error


def test_a_round_has_a_description() -> None:
    assert round_description(load_round("demo")).endswith("budget 10:00")


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (
            "--budget: 'soon' is no duration: write 24h.",
            {"--budget": "'soon' is no duration: write 24h"},
        ),
        ("--seed: must be at least 0.", {"--seed": "must be at least 0"}),
        (
            "--set: trials: must be 1; or 2; rate: must be a number, got 'x'.",
            {"trials": "must be 1; or 2", "rate": "must be a number, got 'x'"},
        ),
        ("--set: [/ high is below low.", {}),
        ("--set: unknown parameter 'x': see harness show some.", {}),
        ("--accept: no such check.", {}),
        ("no such directory: /no/such.", {}),
    ],
)
def test_an_error_of_the_command_is_about_the_fields_that_it_names(error: str, refused: dict[str, str]) -> None:
    assert FORM.refused(error) == refused


def test_a_round_without_its_data_names_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path))
    error = FIELDS["--round"].error("satml-val")
    assert error is not None and error.endswith("is missing: see harness data status")


def test_invalid_and_exponential_patterns_are_safe() -> None:
    for pattern in ("(?=a)b", "(", "(a+)+$"):
        field = Field("p", kind=FieldKind.TEXT, rules={"type": "string", "pattern": pattern})
        field.error("a" * 5000 + "!")


INTEGERS = st.integers() | st.integers(-3, 12)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.floats(-1, 12)
TEXTS = st.text(st.characters(codec="utf-8")) | st.from_regex("[a-z]{1,4}", fullmatch=True)


@given(INTEGERS, NUMBERS, TEXTS)
def test_a_value_is_invalid_exactly_when_pydantic_rejects_it(integer: int, number: float, text: str) -> None:
    for key, typed in (("trials", str(integer)), ("even", str(integer)), ("rate", str(number)), ("label", text)):
        assert (FIELDS[key].error(typed) is None) == is_accepted(key, typed), key


def is_accepted(name: str, text: str) -> bool:
    try:
        Everything.model_validate_strings({"needed": "1", "switch_needed": "true", name: text})
    except ValidationError:
        return False
    return True


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner))
KEYWORDS = st.sampled_from(
    [
        *("type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "format", "default", "description"),
        *("items", "minimum", "exclusiveMaximum", "multipleOf", "minLength", "maxItems", "pattern"),
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
def test_every_schema_has_a_form_with_valid_defaults(
    properties: Any, definitions: Any, required: Any, text: str
) -> None:
    form = form_of({"properties": properties, "$defs": definitions, "required": required})
    for field in form.fields:
        assert (field.facts, field.placeholder) is not None
        if field.kind is not FieldKind.ROUND:
            field.error(text)
            assert field.default is None or field.error(field.default) is None


def test_a_form_omits_parameters_beyond_the_limit() -> None:
    form = form_of({"properties": {f"p{number}": {"type": "integer"} for number in range(1000)}})
    assert form.omitted == 1000 - MAX_PARAMETERS


def test_the_reference_model_of_the_attack_is_a_placeholder() -> None:
    attack = AttackFile(name="some", path=Path("some.py"), origin="./attacks", reference_model="gpt2")
    form = form_for(attack, AttackSchema({}, "", None, ()), attacks_folder=None)
    fields = [field for one in (form, form_of({})) for field in one.fields if field.key == "--reference"]
    assert [field.placeholder for field in fields] == ["gpt2", "none"]
    assert form.command_line({"--round": "demo", "--reference": "x"})[-2:] == ["--reference", "x"]


def test_an_attack_without_a_target_has_no_target_fields() -> None:
    keys = {field.key for field in form_of({}, uses_target=False).fields}
    assert keys == {
        *("--round", "--budget", "--seed", "--limit", "--guesses-per-example"),
        *("--devices", "--group", "--ray", "--share-device", "--shards"),
    }


def test_the_command_line_omits_defaults() -> None:
    defaults = {field.key: field.default or "" for field in FORM.fields}
    assert FORM.command_line(defaults | {"--round": "demo"}) == ["run", "some", "--round", "demo"]
    edited = defaults | {"--round": "demo", "seed": "6", "--seed": "7", "trials": "", "rate": " 2.5 "}
    assert FORM.command_line(edited) == [
        *("run", "some", "--round", "demo", "--set", "rate=2.5", "--set", "seed=6", "--seed", "7"),
    ]


def test_the_command_line_names_the_attacks_directory() -> None:
    form = form_of({}, folder=Path("/some where"))
    assert form.command_line({"--round": "demo"})[-2:] == ["--attacks", "/some where"]


PARAMETERS = [field for field in FORM.fields if not field.is_option]


@given(st.fixed_dictionaries({}, optional={field.key: st.text() for field in PARAMETERS}))
def test_settings_survive_the_command_line(values: dict[str, str]) -> None:
    command = FORM.command_line(values)
    settings = [command[at + 1] for at, word in enumerate(command) if word == "--set" and command[at - 1] != "--set"]
    expected = {field.key: field.value_of(values[field.key]) for field in PARAMETERS if field.key in values}
    given = {key: value for key, value in expected.items() if value is not None}
    assert RunRequest(round="", settings=tuple(settings)).params == given


def test_what_is_needed_is_missing_until_one_value_of_its_group_is_given() -> None:
    assert set(FORM.missing(FORM.defaults)) == {"needed", "switch_needed", "--round"}
    assert FORM.errors(FORM.defaults | {"--round": "demo", "needed": "x"}).keys() == {"needed", "switch_needed"}
    form = audit_form("sequence")
    needed = "needed, or round or completions"
    assert form.missing(form.defaults)["--corpus"] == needed
    assert form.missing({"--corpus": "texts"}) == {"--target": "needed, or round or completions or endpoint"}
    assert form.missing({"--corpus": "texts", "--target": "demo"}) == form.missing({"--round": "demo"}) == {}


@pytest.mark.parametrize(
    ("audit", "texts", "words"),
    [
        ("compare", {"--target": "./a, ./b"}, ["--target", "./a", "--target", "./b"]),
        ("compare", {"--budget": "", "--device": " "}, []),
        ("book", {"--text": "a b.txt, c.txt"}, ["a b.txt", "c.txt"]),
        (
            "leakage",
            {"--pairs": "pairs.npz", "--keep-line-ends": "true", "--seed": "3", "--budget": "24h"},
            ["pairs.npz", "--keep-line-ends", "--seed", "3"],
        ),
    ],
    ids=["repeated option", "empty options", "repeated argument", "argument, flag and option"],
)
def test_values_become_arguments_options_and_flags(audit: str, texts: dict[str, str], words: list[str]) -> None:
    assert audit_form(audit).command_line(texts) == ["audit", audit, *words]


@pytest.mark.parametrize("audit", AUDITS)
def test_every_audit_has_a_form(audit: str) -> None:
    form = audit_form(audit)
    assert form.command == ("audit", audit)
    assert {"seed", "budget", "device"} <= {field.name for field in form.fields}
    assert all(field.description for field in form.fields)
    assert form.command_line({}) == ["audit", audit]
    kinds = {field.name: field.kind for field in audit_form("leakage").fields}
    assert kinds["round"] is FieldKind.ROUND and kinds["keep-line-ends"] is FieldKind.SWITCH
