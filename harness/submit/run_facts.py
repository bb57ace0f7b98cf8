"""Collect the facts about one run that documents show, and the examples that they quote."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from harness.analysis.comparison import ComparedRun, compared_run
from harness.analysis.decoded_text import TokenText, text_of_run
from harness.analysis.parts import AttackedParts, attacked_parts
from harness.analysis.replay import evenly_spaced
from harness.core.arrays import Bools, Tokens
from harness.core.errors import HarnessError
from harness.core.examples import load_prefixes
from harness.core.exports import redact_suffix
from harness.core.inputs import as_harness_error
from harness.core.parameters import Parameter
from harness.core.scoring import Score, exact_at_1
from harness.plugins.schema import fetch_schema
from harness.runs.attack_record import Submission, any_guess_correct, attacked_answers, submission_of
from harness.runs.facts import Fact, RunRecord, read_record, submission_facts
from harness.runs.folder import RunFolder
from harness.runs.guess_reader import GuessReader
from harness.runs.reader import StageWork
from harness.runs.specs import AttackSpec
from harness.runs.summary import RunSummary

_MAX_POINTS = 200


@dataclass(frozen=True, kw_only=True)
class RunFacts(RunRecord):
    """The state of one run. Everything that needs answers is None in a blind round."""

    spec: AttackSpec
    summary: RunSummary
    folder: RunFolder
    parameters: tuple[Parameter, ...]
    """The parameters of the attack with their defaults, none if the run's copy of the code cannot be read."""
    submission: Submission
    answers: Tokens | None
    """The right suffixes, [examples, length]."""
    parts: AttackedParts
    result: ComparedRun | None
    """The scores on the parts, also as they were at earlier times."""
    exact_at_1: float | None
    any_guess_correct: float | None
    curve: tuple[tuple[float, float], ...]
    """Pairs of seconds spent and recall at the cap, or number of rows in a blind round, ascending."""
    stages: tuple[StageWork, ...]
    repeated_batches: int
    """Number of batches that started more than once."""

    @property
    def score(self) -> Score | None:
        """The score on all attacked examples."""
        return None if self.result is None else self.result.whole.score

    @property
    def not_in_train_score(self) -> Score | None:
        """The score on the examples whose answers the training rows do not contain, None if there are none."""
        return None if self.result is None or self.result.not_in_train is None else self.result.not_in_train.score

    @property
    def is_correct(self) -> Bools | None:
        """The correct rows of `submission`, [rows]; None in a blind round."""
        return None if self.result is None else self.result.submission.is_correct

    @property
    def scores(self) -> list[Fact]:
        """The scores of the submission; none in a blind round."""
        if self.score is None:
            return []
        return submission_facts(self.score, self.exact_at_1, self.any_guess_correct)

    @property
    def read_training(self) -> bool:
        """True if the attack read the training rows."""
        return "worker_read_train" in self.events


def run_facts(folder: RunFolder) -> RunFacts:
    """Return the facts of a run. Raises HarnessError if its record or its round's files cannot be read."""
    spec = folder.attack_spec()
    # Read before the guesses, so that the record of a run that is over includes its last guess.
    record = vars(read_record(folder))
    with as_harness_error(f"round {spec.round.name}"):
        answers, parts = attacked_answers(spec), attacked_parts(spec)
    result = None if answers is None else compared_run(folder, spec, parts, answers)
    with as_harness_error(folder.path), GuessReader.of_run(folder, spec) as reader:
        guesses, final = reader.guesses(), reader.final_order()
        submission = submission_of(spec, reader) if result is None else result.rows
        curve = (
            [(0.0, 0.0), *((point.spent, float(point.rows)) for point in reader.points())]
            if result is None
            else result.whole.recall_over_time
        )
        return RunFacts(
            **record,
            folder=folder,
            parameters=_parameters(folder, spec),
            submission=submission,
            answers=answers,
            parts=parts,
            result=result,
            exact_at_1=None if answers is None else exact_at_1(submission.ids, submission.suffixes, answers),
            any_guess_correct=any_guess_correct(spec, guesses, final),
            curve=tuple(evenly_spaced(curve, _MAX_POINTS)),
            stages=tuple(reader.stages()),
            repeated_batches=len(reader.repeated_batches()),
        )


def _parameters(folder: RunFolder, spec: AttackSpec) -> tuple[Parameter, ...]:
    if not spec.params:
        return ()
    try:
        return fetch_schema(folder.code / spec.attack.file, digest=spec.attack.sha256).parameters
    except (OSError, HarnessError):
        return ()  # A run whose code is gone or cannot be imported here is described without defaults.


class ShownGuess(NamedTuple):
    """A row of a run's submission."""

    run: str
    row: int | None
    """Its number from 1, None if the run has no row for the example."""
    agrees: str
    """The text before the first token that differs from the answer. It is all of a correct, redacted or blind guess."""
    differs: str
    """The rest of the text."""
    is_correct: bool | None
    """None in a blind round."""


class ShownExample(NamedTuple):
    """An example with one guess of each run. `answer` is None in a blind round."""

    id: int
    prefix: str
    answer: str | None
    guesses: tuple[ShownGuess, ...]


def select_examples(facts: RunFacts, *, limit: int, redact: bool) -> dict[str, tuple[ShownExample, ...]]:
    """Return at most `limit` examples of each kind, the first in submission order. Kinds without examples are left out.

    The kinds are `correct` for examples that the submission solves at any row, and `wrong`; `unknown` in a blind round.
    """
    ids, is_correct = facts.submission.ids, facts.is_correct
    if is_correct is None:
        kinds = {"unknown": ids}
    else:
        kinds = {"correct": ids[is_correct], "wrong": ids[~np.isin(ids, ids[is_correct])]}
    first = {kind: list(dict.fromkeys(of_kind.tolist()))[:limit] for kind, of_kind in kinds.items()}
    return {kind: _quote([facts], of_kind, redact) for kind, of_kind in first.items() if of_kind}


def differing_examples(runs: Sequence[RunFacts], *, limit: int, redact: bool) -> tuple[ShownExample, ...]:
    """Return the first `limit` examples, by id, that some runs solve within the error cap and others do not."""
    results = [run.result for run in runs if run.result is not None]
    if len(results) < len(runs) or len({run.spec.examples for run in runs}) > 1:
        return ()
    solved = np.array([runs[0].parts.whole.solved_examples(result.submission) for result in results])
    differing = np.flatnonzero(solved.any(axis=0) & ~solved.all(axis=0))
    return _quote(runs, differing[:limit].tolist(), redact)


def _quote(runs: Sequence[RunFacts], ids: Sequence[int], redact: bool) -> tuple[ShownExample, ...]:
    if not ids:
        return ()
    prefixes, answers = load_prefixes(runs[0].spec.round), runs[0].answers
    texts = [text_of_run(run.folder, run.spec) for run in runs]
    return tuple(
        ShownExample(
            id_,
            texts[0].text(prefixes[id_].tolist()),
            None if answers is None else _suffix(answers[id_], runs[0], texts[0], redact),
            tuple(_guess(run, id_, text, redact) for run, text in zip(runs, texts, strict=True)),
        )
        for id_ in ids
    )


def _guess(run: RunFacts, id_: int, text: TokenText, redact: bool) -> ShownGuess:
    """Return the run's correct row for the example, or else its first row."""
    rows = np.flatnonzero(run.submission.ids == id_)
    if not len(rows):
        return ShownGuess(run.spec.id, None, "", "", None if run.answers is None else False)
    correct = rows if run.is_correct is None else rows[run.is_correct[rows]]
    row = int(correct[0]) if len(correct) else int(rows[0])
    suffix = run.submission.suffixes[row]
    is_correct = None if run.is_correct is None else bool(run.is_correct[row])
    if redact or is_correct is not False or run.answers is None:
        return ShownGuess(run.spec.id, row + 1, _suffix(suffix, run, text, redact), "", is_correct)
    pieces = text.pieces(suffix.tolist())
    first = int(np.argmax(suffix != run.answers[id_]))
    return ShownGuess(run.spec.id, row + 1, "".join(pieces[:first]), "".join(pieces[first:]), is_correct)


def _suffix(suffix: Tokens, run: RunFacts, text: TokenText, redact: bool) -> str:
    return redact_suffix(suffix, run.spec.round.vocabulary) if redact else text.text(suffix.tolist())
