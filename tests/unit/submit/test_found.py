"""Findings in words, and findings from which nobody reads the corpus."""

import numpy as np

from harness.core.findings import BarChart, Findings, FoundTable, HeatMap, LineChart, Passage, Series, Stretch
from harness.core.redaction import redact_text
from harness.submit.found import column_in_words, headline_figures, in_words, is_numeric, plain_value, without_text


def test_cells_are_read_as_people_write_them() -> None:
    cells = [None, np.nan, True, np.int64(12_345), np.float64(0.123456), 1e-9, 123_456.7, "text", np.array([1.0, 0.5])]
    words = ["–", "–", "yes", "12,345", "0.1235", "1e-09", "123,457", "text", "1, 0.5"]
    assert list(map(in_words, cells)) == words


def test_fractions_of_a_column_have_the_same_decimals_unless_that_would_hide_one() -> None:
    assert column_in_words([0.5, 0.25, None, 0.0]) == ["0.500", "0.250", "–", "0.000"]
    assert column_in_words([0.5, 0.00025]) == ["0.5000", "0.0003"]
    assert column_in_words([0.5, 1e-7]) == ["0.5", "1e-07"]


def test_a_column_of_numbers_is_told_from_one_of_words() -> None:
    assert is_numeric([1, 2.5, None]) and is_numeric(np.arange(3))
    assert not is_numeric([1, "a"]) and not is_numeric([None]) and not is_numeric([True])


def test_a_vector_s_gaps_are_nothing() -> None:
    assert plain_value(np.array([1.0, np.nan])) == [1.0, None]


def test_figures_are_told_by_their_path_and_with_their_interval() -> None:
    figures = {
        "pairs": 12,
        "rates": {
            "first_5": {"value": 0.5, "low": 0.25, "high": 0.75, "of": 9},
            "none": {"value": 1, "low": None, "high": None},
        },
        "curve": [1, 2],
    }
    assert headline_figures(figures) == [
        ("pairs", "12"),
        ("rates first 5", "0.5 [0.25, 0.75], of 9"),
        ("rates none", "1"),
    ]


SECRET = "Dr. Ada Quint lives at the third lamp"
NUMBERS = np.arange(3)
FOUND = Findings(
    figures={"pairs": 3},
    tables=[
        FoundTable("pairs", "Pairs", {"name": ["Ada Quint", None], "esp": [0.5, 0.25]}, text_columns=("name",)),
        FoundTable("texts", "Texts", {"text": [[SECRET, "b"]], "kind": ["prompt"]}, text_columns=("text",)),
    ],
    charts=[
        LineChart("l", "L", "x", "y", [Series("ada  quint", NUMBERS, NUMBERS), Series("greedy", NUMBERS, NUMBERS)]),
        BarChart("b", "B", "y", ["Ada Quint", "lives at the…", "lamp", "3"], ["all"], np.zeros((1, 4))),
        HeatMap("h", "H", [SECRET[:30] + "…", "row"], ["1", "2"], np.zeros((2, 2)), [["third", "lamp"], ["a", "b"]]),
        HeatMap("n", "N", ["row"], ["1", "2"], np.zeros((1, 2)), [["0.5", "−1.2 %"]]),
    ],
    passages=[Passage("first", [("prompt", [Stretch(SECRET[:9]), Stretch(SECRET[9:], True)])])],
)


def test_text_is_told_by_length_and_hash_wherever_it_stands() -> None:
    closed = without_text(FOUND)
    assert closed.tables[0].columns == {"name": [redact_text("Ada Quint"), None], "esp": [0.5, 0.25]}
    assert closed.tables[1].columns["text"] == [[redact_text(SECRET), redact_text("b")]]
    assert closed.passages[0].texts == [("prompt", (Stretch(redact_text(SECRET)),))]
    line, bar, heat, numbers = closed.charts
    assert isinstance(line, LineChart) and [one.name for one in line.series] == [redact_text("ada  quint"), "greedy"]
    assert isinstance(bar, BarChart)
    assert bar.labels == [redact_text("Ada Quint"), redact_text("lives at the…"), "lamp", "3"]
    assert isinstance(heat, HeatMap) and heat.words is None and heat.row_labels[1] == "row"
    assert heat.row_labels[0].startswith("7 words, sha256")
    assert isinstance(numbers, HeatMap) and numbers.words is not None


def test_the_same_text_is_known_again_by_its_hash() -> None:
    assert redact_text("a b") == "2 words, sha256 c8687a08aa5d"
    assert redact_text("one") != redact_text("two")
    assert redact_text("\ud800") == "1 word, sha256 91a681b99855"


def test_figures_and_sentences_give_no_text_away() -> None:
    secret = "the agent met Zanzibar at noon"
    table = FoundTable("prompts", "Prompts", {"prompt": [secret], "share": [0.5]}, text_columns=("prompt",))
    findings = Findings(
        {"best": [{"prompt": secret, "share": 0.5}]}, (f"Best is {secret!r}.", "It says no more."), [table]
    )
    redacted = without_text(findings)
    assert "Zanzibar" not in repr(redacted)
    assert redacted.figures == {"best": [{"prompt": redact_text(secret), "share": 0.5}]}
    assert redacted.sentences[1] == "It says no more."
