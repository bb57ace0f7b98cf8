"""The submission and the scorecard of a run: pure functions of run.db and the answers."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.core.arrays import Floats, Ints, Tokens
from harness.core.examples import load_answers, load_clusters
from harness.core.files import write_atomically
from harness.core.guesses import Guesses
from harness.core.scoring import correct_rows, exact_at_1, score_rows
from harness.core.submission import current_rows, submission_order, write_submission
from harness.jobs.attack.reader import GuessReader
from harness.jobs.attack.spec import AttackSpec
from harness.runs.folder import RunFolder


@dataclass(frozen=True)
class Submission:
    """ids [rows] and suffixes [rows, length] in submission order; `left_out` counts rows beyond the row cap."""

    ids: Ints
    suffixes: Tokens
    left_out: int


def submission_of(spec: AttackSpec, reader: GuessReader) -> Submission:
    """Return the current submission."""
    final = reader.final_order()
    return _submission(spec, ranked_guesses(spec, reader) if final is None else final)


def ranked_guesses(spec: AttackSpec, reader: GuessReader) -> Guesses:
    """Return the valid guesses in the order of their scores, limited to what the attack may submit per example."""
    return _rank(spec, reader.guesses())


def scorecard_of(spec: AttackSpec, submission: Submission) -> dict[str, Any]:
    """Return the content of scorecard.json: counts, and the score if answers are known."""
    counts: dict[str, Any] = {
        "round": spec.round.name,
        "rows": len(submission.ids),
        "rows_left_out": submission.left_out,
        "examples_guessed": int(np.unique(submission.ids).size),
    }
    answers = load_answers(spec.round)
    if answers is None:
        return counts | {"is_blind": True}
    clusters = load_clusters(spec.round)
    answers = answers[: spec.examples]
    score = score_rows(
        correct_rows(submission.ids, submission.suffixes, answers),
        submission.ids,
        cap=spec.error_cap,
        examples=len(answers),
        clusters=None if clusters is None else clusters[: spec.examples],
    )
    counts["exact_at_1"] = exact_at_1(submission.ids, submission.suffixes, answers)
    return counts | {"is_blind": False} | score.as_json()


def any_of_n(spec: AttackSpec, guesses: Guesses, final: Guesses | None) -> float | None:
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


def submission_with_scores(folder: RunFolder) -> tuple[Submission, Floats]:
    """Return the current submission and the score of each row, [rows]; for a final order the negative row number."""
    spec = folder.attack_spec()
    with GuessReader.of_run(folder, spec) as reader:
        final = reader.final_order()
        ordered = ranked_guesses(spec, reader) if final is None else final
    submission = _submission(spec, ordered)
    rows = len(submission.ids)
    return submission, ordered.score[:rows] if final is None else -np.arange(rows, dtype=np.float64)


def every_guess(folder: RunFolder) -> Guesses:
    """Return the valid guesses in arrival order, each (example, suffix) once."""
    with GuessReader.of_run(folder, folder.attack_spec()) as reader:
        guesses = reader.guesses()
    return guesses.part(current_rows(guesses.ids, guesses.suffixes))


def write_results(folder: RunFolder, spec: AttackSpec) -> None:
    """Write submission.csv and scorecard.json, each completely or not at all."""
    with GuessReader.of_run(folder, spec) as reader:
        guesses, final = reader.guesses(), reader.final_order()
    submission = _submission(spec, _rank(spec, guesses) if final is None else final)
    write_submission(folder.submission, submission.ids, submission.suffixes)
    write_atomically(folder.scorecard, scorecard_text(spec, submission, any_of_n(spec, guesses, final)))


def scorecard_text(spec: AttackSpec, submission: Submission, any_of_n: float | None) -> str:
    """Return the content of scorecard.json as it is written at the end of a run."""
    return json.dumps(scorecard_of(spec, submission) | {"any_of_n": any_of_n}, indent=2) + "\n"


def _rank(spec: AttackSpec, guesses: Guesses) -> Guesses:
    order = submission_order(
        guesses.ids, guesses.suffixes, guesses.score, per_example=spec.attack.guesses_per_example, row_cap=None
    )
    return guesses.part(order)


def _submission(spec: AttackSpec, ordered: Guesses) -> Submission:
    kept = min(len(ordered), spec.round.row_cap)
    return Submission(ordered.ids[:kept], ordered.suffixes[:kept], len(ordered) - kept)
