"""Find out why the right guess of an example counts in a run's submission, or does not."""

from dataclasses import dataclass

import numpy as np

from harness.analysis.candidates import Example
from harness.core.examples import load_answers
from harness.core.scoring import correct_rows
from harness.runs.attack_record import submission_of
from harness.runs.errors import as_harness_error
from harness.runs.folder import RunFolder
from harness.runs.guess_reader import GuessReader


@dataclass(frozen=True)
class RightGuess:
    """The place of the right guess of an example in a submission.

    words: why the guess does not count, or at which row it does; empty if no guess is right.
    """

    words: str
    examples: int
    counts: bool = False


def right_guess_of(folder: RunFolder, example: Example) -> RightGuess:
    """Return where the right guess of `example` is in the run's submission.

    Raises HarnessError if the run cannot be read.
    """
    spec = folder.attack_spec()
    is_guessed = any(candidate.is_right for candidate in example.candidates)
    answers = load_answers(spec.round)
    if answers is None or not is_guessed or not folder.store.exists():
        return RightGuess("", spec.examples)
    with as_harness_error(folder.path), GuessReader.of_run(folder, spec) as reader:
        submission = submission_of(spec, reader)
    is_correct = correct_rows(submission.ids, submission.suffixes, answers)
    rows = np.flatnonzero(is_correct & (submission.ids == example.id))
    if not len(rows):
        limit = spec.attack.guesses_per_example
        return RightGuess(f"its right guess is not in the submission, which has {limit} per example", spec.examples)
    row = int(rows[0])
    wrong = int((~is_correct[:row]).sum())
    if wrong >= spec.error_cap:
        words = f"its right guess does not count: row {row + 1:,} is after {wrong:,} errors (cap {spec.error_cap})"
        return RightGuess(words, spec.examples)
    return RightGuess(f"solved at row {row + 1:,}, after {wrong:,} errors", spec.examples, counts=True)
