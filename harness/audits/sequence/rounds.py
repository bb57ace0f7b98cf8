"""A round as a corpus: its examples with known answers as text, and, for the demo, text of its kind that nobody saw."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness.audits.sequence.choosing import Piece
from harness.audits.sequence.words import cut_after, cut_at, spans_of
from harness.audits.tokenizing import tokenizer_in
from harness.core.arrays import Tokens
from harness.core.errors import HarnessError
from harness.core.examples import load_answers, load_clusters, load_prefixes
from harness.core.rounds import Round


def round_pieces(
    round_: Round, tokenizer_file: Path, *, prompt_length: int | None, longest_suffix: int
) -> Iterator[Piece]:
    """A paragraph for each example: prefix and answer as one text, its cluster as its document.

    Without a prompt length the prompt is the round's own: the words that end within the prefix. Raises HarnessError
    for a blind round, and where the tokenizer lacks a token of the round.
    """
    prefixes, answers = load_prefixes(round_), load_answers(round_)
    if answers is None:
        raise HarnessError(
            f"round {round_.name} is blind, and the audit compares with what followed: take a round whose answers are "
            "known."
        )
    clusters = load_clusters(round_, answers)
    names = [f"example {row}" for row in range(len(prefixes))]
    if clusters is not None:
        names = [f"cluster {cluster}" for cluster in clusters.tolist()]
    yield from _pieces(
        prefixes, answers, names, tokenizer_file, prompt_length=prompt_length, longest_suffix=longest_suffix
    )


def has_unseen_text(round_: Round) -> bool:
    """The round is cut from the invented corpus, of which more can be made."""
    return round_.target == "demo"


def unseen_pieces(
    round_: Round, tokenizer_file: Path, *, prompt_length: int | None, longest_suffix: int
) -> Iterator[Piece]:
    """As many paragraphs as the round has examples, cut alike from documents that were made by another seed."""
    # Here: a demo target's affair alone.
    from harness.engine.demo.unseen import unseen_examples

    unseen = unseen_examples(tokenizer_file, len(load_prefixes(round_)))
    names = [f"unseen document {document}" for document in unseen.documents.tolist()]
    yield from _pieces(
        unseen.prefixes,
        unseen.suffixes,
        names,
        tokenizer_file,
        prompt_length=prompt_length,
        longest_suffix=longest_suffix,
    )


def _pieces(
    prefixes: Tokens,
    suffixes: Tokens,
    names: list[str],
    tokenizer_file: Path,
    *,
    prompt_length: int | None,
    longest_suffix: int,
) -> Iterator[Piece]:
    before = _texts(prefixes, tokenizer_file)
    whole = _texts(np.concatenate([prefixes, suffixes], axis=1), tokenizer_file)
    places: dict[str, int] = {}
    for name, prefix, text in zip(names, before, whole, strict=True):
        places[name] = places.get(name, 0) + 1
        # An unfinished character decodes to U+FFFD until its last token comes.
        boundary = len(prefix.rstrip("\ufffd"))
        if prompt_length is None:
            cut = cut_at(text, boundary, longest_suffix)
            is_shortened = False
        else:
            complete = text if text[-1:].isspace() else text[: _last_word(text)]
            cut = cut_after(complete, prompt_length, longest_suffix)
            is_shortened = cut is not None and len(spans_of(complete)) > prompt_length + longest_suffix
        yield Piece(name, places[name], cut, is_shortened)


def _last_word(text: str) -> int:
    """Where the last word begins: a row's end may cut it."""
    spans = spans_of(text)
    return spans[-1][0] if spans else 0


def _texts(rows: Tokens, tokenizer_file: Path) -> list[str]:
    """Each of `rows` [rows, length] as text."""
    tokenizer = tokenizer_in(tokenizer_file)
    known = tokenizer.get_vocab_size(with_added_tokens=True)
    if rows.size and int(rows.max()) >= known:
        raise HarnessError(f"{tokenizer_file}: {known:,} tokens, and the round has token {int(rows.max()):,}.")
    texts: list[str] = tokenizer.decode_batch(rows.tolist(), skip_special_tokens=False)
    return texts
