"""The findings of an audit on the screen: the answer, the bars and the marked passages."""

from typing import Any

from harness.tui.audit_page import bar_table, passages, verdict

FOUND: dict[str, Any] = {
    "conclusion": {"question": "Was it?", "answer": "Probably", "evidence": "p < 0.0001", "caveat": "If[/] so."},
    "bar_charts": [
        {
            "title": "Shares",
            "bars": [
                {"label": "a", "group": "corpus", "is_control": False, "value": 0.4, "low": 0.3, "high": 0.5},
                {"label": "a", "group": "control", "is_control": True, "value": None, "low": None, "high": None},
                {"label": "b", "group": "corpus", "is_control": False, "value": 0.1, "low": None, "high": None},
            ],
        }
    ],
    "passages": [
        {"title": "row 1", "marked": "equal", "texts": [{"label": "suffix", "text": [["an ", False], ["[/x]", True]]}]}
    ],
}


def test_the_verdict_begins_with_the_question_and_its_answer() -> None:
    lines = verdict(FOUND).plain.splitlines()
    assert lines[0].startswith("Was it? Probably") and "p < 0.0001" in lines[0] and lines[1] == "If[/] so."


def test_an_audit_without_a_conclusion_has_no_verdict() -> None:
    assert verdict({"conclusion": None}).plain == ""


def test_bars_share_a_scale_and_missing_numbers_have_no_bar() -> None:
    _, rows = bar_table(FOUND["bar_charts"][0])
    first, missing, second = (row.cells for row in rows)
    bars = [cells[4](41) if callable(cells[4]) else () for cells in (first, second)]
    places = ["".join(text for text, _ in bar).index("●") for bar in bars]
    # 0.4 and 0.1 on a scale from 0 to 0.5.
    assert places == [32, 8]
    assert missing[3] == missing[4] == (("", ""),)
    assert first[0] == (("a", "bold"),) and missing[0] == (("", "bold"),)


def test_marked_parts_of_a_passage_are_underlined_and_never_markup() -> None:
    content = passages(FOUND)
    assert "suffix  an [/x]" in content.plain
    (span,) = [span for span in content.spans if "underline" in str(span.style)]
    assert content.plain[span.start : span.end] == "[/x]"
