"""spec.json and round.toml of a bundle are read back as they were written."""

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import HarnessError
from harness.core.rounds import FILE_FIELDS, Round, load_round
from harness.submit.code_folder import (
    SPEC,
    code_spec_from_run,
    read_code_spec,
    round_toml,
    to_toml,
    write_blind_round,
)
from tests.unit.tui.recorded import recorded_run
from tests.unit.tui.recorded_audit import MODEL

ROUND = Round(
    name="r", title="A title", prefix_file=Path("/secret/p.npy"), answer_file=Path("/secret/a.npy"), target="t"
)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
value = text | st.integers(-(2**60), 2**60) | st.booleans() | st.lists(text, max_size=3) | st.floats(0, 1e9)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), value, max_size=5))
@settings(deadline=None)
def test_toml_is_read_back_unchanged(fields: dict[str, object]) -> None:
    assert tomllib.loads(to_toml(fields)) == fields


@given(text)
@settings(deadline=None)
def test_round_rules_are_read_back_with_any_title(title: str) -> None:
    rules = round_toml(ROUND.model_copy(update={"title": title}))
    fields = tomllib.loads(rules.decode())
    assert Round.model_validate(fields | {"prefix_file": "p.npy", "target": "t"}).title == title


def test_round_rules_contain_no_file_and_no_target() -> None:
    fields = tomllib.loads(round_toml(ROUND).decode())
    assert not set(fields) & {*FILE_FIELDS, "answer_rows", "train_rows", "fold", "source", "target", "revision"}
    assert {"prefix_length", "suffix_length", "vocabulary", "error_cap", "row_cap", "budget"} <= set(fields)


def test_a_blind_round_has_the_rules_and_no_answers(tmp_path: Path) -> None:
    ahead = load_round(str(write_blind_round(ROUND, tmp_path)))
    assert round_toml(ahead) == round_toml(ROUND)
    assert ahead.is_blind and ahead.prefix_file.parent == tmp_path


def test_a_fold_has_no_blind_round(tmp_path: Path) -> None:
    files = {"train_prefix_file": Path("/p"), "train_suffix_file": Path("/s")}
    with pytest.raises(HarnessError, match="is a fold of training rows"):
        write_blind_round(ROUND.model_copy(update=files).derived_fold(0), tmp_path)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b"{" * 9000, json.dumps({"attack": "x"}).encode()])
def test_an_invalid_spec_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / SPEC).write_bytes(content)
    with pytest.raises(HarnessError, match=r"spec\.json: ") as refusal:
        read_code_spec(tmp_path)
    assert len(str(refusal.value)) < 400


def test_the_spec_of_an_earlier_bundle_has_no_reference_model(home: Path) -> None:
    run = recorded_run(home).folder.attack_spec().model_copy(update={"target": MODEL, "reference": MODEL})
    spec = code_spec_from_run(run, trains=False)
    assert spec.reference is not None and spec.reference.identity.weights_sha256 == MODEL.weights_sha256
    (home / SPEC).write_text(spec.model_dump_json())
    assert read_code_spec(home) == spec
    (home / SPEC).write_text(spec.model_dump_json(exclude={"reference": True, "attack": {"reference_model"}}))
    assert read_code_spec(home) == spec.model_copy(update={"reference": None})


def test_a_missing_spec_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="Expected the folder code/ of a bundle"):
        read_code_spec(tmp_path)
