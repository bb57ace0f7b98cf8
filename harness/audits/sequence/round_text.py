"""Use a round as a corpus: its examples as text, and, for the demo, similar text that no model was trained on."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from harness.audits.sequence.sampling import Paragraph
from harness.audits.sequence.words import cut_after, cut_at, word_spans
from harness.audits.sources import load_answered_examples
from harness.core.arrays import Tokens
from harness.core.errors import HarnessError
from harness.core.examples import load_clusters, load_prefixes
from harness.core.rounds import Round
from harness.core.tokenizers import load_tokenizer
from harness.demo import UNSEEN


class Cutting(NamedTuple):
    """The cut of paragraphs. prompt_length: in words, None for a round's own prefixes."""

    prompt_length: int | None
    longest_suffix: int
    tokenizer_file: Path | None


def round_paragraphs(round_: Round, cutting: Cutting) -> Iterator[Paragraph]:
    """Yield a paragraph for each example: prefix and answer as one text, its cluster as its document.

    Raises HarnessError for a blind round, and if the tokenizer lacks a token of the round.
    """
    prefixes, answers = load_answered_examples(round_)
    clusters = load_clusters(round_, answers)
    if clusters is None:
        names = [f"example {row}" for row in range(len(prefixes))]
    else:
        names = [f"cluster {cluster}" for cluster in clusters.tolist()]
    yield from _paragraphs(round_, prefixes, answers, names, cutting)


def has_unseen_text(round_: Round) -> bool:
    """Return whether more text like the round's is shipped, as for the demo."""
    return round_.target == "demo"


def unseen_paragraphs(round_: Round, cutting: Cutting) -> Iterator[Paragraph]:
    """Yield as many paragraphs as the round has examples, at most the 1,000 that are shipped."""
    with np.load(UNSEEN) as unseen:
        wanted = slice(len(load_prefixes(round_)))
        prefixes, suffixes, documents = (unseen[name][wanted] for name in ("prefixes", "suffixes", "documents"))
    names = [f"unseen document {document}" for document in documents.tolist()]
    yield from _paragraphs(round_, prefixes, suffixes, names, cutting)


def _paragraphs(
    round_: Round, prefixes: Tokens, suffixes: Tokens, names: list[str], cutting: Cutting
) -> Iterator[Paragraph]:
    file = _tokenizer_file(round_, cutting)
    length, longest = cutting.prompt_length, cutting.longest_suffix
    whole = _decoded(np.concatenate([prefixes, suffixes], axis=1), file)
    places: Counter[str] = Counter()
    for name, prefix, text in zip(names, _decoded(prefixes, file), whole, strict=True):
        places[name] += 1
        if length is None:
            # An incomplete character decodes to U+FFFD.
            cut = cut_at(text, len(prefix.rstrip("\ufffd")), longest)
            is_shortened = False
        else:
            spans = word_spans(text)
            if spans and spans[-1][1] == len(text):
                # The row may end within its last word.
                text = text[: spans.pop()[0]]
            cut = cut_after(text, length, longest)
            is_shortened = cut is not None and len(spans) > length + longest
        yield Paragraph(name, places[name], cut, is_shortened)


def _tokenizer_file(round_: Round, cutting: Cutting) -> Path:
    if cutting.tokenizer_file is None or not cutting.tokenizer_file.is_file():
        raise HarnessError(f"round {round_.name} contains tokens. Name a --target that has a tokenizer.json.")
    return cutting.tokenizer_file


def _decoded(rows: Tokens, tokenizer_file: Path) -> list[str]:
    """Return each of `rows` [rows, length] as text."""
    tokenizer = load_tokenizer(tokenizer_file)
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    if rows.size and int(rows.max()) >= size:
        raise HarnessError(f"the round contains token {int(rows.max()):,}, and {tokenizer_file} has {size:,} tokens.")
    texts: list[str] = tokenizer.decode_batch(rows.tolist(), skip_special_tokens=False)
    return texts
