"""What documents say of a run is what its record and its round's files say."""

from pathlib import Path

import numpy as np
import pytest

from harness.core.overlap import overlap
from harness.jobs.attack.results import scorecard_of, submission_now
from harness.runs.reader import RunReader, StageWork
from harness.submit.facts import Moment, run_facts
from harness.submit.tables import queries_in_words, training_in_words
from tests.unit.submit.ended import ended_run
from tests.unit.tui.recorded import EXAMPLES, recorded_run


def test_the_score_is_the_scorecard_s_and_the_curve_ends_there(home: Path) -> None:
    run = ended_run(home)
    facts = run_facts(run)
    scorecard = scorecard_of(run.spec(), submission_now(run))
    assert facts.score is not None
    assert facts.score.as_json().items() <= scorecard.items()
    assert (facts.exact_at_1, facts.any_of_n) == (6 / EXAMPLES, 6 / EXAMPLES)
    assert facts.course == (
        Moment(0.0, 0, 0.0),
        Moment(1.5, EXAMPLES, 6 / EXAMPLES),
        Moment(2.5, EXAMPLES, 6 / EXAMPLES),
    )


def test_what_was_queried_is_counted_by_stage(home: Path) -> None:
    queries = run_facts(ended_run(home)).queries
    assert queries.stages == (StageWork("guess", 2.0 * EXAMPLES, 1.0, 1),)
    assert (queries.engine_calls, queries.rows_at_once, queries.repeated_batches, queries.executions) == (
        1,
        (64, 64),
        0,
        1,
    )


def test_a_stage_is_told_apart_by_all_of_its_name(home: Path) -> None:
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
        assert reader.stages() == [
            StageWork("a/b", 9.0, 2.0, 2),
            StageWork("a", 1.0, 1.0, 1),
            StageWork("later", 5.0, 0.0, 0),
        ]
    recorded.store.close()


def test_a_blind_run_has_no_figure_that_needs_answers(home: Path) -> None:
    facts = run_facts(ended_run(home, is_blind=True))
    assert facts.score is facts.walk is facts.exact_at_1 is facts.any_of_n is facts.unreachable is None
    assert [moment.recall for moment in facts.course] == [None, None]
    assert facts.training.overlap is not None and facts.training.overlap.reachable is None


def test_a_run_that_was_blind_has_its_whole_curve_once_the_answers_are_there(home: Path) -> None:
    run = ended_run(home, is_blind=True)
    spec = run.spec()
    answered = spec.round.model_copy(update={"answer_file": home / f"answer-{EXAMPLES}.npy"})
    run.spec_file.write_text(spec.model_copy(update={"round": answered}).model_dump_json())
    assert run_facts(run).course[1] == Moment(1.5, EXAMPLES, 6 / EXAMPLES)


def test_overlap_counts_the_attacked_examples_alone(home: Path) -> None:
    run = ended_run(home, limit=10)
    for attacked, trained in (("prefix", "train_prefix"), ("answer", "train_suffix")):
        file = home / f"{trained}-{EXAMPLES}.npy"
        np.save(file, np.concatenate([np.load(file)[:8], np.load(home / f"{attacked}-{EXAMPLES}.npy")[8:]]))
    assert overlap(run.spec().round).has_known_prefix.sum() == 8
    facts = run_facts(run)
    found = facts.training.overlap
    assert found is not None
    assert (found.known_prefix, found.known_prefix_is_right, found.clusters) == (2, 2, None)
    assert facts.score is not None and facts.score.examples == 10


@pytest.mark.parametrize("was_read", [True, False])
def test_training_rows_are_said_to_be_read_only_where_the_record_says_so(was_read: bool, home: Path) -> None:
    recorded = recorded_run(home)
    if was_read:
        recorded.event("worker_read_train")
    recorded.store.close()
    facts = run_facts(recorded.folder)
    assert facts.training.was_read is was_read
    said = "says" if was_read else "does not say"
    assert (
        training_in_words(facts) == f"The round offers 16 training rows; the record {said} that the attack read them."
    )


def test_a_round_whose_training_rows_are_gone_is_described_and_the_reason_told(home: Path) -> None:
    run = ended_run(home)
    (home / f"train_prefix-{EXAMPLES}.npy").unlink()
    facts = run_facts(run)
    assert facts.score is not None and facts.training.rows is None
    assert "cannot be told now" in training_in_words(facts) and "no such file" in training_in_words(facts)


def test_an_attack_without_a_target_is_said_to_have_asked_none(home: Path) -> None:
    assert "uses no target, and none was loaded" in queries_in_words(run_facts(ended_run(home)))
