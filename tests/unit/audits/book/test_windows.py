import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from harness.audits.book.inputs import BookParams, StrideUnit
from harness.audits.book.windows import coarse_to_fine, cut_windows
from tests.tools.demo_texts import TOKENIZER, trained_text

TEXT = trained_text(12) + " ü😀漢字 é " * 20
SMALL = {"prefix_tokens": 7, "suffix_tokens": 5}


def ids(text: str) -> list[int]:
    return list(TOKENIZER.encode(text, add_special_tokens=False).ids)


def test_a_window_has_the_tokens_of_the_text_from_its_start_on():
    params = BookParams(**SMALL, stride=13)
    windows = cut_windows(TEXT, TOKENIZER, params)
    assert windows.start.tolist() == list(range(0, len(TEXT), 13))[: len(windows)]
    for tokens, start, cut, end in zip(windows.tokens, windows.start, windows.cut, windows.end, strict=True):
        assert tokens.tolist() == ids(TEXT[start:])[:12]
        assert start < cut <= end <= len(TEXT)
    # The next window would lack tokens.
    assert len(ids(TEXT[windows.start[-1] + 13 :])) < 12


def test_the_characters_of_a_suffix_are_those_of_its_tokens():
    windows = cut_windows(trained_text(3), TOKENIZER, BookParams(**SMALL))
    for tokens, cut, end in zip(windows.tokens, windows.cut, windows.end, strict=True):
        assert TOKENIZER.decode(tokens[7:].tolist()).strip() == trained_text(3)[cut:end].strip()


def test_windows_can_begin_at_every_nth_token():
    params = BookParams(**SMALL, stride=4, stride_unit=StrideUnit.TOKENS)
    windows, whole = cut_windows(TEXT, TOKENIZER, params), ids(TEXT)
    assert windows.tokens.tolist() == [whole[first : first + 12] for first in range(0, len(whole) - 11, 4)]
    assert (windows.start[1:] > windows.start[:-1]).all()


@pytest.mark.parametrize("unit", StrideUnit)
def test_a_text_that_is_too_short_has_no_windows(unit):
    windows = cut_windows("two words", TOKENIZER, BookParams(stride_unit=unit))
    assert len(windows) == 0 and windows.tokens.shape == (0, 100)


def test_long_tokens_after_short_ones_are_still_cut_whole():
    # The beginning of the text makes the expected number of characters far too small.
    words = Tokenizer(models.WordLevel({"a": 0, "long" * 50: 1, "?": 2}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    text = "a " * 9000 + f"{'long' * 50} " * 14
    windows = cut_windows(text, words, BookParams(**SMALL, stride=2))
    last = windows.tokens[windows.start == 2 * 9000]
    assert last.tolist() == [[1] * 12]


@pytest.mark.parametrize("number", [0, 1, 5, 16, 33, 1000])
def test_windows_are_measured_from_coarse_to_fine(number):
    order = coarse_to_fine(number)
    assert sorted(order.tolist()) == list(range(number))
    coarse = -(-number // 16)
    assert order[:coarse].tolist() == list(range(0, number, 16))
    half = -(-number // 2)
    assert sorted(order[:half].tolist()) == list(range(0, number, 2))
    assert np.issubdtype(order.dtype, np.integer)
