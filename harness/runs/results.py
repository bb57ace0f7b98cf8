"""What a run comes to: its submission and scorecard, pure functions of run.db and the answers."""

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from harness.core.arrays import Floats, Ints, Tokens
from harness.core.examples import load_answers, load_clusters
from harness.core.files import write_atomically
from harness.core.guesses import Guesses
from harness.core.scoring import correct_rows, exact_at_1, score_rows
from harness.jobs.attack.spec import AttackSpec
from harness.core.submission import current_rows, submission_order, write_submission
from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader


@dataclass(frozen=True)
class Submission:
    """ids [rows], suffixes [rows, length], in submission order; `left_out` counts rows beyond the round's row cap."""

    ids: Ints
    suffixes: Tokens
    left_out: int


class Emitted(NamedTuple):
    """All guesses that count, in the order of their arrival, and the submission that an attack gave whole, if it did.

    The latter may hold suffixes that were never guessed.
    """

    guesses: Guesses
    final: Guesses | None


def submission_of(spec: AttackSpec, reader: RunReader) -> Submission:
    """The submission that run.db holds now."""
    final = _final_order(spec, reader)
    return _submission(spec, ranked_guesses(spec, reader) if final is None else final)


def ranked_guesses(spec: AttackSpec, reader: RunReader) -> Guesses:
    """The guesses that run.db holds now in the order of their scores, as many an example as the attack may submit."""
    return _ranked(spec, _guesses(spec, reader))


def scorecard_of(spec: AttackSpec, submission: Submission) -> dict[str, Any]:
    """What `scorecard.json` holds: the score where answers are known, and counts."""
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
    clusters = None if clusters is None else clusters[: spec.examples]
    score = score_rows(
        correct_rows(submission.ids, submission.suffixes, answers),
        submission.ids,
        cap=spec.error_cap,
        examples=len(answers),
        clusters=clusters,
    )
    counts["exact_at_1"] = exact_at_1(submission.ids, submission.suffixes, answers)
    return counts | {"is_blind": False} | score.as_json()


def emitted(spec: AttackSpec, reader: RunReader) -> Emitted:
    """What run.db holds now."""
    return Emitted(_guesses(spec, reader), _final_order(spec, reader))


def any_of_n(spec: AttackSpec, found: Emitted) -> float | None:
    """The share of examples with a right candidate anywhere, the recall of a perfect order; None in a blind round."""
    answers = load_answers(spec.round)
    if answers is None:
        return None
    solved = np.zeros(spec.examples, np.bool_)
    for guesses in found:
        if guesses is not None:
            solved[guesses.ids[correct_rows(guesses.ids, guesses.suffixes, answers)]] = True
    return float(solved.mean())


def submission_now(folder: RunFolder) -> Submission:
    """The submission that the run's record holds at this moment."""
    with RunReader(folder.store) as reader:
        return submission_of(folder.spec(), reader)


def submission_with_scores(folder: RunFolder) -> tuple[Submission, Floats]:
    """The same, and the score of each row, [rows]; of a submission that its attack gave whole, less the row's place."""
    spec = folder.spec()
    with RunReader(folder.store) as reader:
        final = _final_order(spec, reader)
        ordered = ranked_guesses(spec, reader) if final is None else final
    submission = _submission(spec, ordered)
    rows = len(submission.ids)
    return submission, ordered.score[:rows] if final is None else -np.arange(rows, dtype=np.float64)


def every_guess(folder: RunFolder) -> Guesses:
    """Every guess of the run that counts, in arrival order, once for each (example, suffix)."""
    with RunReader(folder.store) as reader:
        guesses = _guesses(folder.spec(), reader)
    return guesses.part(current_rows(guesses.ids, guesses.suffixes))


def write_results(folder: RunFolder, spec: AttackSpec) -> None:
    """Write submission.csv and scorecard.json, each whole or not at all."""
    with RunReader(folder.store) as reader:
        found = emitted(spec, reader)
    submission = _submission(spec, _ranked(spec, found.guesses) if found.final is None else found.final)
    write_submission(folder.submission, submission.ids, submission.suffixes)
    scorecard = scorecard_of(spec, submission) | {"any_of_n": any_of_n(spec, found)}
    write_atomically(folder.scorecard, json.dumps(scorecard, indent=2) + "\n")


def _guesses(spec: AttackSpec, reader: RunReader) -> Guesses:
    return reader.guesses(suffix_length=spec.round.suffix_length, vocabulary=spec.round.vocabulary)


def _final_order(spec: AttackSpec, reader: RunReader) -> Guesses | None:
    return reader.final_order(suffix_length=spec.round.suffix_length, vocabulary=spec.round.vocabulary)


def _ranked(spec: AttackSpec, guesses: Guesses) -> Guesses:
    order = submission_order(
        guesses.ids, guesses.suffixes, guesses.score, per_example=spec.attack.guesses_per_example, row_cap=None
    )
    return guesses.part(order)


def _submission(spec: AttackSpec, ordered: Guesses) -> Submission:
    kept = min(len(ordered), spec.round.row_cap)
    return Submission(ordered.ids[:kept], ordered.suffixes[:kept], len(ordered) - kept)
