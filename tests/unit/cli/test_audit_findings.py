"""Findings on a terminal: lines fit, and control characters are replaced."""

from dataclasses import replace

import pytest

from harness.cli.audit_findings import findings_in_words, with_precision
from harness.core.exports import redact_text
from harness.core.findings import Conclusion, Findings, FoundTable
from harness.runs.facts import model_sentences
from harness.submit.finding_tables import redact_findings
from tests.unit.submit.audit_header import HEADER, MODEL

HOSTILE = "\x1b]0;owned\x07\u202e\n\t[bold]"
FOUND = Findings(
    figures={"pairs": 1200, "read": {"too_short": 3}, HOSTILE: HOSTILE},
    sentences=["A sentence.", HOSTILE, "word " * 60],
    tables=[
        FoundTable("t", f"Rates {HOSTILE}", {"threshold": ["trigram", HOSTILE], "rate": [0.5, None]}),
        FoundTable("x", "Texts", {"text": ["the quick brown fox " * 20], "wrong": [1]}, text_columns=("text",)),
        FoundTable("d", "Every row", {"a": ["detail"]}, is_detail=True),
        FoundTable("e", "Empty", {"a": []}),
        FoundTable("l", "Long", {"row": list(range(100))}),
    ],
)


def test_figures_tables_and_sentences_are_printed_and_details_are_not() -> None:
    words = findings_in_words(FOUND)
    lines = [line.split("  ") for line in words.splitlines()]
    assert ["pairs", "1,200"] in [[line[0], line[-1].strip()] for line in lines]
    assert "A sentence." in words
    assert "Empty\nno rows" in words
    assert "… 60 further rows: --out writes them" in words
    assert "detail" not in words


def test_the_first_line_answers_the_question() -> None:
    conclusion = Conclusion("Was it seen?", "Probably", "3 of 4 paragraphs pass", "A caveat.")
    lines = findings_in_words(replace(FOUND, conclusion=conclusion, definitions={"ESP": "a probability"})).splitlines()
    assert lines[:4] == ["Was it seen? Probably: 3 of 4 paragraphs pass.", "A caveat.", "ESP: a probability", ""]


def test_numbers_are_right_aligned() -> None:
    found = Findings({}, tables=[FoundTable("t", "T", {"name": ["a", "bb"], "count": [1, 1000]})])
    assert findings_in_words(found) == "T\nname  count\na         1\nbb    1,000"


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_lines_fit_without_control_characters(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    words = findings_in_words(FOUND)
    assert not {"\x1b", "\x07", "\u202e", "\t"} & set(words)
    assert all(len(line) <= max(int(columns), 60) for line in words.split("\n"))


def test_redacted_findings_print_lengths_and_hashes() -> None:
    words = findings_in_words(redact_findings(FOUND))
    assert "quick" not in words
    assert redact_text("the quick brown fox " * 20) in words


def test_headers_of_a_too_wide_table_wrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")  # the minimum width
    columns = {"scheme": ["greedy"], "passes_greedy_at": [30], "share_over_1_in_1000": [0.25]}
    words = findings_in_words(Findings({}, tables=[FoundTable("t", "T", columns)]))
    assert words.splitlines() == [
        "T",
        "         passes greedy   share over 1 in",
        "scheme              at              1000",
        "greedy              30             0.250",
    ]


@pytest.mark.parametrize(
    ("device", "dtype", "shown"),
    [
        ("cpu", "auto", ["float32", "bfloat16"]),
        ("cuda", "auto", ["auto", "bfloat16"]),
        ("cuda", "float16", ["float16", "bfloat16"]),
    ],
)
def test_the_precision_is_named_where_it_is_known(device: str, dtype: str, shown: list[str]) -> None:
    model = MODEL.model_copy(update={"device": device, "dtype": dtype})
    spec = with_precision(HEADER.spec.model_copy(update={"models": (model, model)}), {1: {"dtype": "bfloat16"}})
    assert [one.dtype for one in spec.models] == shown


def test_the_answer_says_how_each_model_computed() -> None:
    loaded = {"dtype": "float32", "stored_dtype": "bfloat16", "has_chat_template": True, "decoding": "the model's code"}
    second = loaded | {"stored_dtype": "float32", "has_chat_template": False, "decoding": "the engine's decoder"}
    spec = HEADER.spec.model_copy(update={"models": (MODEL, MODEL)})
    first, comparison, chat, other = model_sentences(replace(HEADER, spec=spec, loaded={0: loaded, 1: second}))
    assert "in float32 (its weights are stored in bfloat16)" in first and "its own code with a cache" in first
    assert "stored weights only" in comparison and "without the template" in chat
    assert other.endswith("computed in float32 and decoded by the engine's own decoder.")
    assert not [*model_sentences(HEADER)]
