"""Replayed guesses: the recall at any moment is that of the submission at that moment."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analysis import replay
from harness.analysis.parts import Part
from harness.analysis.replay import recall_after_guesses
from harness.core.examples import load_answers
from harness.core.intervals import JudgedRows
from harness.core.scoring import correct_rows
from harness.runs.attack_record import submission_of
from harness.runs.guess_reader import GuessReader
from tests.functional.machine import homes
from tests.unit.tui.recorded import EXAMPLES, Recorded, recorded_run

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
    with pytest.MonkeyPatch.context() as patch:
        for name, value in homes(folder).items():
            patch.setenv(name, value)
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
