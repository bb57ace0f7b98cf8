"""Underlining of the differences between a suffix and its answer."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content
from tokenizers import Tokenizer

from harness.analysis.decoded_text import TokenText
from harness.tui.token_differences import DIFFERENT, underline_differences

FILE = Path(__file__).parents[3] / "harness" / "engine" / "demo" / "weights" / "tokenizer.json"
TOKENIZER = Tokenizer.from_file(str(FILE))
TEXT = TokenText(FILE)

token_ids = st.lists(st.integers(0, TOKENIZER.get_vocab_size() - 1), max_size=40)


@given(token_ids, st.data())
def test_exactly_the_differing_tokens_are_underlined(ids: list[int], data: st.DataObject) -> None:
    answer = [data.draw(st.sampled_from([token, (token + 1) % 256])) for token in ids]
    content = underline_differences(TEXT, ids, answer)
    assert content.plain == TEXT.text(ids)
    differing = [
        piece for piece, token, expected in zip(TEXT.pieces(ids), ids, answer, strict=True) if token != expected
    ]
    found = "".join(content.plain[span.start : span.end] for span in content.spans if span.style == DIFFERENT)
    assert found == "".join(differing)


def test_nothing_is_underlined_without_an_answer() -> None:
    assert underline_differences(TEXT, [1, 2, 3], None).spans == []


def test_markup_in_model_text_stays_text() -> None:
    ids = TOKENIZER.encode("[bold]x[/bold]").ids
    assert underline_differences(TEXT, ids, ids) == Content("[bold]x[/bold]")
