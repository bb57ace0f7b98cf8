"""The stored record of an attack run: its summary, its inputs, its submission and the files of its results."""

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness.core.arrays import Ints, Tokens
from harness.core.examples import load_answers, load_clusters
from harness.core.files import write_atomically
from harness.core.guesses import Guesses
from harness.core.live_score import LiveScore
from harness.core.scoring import correct_rows, exact_at_1, score_rows
from harness.core.submission import current_rows, submission_order, write_submission
from harness.runs.folder import RunFolder
from harness.runs.guess_reader import GuessReader
from harness.runs.specs import AttackSpec


@dataclass(frozen=True)
class Submission:
    """The rows of a submission, in its order."""

    guesses: Guesses
    """[rows]; the score is minus the number of the row, from 0, if the attack gave the whole order."""
    left_out: int
    """Number of rows beyond the row cap."""

    @property
    def ids(self) -> Ints:
        """[rows]"""
        return self.guesses.ids

    @property
    def suffixes(self) -> Tokens:
        """[rows, length]"""
        return self.guesses.suffixes


def submission_of(spec: AttackSpec, reader: GuessReader) -> Submission:
    """Return the current submission."""
    final = reader.final_order()
    return submission_from(spec, reader.guesses() if final is None else final, is_final=final is not None)


def submission_from(spec: AttackSpec, guesses: Guesses, *, is_final: bool = False) -> Submission:
    """Return the submission of valid guesses in arrival order, or of those of a final order."""
    if is_final:
        ordered = replace(guesses, score=-np.arange(len(guesses), dtype=np.float64))
    else:
        per_example = spec.attack.guesses_per_example
        order = submission_order(guesses.ids, guesses.suffixes, guesses.score, per_example=per_example)
        ordered = guesses.part(order)
    first = ordered.part(slice(0, spec.round.row_cap))
    return Submission(first, len(ordered) - len(first))


def attacked_answers(spec: AttackSpec) -> Tokens | None:
    """Return the right suffixes of the attacked examples, [examples, suffix length], or None in a blind round."""
    answers = load_answers(spec.round)
    return None if answers is None else answers[: spec.examples]


def empty_score(spec: AttackSpec, answers: Tokens | None) -> LiveScore:
    """Return the score of a run that has no guesses yet. `answers` has shape [examples, suffix length]."""
    return LiveScore(
        answers,
        examples=spec.examples,
        error_cap=spec.error_cap,
        row_cap=spec.round.row_cap,
        per_example=spec.attack.guesses_per_example,
    )


def scorecard_of(spec: AttackSpec, submission: Submission) -> dict[str, Any]:
    """Return the content of scorecard.json: counts, and the score if answers are known."""
    counts: dict[str, Any] = {
        "round": spec.round.name,
        "rows": len(submission.ids),
        "rows_left_out": submission.left_out,
        "examples_guessed": int(np.unique(submission.ids).size),
    }
    answers = attacked_answers(spec)
    if answers is None:
        return counts | {"is_blind": True}
    clusters = load_clusters(spec.round)
    score = score_rows(
        correct_rows(submission.ids, submission.suffixes, answers),
        submission.ids,
        cap=spec.error_cap,
        examples=len(answers),
        clusters=None if clusters is None else clusters[: spec.examples],
    )
    counts["exact_at_1"] = exact_at_1(submission.ids, submission.suffixes, answers)
    return counts | {"is_blind": False} | score.as_json()


def any_guess_correct(spec: AttackSpec, guesses: Guesses, final: Guesses | None) -> float | None:
    """Return the share of examples with any correct guess, an upper bound of recall; None in a blind round.

    `guesses` are all valid ones; the `final` order, if there is one, may contain suffixes that were never guessed.
    """
    answers = load_answers(spec.round)
    if answers is None:
        return None
    is_solved = np.zeros(spec.examples, np.bool_)
    for part in (guesses, final):
        if part is not None:
            is_solved[part.ids[correct_rows(part.ids, part.suffixes, answers)]] = True
    return float(is_solved.mean())


def submission_now(folder: RunFolder) -> Submission:
    """Return the current submission of a run."""
    spec = folder.attack_spec()
    with GuessReader.of_run(folder, spec) as reader:
        return submission_of(spec, reader)


def every_guess(folder: RunFolder) -> Guesses:
    """Return the valid guesses in arrival order, each (example, suffix) once."""
    with GuessReader.of_run(folder, folder.attack_spec()) as reader:
        guesses = reader.guesses()
    return guesses.part(current_rows(guesses.ids, guesses.suffixes))


def write_results(folder: RunFolder, spec: AttackSpec) -> None:
    """Write submission.csv and scorecard.json, each completely or not at all."""
    with GuessReader.of_run(folder, spec) as reader:
        guesses, final = reader.guesses(), reader.final_order()
    submission = submission_from(spec, guesses if final is None else final, is_final=final is not None)
    write_submission(folder.submission, submission.ids, submission.suffixes)
    scorecard = scorecard_of(spec, submission) | {"any_guess_correct": any_guess_correct(spec, guesses, final)}
    write_atomically(folder.scorecard, json.dumps(scorecard, indent=2) + "\n")
