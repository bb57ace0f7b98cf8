"""Token streams of small documents for tests."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from harness.corpora.token_stream import Piece, TokenStream, build_stream


def pieces(documents: Iterable[Sequence[int]]) -> list[Piece]:
    """Return one piece for each document, named by its number from 0."""
    return [Piece(str(number), np.array(tokens, np.int64), len(tokens)) for number, tokens in enumerate(documents)]


def stream_of(folder: Path, documents: Iterable[Sequence[int]], vocabulary: int = 100) -> TokenStream:
    """Return the stream of `documents`, written to `folder`."""
    found = pieces(documents)
    return build_stream(
        folder, lambda state: found[state.pieces :], vocabulary=vocabulary, end_of_text=None, on_progress=print
    )
