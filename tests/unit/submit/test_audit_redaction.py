"""Redacted findings contain no text of the corpus or of the model."""

import numpy as np

from harness.core.findings import Findings, FoundTable, HeatMap, Passage, ShadedText, Stretch
from harness.core.redaction import redact_text
from harness.submit.audit_redaction import redact_findings

SECRET = "Dr. Ada Quint lives at the third lamp"
WORDS = SECRET.split()
FOUND = Findings(
    figures={"pairs": 3},
    tables=[
        FoundTable("pairs", "Pairs", {"name": ["Ada Quint", None], "esp": [0.5, 0.25]}, text_columns=("name",)),
        FoundTable("texts", "Texts", {"text": [[SECRET, "b"]], "kind": ["prompt"]}, text_columns=("text",)),
    ],
    charts=[
        HeatMap("h", "H", ["row"], [str(place) for place in range(len(WORDS))], np.zeros((1, len(WORDS))), [WORDS]),
        HeatMap("n", "N", ["row"], ["1", "2"], np.zeros((1, 2)), [["0.5", "−1.2 %"]]),
    ],
    passages=[Passage("first", [("prompt", [Stretch(SECRET[:9]), Stretch(SECRET[9:], True)])])],
    texts=[ShadedText("t", "T", SECRET, np.zeros(len(SECRET)), (0.5,))],
)


def test_text_is_replaced_in_tables_passages_and_charts() -> None:
    closed = redact_findings(FOUND)
    assert closed.tables[0].columns == {"name": [redact_text("Ada Quint"), None], "esp": [0.5, 0.25]}
    assert closed.tables[1].columns["text"] == [[redact_text(SECRET), redact_text("b")]]
    assert closed.passages[0].texts == [("prompt", (Stretch(redact_text(SECRET)),))]
    assert closed.is_redacted and closed.texts == ()
    heat, numbers = closed.charts
    assert isinstance(heat, HeatMap) and heat.words is None
    assert isinstance(numbers, HeatMap) and numbers.words is not None
    assert not [word for word in ("Quint", "lamp") if word in repr(closed)]


def test_equal_texts_have_equal_hashes() -> None:
    assert redact_text("a b") == "2 words, sha256 c8687a08aa5d"
    assert redact_text("one") != redact_text("two")
    assert redact_text("\ud800") == "1 word, sha256 91a681b99855"
