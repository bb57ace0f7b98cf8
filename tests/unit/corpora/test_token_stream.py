"""The file with the tokens of a corpus: its contents, pointers, and an interrupted build."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from harness.core.errors import HarnessError
from harness.core.tokenizers import Tokenizer, load_tokenizer
from harness.corpora import token_stream
from harness.corpora.documents import Document
from harness.corpora.token_files import pieces_of_tokens, token_files_among
from harness.corpora.token_stream import Piece, StreamState, TokenStream, build_stream, pieces_of_documents
from harness.demo import SIZES
from tests.unit.corpora.streams import pieces, stream_of

SEPARATOR = 100


def built(folder: Path, texts: dict[str, str], tokenizer: Tokenizer) -> TokenStream:
    documents = [Document(name, text.splitlines(keepends=True)) for name, text in texts.items()]
    return build_stream(
        folder,
        lambda state: pieces_of_documents(documents, partial(tokenizer.encode_batch, add_special_tokens=False), state),
        vocabulary=tokenizer.get_vocab_size(),
        end_of_text=tokenizer.token_to_id("<|endoftext|>"),
        on_progress=print,
    )


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return load_tokenizer(SIZES[0].weights / "tokenizer.json", reads_special_tokens=True)


def test_documents_are_separated_and_pointers_lead_back(tmp_path: Path) -> None:
    stream = stream_of(tmp_path, [[1, 2, 3], [], [4], [5, 6]])
    assert stream.tokens.tolist() == [1, 2, 3, SEPARATOR, SEPARATOR, 4, SEPARATOR, 5, 6, SEPARATOR]
    assert stream.pointers(np.array([8, 0, 5])) == [("3", 1), ("0", 0), ("2", 0)]
    assert stream.rows(np.array([1, 8]), 3).tolist() == [[2, 3, SEPARATOR], [6, SEPARATOR, SEPARATOR]]
    assert stream.rows(np.array([2]), 5).tolist() == [[3] + [SEPARATOR] * 4]
    assert (stream.documents, stream.token_count) == (4, 6)


def test_a_corpus_without_tokens_has_a_stream_without_tokens(tmp_path: Path) -> None:
    assert stream_of(tmp_path / "none", []).token_count == 0
    assert stream_of(tmp_path / "empty", [[], []]).token_count == 0


def test_an_interrupted_build_gives_the_same_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # With commits that are rare, frequent, and after every piece.
    random = np.random.default_rng(0)
    documents = [random.integers(0, 100, random.integers(0, 9)).tolist() for _ in range(40)]
    whole = stream_of(tmp_path / "whole", documents)
    for batch in (1, 7, 1_000):
        monkeypatch.setattr(token_stream, "_BATCH", batch)
        folder = tmp_path / str(batch)
        for _ in range(20):

            def some(state: StreamState) -> Iterator[Piece]:
                for count, piece in enumerate(pieces(documents)[state.pieces :]):
                    if count == 8:
                        raise KeyboardInterrupt
                    yield piece

            try:
                stream = build_stream(folder, some, vocabulary=100, end_of_text=None, on_progress=print)
                break
            except KeyboardInterrupt:
                if batch == 1_000:
                    # Nothing was committed, so the build starts again.
                    stream = stream_of(folder, documents)
                    break
        else:
            raise AssertionError("the build never ended")
        assert np.array_equal(stream.tokens, whole.tokens)
        assert np.array_equal(stream.starts, whole.starts)
        assert stream.pointers(stream.starts) == whole.pointers(whole.starts) and stream.documents == whole.documents


def test_a_long_document_is_cut_at_lines_and_stays_one_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokenizer: Tokenizer
) -> None:
    monkeypatch.setattr(token_stream, "MAX_PIECE", 30)
    text = "".join(f"This is line {number}.\n" for number in range(20))
    stream = built(tmp_path, {"a": text, "b": "The end."}, tokenizer)
    ends = np.flatnonzero(stream.tokens == stream.separator)
    assert len(ends) == 2 and len(stream.starts) > 5
    assert tokenizer.decode(stream.tokens[: ends[0]].tolist()) == text
    assert stream.pointers(np.array([ends[0] - 1, ends[0] + 2])) == [("a", ends[0] - 1), ("b", 1)]


def test_a_token_outside_the_vocabulary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"1 contains a token outside 0\.\.99\. Choose the tokenizer"):
        stream_of(tmp_path, [[1], [100]])


def read_tokens(folder: Path, files: list[Path], vocabulary: int = 100) -> list[list[int]]:
    named = [(str(file), file) for file in files]
    stream = build_stream(
        folder / "stream",
        lambda state: pieces_of_tokens(named, vocabulary=vocabulary, end_of_text=0, state=state),
        vocabulary=vocabulary,
        end_of_text=None,
        on_progress=print,
    )
    assert stream.tokens[-1] == vocabulary
    parts = np.split(stream.tokens, np.flatnonzero(stream.tokens == vocabulary) + 1)
    return [part[:-1].tolist() for part in parts[:-1]]


def test_token_files_end_their_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.corpora import token_files

    np.save(tmp_path / "a.npy", np.array([1, 2, 0, 3, 4, 5, 0], np.uint16))
    np.save(tmp_path / "b.npy", np.array([[6, 7, 8], [9, 0, 10]], np.int64))
    np.array([11, 12, 13, 0, 14], "<u2").tofile(tmp_path / "c.bin")
    files = sorted(tmp_path.glob("*.*"))
    wanted = [[1, 2], [3, 4, 5], [6, 7, 8], [9], [10], [11, 12, 13], [14]]
    assert token_files_among(files) == files
    assert read_tokens(tmp_path, files) == wanted
    monkeypatch.setattr(token_files, "_READ_AT_ONCE", 2)
    assert read_tokens(tmp_path / "again", files) == wanted


def test_bare_integers_have_the_width_of_the_vocabulary(tmp_path: Path) -> None:
    np.array([70_000, 5], "<u4").tofile(tmp_path / "a.bin")
    assert read_tokens(tmp_path, [tmp_path / "a.bin"], vocabulary=80_000) == [[70_000, 5]]
    (tmp_path / "b.bin").write_bytes(b"123")
    with pytest.raises(HarnessError, match="3 bytes, so it does not contain integers of 2 bytes"):
        read_tokens(tmp_path / "b", [tmp_path / "b.bin"])
    np.save(tmp_path / "c.npy", np.zeros(3))
    with pytest.raises(HarnessError, match="expected integers of shape"):
        read_tokens(tmp_path / "c", [tmp_path / "c.npy"])


def test_token_files_are_known_by_their_names() -> None:
    assert token_files_among([Path("a.bin"), Path("b.txt"), Path("c.NPY")]) == [Path("a.bin"), Path("c.NPY")]


def test_documents_with_one_name_stay_apart(tmp_path: Path) -> None:
    same = [Piece("same", np.array([1, 2]), 2), Piece("same", np.array([3]), 1), Piece("same", np.array([4]), 1, False)]
    stream = build_stream(
        tmp_path, lambda state: same[state.pieces :], vocabulary=9, end_of_text=None, on_progress=print
    )
    assert stream.tokens.tolist() == [1, 2, 9, 3, 4, 9] and stream.documents == 2
    assert stream.pointers(np.array([1, 4])) == [("same", 1), ("same", 1)]


def test_the_end_of_text_inside_a_text_separates(tmp_path: Path, tokenizer: Tokenizer) -> None:
    stream = built(tmp_path, {"a": "one<|endoftext|>two"}, tokenizer)
    parts = np.split(stream.tokens, np.flatnonzero(stream.tokens == stream.separator))
    assert [tokenizer.decode(part.tolist()) for part in parts[:2]] == ["one", "two"] and len(parts) == 3


@pytest.mark.parametrize("vocabulary", [65_535, 65_536, 65_537])
def test_the_separator_is_no_token_of_a_large_vocabulary(tmp_path: Path, vocabulary: int) -> None:
    stream = stream_of(tmp_path, [[vocabulary - 1, 0], [vocabulary - 1]], vocabulary)
    assert stream.tokens.tolist() == [vocabulary - 1, 0, vocabulary, vocabulary - 1, vocabulary]
