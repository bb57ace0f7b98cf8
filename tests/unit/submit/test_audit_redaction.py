"""Redacted findings contain no text of the corpus or of the model."""

import numpy as np

from harness.core.exports import redact_text
from harness.core.findings import (
    BarChart,
    Conclusion,
    Findings,
    FoundTable,
    HeatMap,
    KeyFigure,
    LineChart,
    Passage,
    Series,
    Stretch,
)
from harness.submit.audit_redaction import redact_findings

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


def test_text_is_replaced_in_tables_passages_and_charts() -> None:
    closed = redact_findings(FOUND)
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


def test_equal_texts_have_equal_hashes() -> None:
    assert redact_text("a b") == "2 words, sha256 c8687a08aa5d"
    assert redact_text("one") != redact_text("two")
    assert redact_text("\ud800") == "1 word, sha256 91a681b99855"


def test_figures_and_sentences_are_redacted() -> None:
    secret = "the agent met Zanzibar at noon"
    table = FoundTable("prompts", "Prompts", {"prompt": [secret], "share": [0.5]}, text_columns=("prompt",))
    findings = Findings(
        {"best": [{"prompt": secret, "share": 0.5}]}, (f"Best is {secret!r}.", "It says no more."), [table]
    )
    redacted = redact_findings(findings)
    assert "Zanzibar" not in repr(redacted)
    assert redacted.figures == {"best": [{"prompt": redact_text(secret), "share": 0.5}]}
    assert redacted.sentences[1] == "It says no more."


def test_no_text_of_the_findings_is_forgotten() -> None:
    """Every text field quotes the secret, so a field that redaction leaves out is found."""
    secret = "the agent met Zanzibar at noon"
    table = FoundTable("t", f"T {secret}", {"text": [secret]}, text_columns=("text",))
    conclusion = Conclusion(*(f"{part}: {secret}" for part in "qaec"), [KeyFigure(secret, secret, secret)])
    charts = [
        LineChart("l", secret, secret, secret, [Series(secret, NUMBERS, NUMBERS)]),
        BarChart("b", secret, secret, [secret], [secret], np.zeros((1, 1))),
        HeatMap("h", secret, [secret], [secret], np.zeros((1, 1)), [[secret]]),
    ]
    findings = Findings(
        {"figure": secret},
        [secret],
        [table],
        charts,
        definitions={"term": secret, secret: "meaning"},
        conclusion=conclusion,
        passages=[Passage(secret, [("prompt", [Stretch(secret)])])],
    )
    assert "Zanzibar" in repr(findings) and "Zanzibar" not in repr(redact_findings(findings))
