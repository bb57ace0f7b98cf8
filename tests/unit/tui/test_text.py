"""A suffix beside its answer: what differs is marked, and nothing that a model writes marks anything."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content
from tokenizers import Tokenizer

from harness.analysis.decoded_text import TokenText
from harness.tui.text import DIFFERING, marked

FILE = Path(__file__).parents[3] / "harness" / "engine" / "demo" / "weights" / "tokenizer.json"
TOKENIZER = Tokenizer.from_file(str(FILE))
TEXT = TokenText(FILE)

token_ids = st.lists(st.integers(0, TOKENIZER.get_vocab_size() - 1), max_size=40)


@given(token_ids, st.data())
def test_the_tokens_that_differ_from_the_answer_are_marked_and_no_others(ids: list[int], data: st.DataObject) -> None:
    answer = [data.draw(st.sampled_from([token, (token + 1) % 256])) for token in ids]
    content = marked(TEXT, ids, answer)
    assert content.plain == TEXT.text(ids)
    differing = [piece for piece, token, wanted in zip(TEXT.pieces(ids), ids, answer, strict=True) if token != wanted]
    found = "".join(content.plain[span.start : span.end] for span in content.spans if span.style == DIFFERING)
    assert found == "".join(differing)


def test_nothing_is_marked_without_an_answer() -> None:
    assert marked(TEXT, [1, 2, 3], None).spans == []


def test_markup_that_a_model_writes_styles_nothing() -> None:
    ids = TOKENIZER.encode("[bold]x[/bold]").ids
    assert marked(TEXT, ids, ids) == Content("[bold]x[/bold]")
