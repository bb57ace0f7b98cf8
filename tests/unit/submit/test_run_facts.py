"""The facts about a run agree with its record, and spec.json and round.toml of a bundle are read back."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import HarnessError
from harness.core.examples import overlap
from harness.core.rounds import FILE_FIELDS, Round, load_round
from harness.runs.attack_record import scorecard_of, submission_now
from harness.runs.reader import RunReader, StageWork
from harness.submit.code_spec import SPEC, code_spec_from_run, read_code_spec, round_toml, to_toml, write_blind_round
from harness.submit.run_facts import run_facts
from harness.submit.run_tables import TARGET_AND_MACHINE, fact_rows, query_summary, training_overlap, training_summary
from tests.records import EXAMPLES, MODEL, recorded_run
from tests.unit.submit.ended import ended_run


def test_the_score_equals_the_scorecard_and_ends_the_curve(home: Path) -> None:
    run = ended_run(home)
    facts = run_facts(run)
    scorecard = scorecard_of(run.attack_spec(), submission_now(run))
    assert facts.score is not None
    assert facts.score.as_json().items() <= scorecard.items()
    assert (facts.exact_at_1, facts.any_guess_correct) == (6 / EXAMPLES, 6 / EXAMPLES)
    assert facts.curve == ((0.0, 0.0), (1.5, 6 / EXAMPLES), (2.5, 6 / EXAMPLES))


def test_queries_are_counted_by_stage(home: Path) -> None:
    facts = run_facts(ended_run(home))
    (stage,) = facts.stages
    assert replace(stage, seconds=0.0, pace=None, telling_batches=0) == StageWork("guess", 2.0 * EXAMPLES, 1.0, 1)
    assert (facts.repeated_batches, facts.executions) == (0, 1)


def test_a_reference_model_is_listed_with_its_weights(home: Path) -> None:
    facts = run_facts(ended_run(home))
    assert "Reference model" not in [name for name, *_ in fact_rows(facts, TARGET_AND_MACHINE)]
    both = replace(
        facts,
        spec=facts.spec.model_copy(update={"target": MODEL, "reference": MODEL, "versions": {"python": "3.11.7"}}),
    )
    rows = fact_rows(both, TARGET_AND_MACHINE)
    (row,) = [number for number, (name, *_) in enumerate(rows) if name == "Reference model"]
    assert rows[row : row + 2] == [
        ("Reference model", f"{MODEL.id}, weights sha256 {MODEL.weights_sha256}"),
        ("Loaded as", "cpu, precision float32, 1 thread"),
    ]


def test_stages_are_distinguished_by_their_whole_name(home: Path) -> None:
    recorded = recorded_run(home)
    for key in ("a/b/0/0", "a/b/1/64", "a/0/0"):
        batch = recorded.batch(key)
        with recorded.store.transaction():
            recorded.store.end_batch(*batch)
    with recorded.store.transaction():
        recorded.store.add_plan("a/b", 9.0)
        recorded.store.add_plan("a", 1.0)
        recorded.store.add_plan("later", 5.0)
    with RunReader(recorded.folder.store) as reader:
        assert [replace(stage, seconds=0.0, pace=None, telling_batches=0) for stage in reader.stages()] == [
            StageWork("a/b", 9.0, 2.0, 2),
            StageWork("a", 1.0, 1.0, 1),
            StageWork("later", 5.0, 0.0, 0),
        ]
    recorded.store.close()


def test_a_blind_run_has_no_scores(home: Path) -> None:
    facts = run_facts(ended_run(home, is_blind=True))
    assert (
        facts.score is facts.result is facts.exact_at_1 is facts.any_guess_correct is facts.parts.not_in_train is None
    )
    assert facts.curve == ((0.0, 0.0), (1.5, float(EXAMPLES)))
    assert facts.parts.overlap is not None and facts.parts.overlap.is_in_train is None


def test_a_blind_curve_is_replayed_with_later_answers(home: Path) -> None:
    run = ended_run(home, is_blind=True)
    spec = run.attack_spec()
    answered = spec.round.model_copy(update={"answer_file": home / f"answer-{EXAMPLES}.npy"})
    run.spec_file.write_text(spec.model_copy(update={"round": answered}).model_dump_json())
    assert run_facts(run).curve[1] == (1.5, 6 / EXAMPLES)


def test_overlap_counts_attacked_examples_only(home: Path) -> None:
    run = ended_run(home, limit=10)
    for attacked, trained in (("prefix", "train_prefix"), ("answer", "train_suffix")):
        file = home / f"{trained}-{EXAMPLES}.npy"
        np.save(file, np.concatenate([np.load(file)[:8], np.load(home / f"{attacked}-{EXAMPLES}.npy")[8:]]))
    assert overlap(run.attack_spec().round).has_known_prefix.sum() == 8
    facts = run_facts(run)
    rows = dict(training_overlap(facts))
    assert rows["Prefix occurs in a training row"] == rows["… with the answer as its suffix"] == "2 of 10 (20.0 %)"
    assert "Shares a cluster with a training row" not in rows
    assert facts.score is not None and facts.score.examples == 10


@pytest.mark.parametrize("was_read", [True, False])
def test_reading_training_rows_is_reported_from_the_record(was_read: bool, home: Path) -> None:
    recorded = recorded_run(home)
    if was_read:
        recorded.event("worker_read_train")
    recorded.store.close()
    facts = run_facts(recorded.folder)
    assert facts.read_training is was_read
    read = "the attack read them" if was_read else "there is no record that the attack read them"
    assert training_summary(facts) == f"The round has 16 training rows; {read}."


def test_missing_training_rows_are_reported(home: Path) -> None:
    run = ended_run(home)
    (home / f"train_prefix-{EXAMPLES}.npy").unlink()
    facts = run_facts(run)
    assert facts.score is not None and facts.parts.overlap is None
    assert "cannot be read" in training_summary(facts) and "no such file" in training_summary(facts)


def test_an_attack_without_a_target_is_described(home: Path) -> None:
    assert "does not use a target, and none was loaded" in query_summary(run_facts(ended_run(home)))


def test_a_part_that_repeats_the_whole_is_left_out(home: Path) -> None:
    parts = run_facts(ended_run(home)).parts
    assert parts.not_in_train is None and parts.overlap is not None
    assert parts.not_in_train_absent_because == "the training rows contain no answer."


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


def test_the_spec_of_a_bundle_names_both_models(home: Path) -> None:
    run = (
        recorded_run(home)
        .folder.attack_spec()
        .model_copy(update={"target": MODEL, "reference": MODEL, "versions": {"python": "3.11.7"}})
    )
    spec = code_spec_from_run(run, trains=False)
    assert spec.reference is not None and spec.reference.weights_sha256 == MODEL.weights_sha256
    (home / SPEC).write_text(spec.model_dump_json())
    assert read_code_spec(home) == spec


@pytest.mark.parametrize("name", ["../../../secret", "/etc", "a/b", "", "a b", "ünï"])
def test_a_parameter_cannot_be_a_path(name: str, home: Path) -> None:
    run = recorded_run(home).folder.attack_spec().model_copy(update={"versions": {"python": "3.11.7"}})
    spec = code_spec_from_run(run, trains=False).model_copy(update={"paths": {name: "0" * 64}})
    (home / SPEC).write_text(spec.model_dump_json())
    with pytest.raises(HarnessError, match="is not the name of an attack or a parameter"):
        read_code_spec(home)


def test_a_missing_spec_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="Expected the folder code/ of a bundle"):
        read_code_spec(tmp_path)
