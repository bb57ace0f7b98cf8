"""The candidates of an example: guesses of all runs, and how many of a run contain a right suffix."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from harness.core.arrays import Tokens
from harness.core.errors import UsageError
from harness.core.examples import load_answers, load_prefixes
from harness.core.guesses import Guesses, concatenate_guesses
from harness.core.inputs import as_harness_error
from harness.core.scoring import correct_rows
from harness.core.submission import submission_order
from harness.core.text import pluralize
from harness.runs.attack_record import submission_of
from harness.runs.folder import RunFolder
from harness.runs.guess_reader import GuessReader
from harness.runs.specs import AttackSpec

VERDICTS = {True: "✓", False: "✗", None: "·"}
"""Signs for correct, wrong and unknown."""


class RightGuess(NamedTuple):
    """The place of the right guess of an example in a submission."""

    words: str
    """The reason that the guess does not count, or the row at which it does; empty if no guess is right."""
    counts: bool = False


def right_guess_of(folder: RunFolder, example: "Example") -> RightGuess:
    """Return where the right guess of `example` is in the run's submission.

    Raises HarnessError if the run cannot be read.
    """
    spec = folder.attack_spec()
    answers = load_answers(spec.round)
    if answers is None or not any(candidate.is_right for candidate in example.candidates):
        return RightGuess("")
    with as_harness_error(folder.path), GuessReader.of_run(folder, spec) as reader:
        submission = submission_of(spec, reader)
    is_correct = correct_rows(submission.ids, submission.suffixes, answers)
    rows = np.flatnonzero(is_correct & (submission.ids == example.id))
    if not len(rows):
        limit = spec.attack.guesses_per_example
        return RightGuess(f"its right guess is not in the submission, which has {limit} per example")
    row = int(rows[0])
    wrong = int((~is_correct[:row]).sum())
    if wrong < spec.error_cap:
        return RightGuess(f"solved at row {row + 1:,}, after {pluralize(wrong, 'error')}", counts=True)
    place = f"row {row + 1:,} is after {pluralize(wrong, 'error')} (cap {spec.error_cap})"
    return RightGuess(f"its right guess does not count: {place}")


@dataclass(frozen=True)
class Candidate:
    """One suffix guessed for an example."""

    suffix: Tokens
    """Token ids, [length]."""
    score: float
    """Last score that it was given."""
    times: int
    """Number of times that it was guessed."""
    is_right: bool | None
    """True if the guess is the answer. Null in a blind round."""


@dataclass(frozen=True)
class Example:
    """One example with the candidates of one run."""

    id: int
    prefix: Tokens
    """Token ids of the prefix, [prefix length]."""
    answer: Tokens | None
    """Token ids of the answer, [length]. Null in a blind round."""
    candidates: tuple[Candidate, ...]
    """Candidates in submission order."""

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object.

        Keys:
            example (number): Id of the example.
            prefix, answer, candidates
        """
        return {
            "example": self.id,
            "prefix": self.prefix,
            "answer": self.answer,
            "candidates": [vars(candidate) for candidate in self.candidates],
        }


def load_example(folder: RunFolder, id_: int) -> Example:
    """Return example `id_` with the candidates of the run.

    Raises HarnessError if the run did not attack this example or cannot be read.
    """
    spec = folder.attack_spec()
    if not 0 <= id_ < spec.examples:
        raise UsageError(f"{folder.id} did not attack example {id_:,}. Choose an id from 0 to {spec.examples - 1:,}.")
    answers = load_answers(spec.round)
    answer = None if answers is None else answers[id_]
    with as_harness_error(folder.path):
        guesses = _guesses_for(folder, spec, id_)
    order = submission_order(guesses.ids, guesses.suffixes, guesses.score, per_example=0)
    _, group, times = np.unique(guesses.suffixes, axis=0, return_inverse=True, return_counts=True)
    candidates = tuple(
        Candidate(
            suffix=guesses.suffixes[row],
            score=float(guesses.score[row]),
            times=int(times[group[row]]),
            is_right=None if answer is None else bool((guesses.suffixes[row] == answer).all()),
        )
        for row in order
    )
    return Example(id_, load_prefixes(spec.round)[id_], answer, candidates)


def _guesses_for(folder: RunFolder, spec: AttackSpec, id_: int) -> Guesses:
    if not folder.store.exists():
        return concatenate_guesses([], suffix_length=spec.round.suffix_length)
    with GuessReader.of_run(folder, spec) as reader:
        arrived = reader.arrivals(example=id_, limit=-1)
        return arrived.guesses.part(arrived.valid_rows(reader.repeated_batches()))
