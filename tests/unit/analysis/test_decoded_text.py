"""Decoded text: it never steers a terminal, and no token is lost, whatever bytes a model produces."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from harness.analysis.decoded_text import TokenText
from harness.core.errors import HarnessError
from harness.core.text import sanitize

FILE = Path(__file__).parents[3] / "harness" / "demo" / "weights" / "tokenizer.json"
TOKENIZER = Tokenizer.from_file(str(FILE))
TEXT = TokenText(FILE)
HOSTILE = [
    "[/ [bold red]no[/bold red] [/] [",
    "\x1b[31mred\x1b]0;title\x07\x1b[2J",
    "\u202eright to left\u2066\u2069",
    "zero\u200bwidth\u200d\ufeff",
    "line\r\nline\ttab\x00\x7f\x85\u2028",
    "naïve 你好 👩‍👩‍👧 e\u0301",
    "x" * 2_000,
]

token_ids = st.lists(st.integers(0, TOKENIZER.get_vocab_size() - 1), max_size=40)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_becomes_printable_text(text: str) -> None:
    shown = TEXT.text(TOKENIZER.encode(text).ids)
    assert shown.isprintable()
    assert shown == sanitize(text)


@given(token_ids)
def test_any_tokens_make_printable_text(ids: list[int]) -> None:
    assert TEXT.text(ids).isprintable()


@given(token_ids)
def test_joined_pieces_are_the_text_of_all_tokens(ids: list[int]) -> None:
    pieces = TEXT.pieces(ids)
    assert len(pieces) == len(ids)
    assert "".join(pieces) == sanitize(TOKENIZER.decode(ids, skip_special_tokens=False)) == TEXT.text(ids)


@given(st.text())
def test_tokenized_text_comes_back(text: str) -> None:
    encodable = text.encode(errors="replace").decode()
    assert TEXT.text(TOKENIZER.encode(encodable).ids) == sanitize(
        TOKENIZER.decode(TOKENIZER.encode(encodable).ids, skip_special_tokens=False)
    )


def test_an_incomplete_character_is_marked_and_hides_nothing_after_it() -> None:
    half = next(ids for ids in (TOKENIZER.encode(text).ids for text in ("你", "👩", "ॐ")) if len(ids) > 1)
    rest = TOKENIZER.encode("and on").ids
    shown = TEXT.text([half[0], *rest])
    assert "\ufffd" in shown and shown.endswith("and on")


@given(st.lists(st.integers(0, 2**32 - 1), max_size=10))
def test_unknown_tokens_raise_no_error(ids: list[int]) -> None:
    assert TEXT.text(ids).isprintable()


@pytest.mark.parametrize("file", [None, Path("nowhere/tokenizer.json")])
def test_without_a_tokenizer_tokens_are_numbers(file: Path | None) -> None:
    assert TokenText(file).text([7, 50256]) == "7 50256 "


@pytest.mark.parametrize("content", ["", "{}", "\x00[/", '{"version": "1.0", "model": {"type": "\\u001b[31m"}}'])
def test_an_invalid_tokenizer_file_is_refused_in_one_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(HarnessError, match="not a tokenizer") as raised:
        TokenText(tmp_path / "tokenizer.json")
    assert str(raised.value).isprintable()


def test_unknown_tokens_are_shown_as_numbers() -> None:
    word = TOKENIZER.encode("word").ids
    ids = [*word, 384, 50256, *word]
    assert TEXT.text(ids) == "word⟨384⟩⟨50256⟩word"
    assert len(TEXT.pieces(ids)) == len(ids)
    rows = np.array([[384, 385], [word[0], 50256], [word[0], word[0]]])
    assert TEXT.texts(rows) == [TEXT.text(row) for row in rows.tolist()]
    assert TEXT.texts(rows)[0] == "⟨384⟩⟨385⟩"
