"""Select the examples that documents show, with prefix, guess and answer as text.

With redaction, suffixes are replaced with their length and hash.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from harness.analysis.decoded_text import TokenText, text_of_run
from harness.core.arrays import Ints, Tokens
from harness.core.examples import load_prefixes
from harness.core.exports import redact_suffix
from harness.submit.run_facts import RunFacts


class ShownGuess(NamedTuple):
    """A row of a run's submission. `row` counts from 1, and is None if the run has no row for the example.

    `agrees` is the text before the first token that differs from the answer, `differs` the rest. A correct or redacted
    guess, and any guess in a blind round, is all in `agrees`. `is_correct` is None in a blind round.
    """

    run: str
    row: int | None
    agrees: str
    differs: str
    is_correct: bool | None


class ShownExample(NamedTuple):
    """An example with one guess of each run. `answer` is None in a blind round."""

    id: int
    prefix: str
    answer: str | None
    guesses: tuple[ShownGuess, ...]


class ExampleSelection(NamedTuple):
    """Examples that a submission solves at any row, and those it does not. In a blind round, all are `unknown`."""

    correct: tuple[ShownExample, ...]
    wrong: tuple[ShownExample, ...]
    unknown: tuple[ShownExample, ...]


def select_examples(facts: RunFacts, *, most: int, redact: bool) -> ExampleSelection:
    """Return at most `most` examples of each kind, the first in submission order."""
    ids, is_correct = facts.submission.ids, facts.is_correct

    def distinct(ids: Ints) -> list[int]:
        return list(dict.fromkeys(ids.tolist()))[:most]

    if is_correct is None:
        return ExampleSelection((), (), _shown([facts], distinct(ids), redact))
    solved = ids[is_correct]
    unsolved = ids[~np.isin(ids, solved)]
    return ExampleSelection(_shown([facts], distinct(solved), redact), _shown([facts], distinct(unsolved), redact), ())


def differing_examples(runs: Sequence[RunFacts], *, most: int, redact: bool) -> tuple[ShownExample, ...]:
    """Return the first `most` examples, by id, that some runs solve within the error cap and others do not."""
    walks = [(run.parts.whole, run.walk) for run in runs]
    if any(walk is None for _, walk in walks) or len({run.spec.examples for run in runs}) > 1:
        return ()
    solved = np.array([whole.solved(walk) for whole, walk in walks if walk is not None])
    differing = np.flatnonzero(solved.any(axis=0) & ~solved.all(axis=0))
    return _shown(runs, differing[:most].tolist(), redact)


def _shown(runs: Sequence[RunFacts], ids: Sequence[int], redact: bool) -> tuple[ShownExample, ...]:
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
