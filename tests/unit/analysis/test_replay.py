"""Replayed guesses: the recall at any moment is that of the submission at that moment."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analysis import replay
from harness.analysis.parts import Part
from harness.analysis.replay import Moments, moments_of, recall_after_guesses
from harness.core.examples import load_answers
from harness.core.intervals import JudgedRows
from harness.core.scoring import correct_rows
from harness.runs.attack_record import submission_of
from harness.runs.guess_reader import GuessReader
from tests.functional.machine import homes
from tests.records import EXAMPLES, Recorded, recorded_run

rows = st.lists(st.tuples(st.integers(0, EXAMPLES - 1), st.booleans()), min_size=1, max_size=30)


@pytest.fixture
def run(home: Path) -> Recorded:
    return recorded_run(home)


@settings(max_examples=10, deadline=None)  # each example writes stores to disk
@given(rows, st.data())
def test_recall_at_each_moment_is_that_of_a_run_that_ended_there(
    tmp_path_factory: pytest.TempPathFactory, guesses: list[tuple[int, bool]], data: st.DataObject
) -> None:
    is_member = np.array(data.draw(st.lists(st.booleans(), min_size=EXAMPLES, max_size=EXAMPLES).filter(any)))
    part = Part.whole(EXAMPLES, cap=3).where(is_member)
    counts = sorted(data.draw(st.sets(st.integers(0, len(guesses)), min_size=1, max_size=4)))
    # No score comes twice, so that none falls.
    scored = [(example, is_right, float(place)) for place, (example, is_right) in enumerate(guesses)]
    folder = tmp_path_factory.mktemp("replay")
    with home_of(folder):
        whole = recorded_run(folder)
        whole.guess(whole.batch("a"), scored)
        recalls = _replayed(whole, counts, part)
        expected = []
        for count in counts:
            shorter = recorded_run(folder, id_=f"n{count:03}-some")
            if count:
                shorter.guess(shorter.batch("a"), scored[:count])
            expected.append(_recall(shorter, part))
    assert recalls == pytest.approx(expected)


def test_void_guesses_score_nothing(run: Recorded) -> None:
    run.guess(run.batch("a"), [(0, True, 1.0)])
    run.guess(run.batch("a"), [(0, False, 1.0)])
    assert _replayed(run, [1, 2], Part.whole(EXAMPLES, cap=3)) == [0.0, 0.0]


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_the_read_size_does_not_change_the_recall(run: Recorded, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    run.guess(run.batch("a"), [(example, example % 3 == 0, -float(example)) for example in range(EXAMPLES)])
    part = Part.whole(EXAMPLES, cap=4)
    expected = _replayed(run, [0, 3, 8, 16], part)
    monkeypatch.setattr(replay, "_ROWS_AT_ONCE", at_once)
    assert _replayed(run, [0, 3, 8, 16], part) == expected


TRIALS = st.lists(st.tuples(st.integers(0, EXAMPLES - 1), st.booleans(), st.integers(1, 30)), min_size=1, max_size=30)


@settings(max_examples=10, deadline=None)  # each example writes stores to disk
@given(TRIALS)
def test_a_run_is_scored_after_1_and_10_trials_and_all_of_them(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[int, bool, int]]
) -> None:
    guesses = [(example, is_right, float(place * 7 % 31)) for place, (example, is_right, _) in enumerate(drawn)]
    with home_of(tmp_path_factory.mktemp("trials")) as folder:
        run = recorded_run(folder)
        run.guess(run.batch("guess/0/0"), guesses, [trial for *_, trial in drawn])
        moments = _moments(run)
    most = max(trial for *_, trial in drawn)
    assert [moment.trials for moment in moments.by_trials] == [n for n in (1, 10) if n < most] + [most]
    for moment in moments.by_trials:
        # The last score of each suffix, then the best suffix of each example, then the best scores first.
        scores = {
            guess[:2]: guess[2] for guess, row in zip(guesses, drawn, strict=True) if row[2] <= (moment.trials or 0)
        }
        best = {example: max((scores[key], key[1]) for key in scores if key[0] == example) for example, _ in scores}
        walk = [is_right for _, is_right in sorted(best.values(), reverse=True)]
        solved = sum(is_right for place, is_right in enumerate(walk) if walk[:place].count(False) < 3)
        assert moment.score.recall_at_cap == solved / EXAMPLES


def test_a_run_is_scored_after_shares_of_its_budget_and_at_its_end(run: Recorded) -> None:
    for place, spent in enumerate((0.1, 5.0, 30.0, 50.0)):
        run.guess(run.batch(f"guess/0/{place}"), [(place, True, 1.0)])
        with run.store.transaction():
            run.store.add_point(spent=spent, guesses=place + 1, rows=place + 1, solved=place + 1, wrong=0, recall=0.1)
    # The budget is a minute.
    moments = _moments(run, spent=50.0)
    assert [(moment.spent, moment.score.solved) for moment in moments.in_time] == [(0.6, 1), (6.0, 2), (50.0, 4)]
    assert [moment.name for moment in moments.in_time] == ["after 0.600 s", "after 6.00 s", "after 50.0 s"]
    assert moments.by_trials == () and moments.note == "The guesses of this attack have no trials."


def test_trials_of_a_run_that_is_not_complete_are_noted(run: Recorded) -> None:
    with run.store.transaction():
        run.store.add_plan("guess", EXAMPLES * 4.0)
        batch = run.store.begin_batch("guess/0/0", EXAMPLES * 1.0)
    run.guess(batch, [(0, True, 1.0)], [1])
    assert _moments(run).note == "The work is not complete: some examples have fewer trials."
    with run.store.transaction():
        run.store.end_batch(*batch)
        batch = run.store.begin_batch("guess/1/0", EXAMPLES * 3.0)
        run.store.end_batch(*batch)
    # The later trials drew the same suffix again.
    complete = _moments(run)
    assert [moment.trials for moment in complete.by_trials] == [1, 4] and complete.note == ""


def test_an_attack_that_sets_its_order_has_no_trials(run: Recorded) -> None:
    run.guess(run.batch("guess/0/0"), [(0, True, 1.0), (1, False, 2.0)], [1, 2])
    with run.store.transaction():
        run.store.add_final(np.array([0]), run.answers[:1])
    moments = _moments(run)
    assert moments.by_trials == () and moments.note.startswith("The attack orders its submission itself")
    assert moments.in_time[-1].score.solved == 1 and moments.in_time[-1].score.rows == 1


@contextlib.contextmanager
def home_of(folder: Path) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in homes(folder).items():
            patch.setenv(name, value)
        yield folder


def _moments(run: Recorded, spent: float = 1.0) -> Moments:
    spec = run.folder.attack_spec()
    answers, part = load_answers(spec.round), Part.whole(EXAMPLES, cap=3)
    assert answers is not None
    with GuessReader.of_run(run.folder, spec) as reader:
        rows = submission_of(spec, reader)
        last = JudgedRows(correct_rows(rows.ids, rows.suffixes, answers), rows.ids)
        return moments_of(part, spec=spec, reader=reader, answers=answers, spent=spent, last=last)


def _replayed(run: Recorded, counts: list[int], part: Part) -> list[float]:
    spec = run.folder.attack_spec()
    answers = load_answers(spec.round)
    assert answers is not None
    with GuessReader.of_run(run.folder, spec) as reader:
        return recall_after_guesses(counts, part, spec=spec, reader=reader, answers=answers)


def _recall(run: Recorded, part: Part) -> float:
    spec = run.folder.attack_spec()
    answers = load_answers(spec.round)
    assert answers is not None
    with GuessReader.of_run(run.folder, spec) as reader:
        submission = submission_of(spec, reader)
    is_correct = correct_rows(submission.ids, submission.suffixes, answers)
    return part.score(JudgedRows(is_correct, submission.ids)).recall_at_cap
