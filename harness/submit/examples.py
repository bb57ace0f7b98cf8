"""Examples that documents show, prefix, guess and answer as text: which ones is decided by the records alone.

With redaction, suffixes are told by their length and hash.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from harness.analysis.decoded_text import TokenText, text_of_run
from harness.core.arrays import Ints, Tokens
from harness.core.examples import load_prefixes
from harness.core.redaction import redact_suffix
from harness.submit.facts import RunFacts


class ShownGuess(NamedTuple):
    """A row of a run's submission, the first being row 1; row: None where the run submits nothing for the example.

    agrees, differs: the text up to the first token that is not the answer's, and from there on; the whole text agrees
    where it is right, redacted or in a blind round. is_right: None in a blind round.
    """

    run: str
    row: int | None
    agrees: str
    differs: str
    is_right: bool | None


class ShownExample(NamedTuple):
    """answer: None in a blind round; guesses: one of each run that is shown."""

    id: int
    prefix: str
    answer: str | None
    guesses: tuple[ShownGuess, ...]


class ChosenExamples(NamedTuple):
    """Examples that a submission solves anywhere, and ones that it guesses wrong; in a blind round just some."""

    right: tuple[ShownExample, ...]
    wrong: tuple[ShownExample, ...]
    unknown: tuple[ShownExample, ...]


def chosen_examples(facts: RunFacts, *, most: int, redact: bool) -> ChosenExamples:
    """At most `most` examples of each kind, the first in submission order."""
    ids, is_right = facts.submission.ids, facts.is_right
    if is_right is None:
        return ChosenExamples((), (), _shown([facts], _first(ids, most), redact))
    solved = ids[is_right]
    unsolved = ids[~np.isin(ids, solved)]
    return ChosenExamples(
        _shown([facts], _first(solved, most), redact), _shown([facts], _first(unsolved, most), redact), ()
    )


def where_runs_differ(runs: Sequence[RunFacts], *, most: int, redact: bool) -> tuple[ShownExample, ...]:
    """The first `most` examples, by id, that some of the runs solve within the cap and others do not."""
    walks = [(run.whole, run.walk) for run in runs]
    if any(walk is None for _, walk in walks) or len({run.spec.examples for run in runs}) > 1:
        return ()
    solved = np.array([whole.solved(walk) for whole, walk in walks if walk is not None])
    differing = np.flatnonzero(solved.any(axis=0) & ~solved.all(axis=0))
    return _shown(runs, differing[:most].tolist(), redact)


def _first(ids: Ints, most: int) -> list[int]:
    """The first `most` distinct values of `ids`, in their order."""
    _, first = np.unique(ids, return_index=True)
    found: list[int] = ids[np.sort(first)[:most]].tolist()
    return found


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
    """The right row of the example where the run has one, else its first."""
    rows = np.flatnonzero(run.submission.ids == id_)
    if not len(rows):
        return ShownGuess(run.spec.id, None, "", "", None if run.answers is None else False)
    right = rows if run.is_right is None else rows[run.is_right[rows]]
    row = int(right[0]) if len(right) else int(rows[0])
    suffix = run.submission.suffixes[row]
    is_right = None if run.is_right is None else bool(run.is_right[row])
    if redact or is_right is not False or run.answers is None:
        return ShownGuess(run.spec.id, row + 1, _suffix(suffix, run, text, redact), "", is_right)
    pieces = text.pieces(suffix.tolist())
    first = int(np.argmax(suffix != run.answers[id_]))
    return ShownGuess(run.spec.id, row + 1, "".join(pieces[:first]), "".join(pieces[first:]), is_right)


def _suffix(suffix: Tokens, run: RunFacts, text: TokenText, redact: bool) -> str:
    return redact_suffix(suffix, run.spec.round.vocabulary) if redact else text.text(suffix.tolist())
