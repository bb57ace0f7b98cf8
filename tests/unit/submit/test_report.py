"""The report is a self-contained page on which no recorded text can do harm."""

import re
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.core.exports import redact_suffix
from harness.core.text import sanitize
from harness.figures.palette import COLOURS
from harness.runs.attack_record import submission_now
from harness.submit.html_page import inline_svg, page
from harness.submit.report import report_page
from harness.submit.run_facts import run_facts, select_examples
from tests.records import recorded_run
from tests.tools.tiers import first_is_fast
from tests.unit.submit.ended import HOSTILE, ended_run, make_hostile
from tests.unit.submit.pages import ParsedPage, parsed_page


def assert_harmless(text: str) -> ParsedPage:
    """Check that the page is well-formed, runs no script, fetches nothing, and has unique ids."""
    parsed = parsed_page(text)
    assert not {"script", "iframe", "object", "embed", "img", "link", "base", "form"} & set(parsed.tags)
    assert parsed.tags["style"] == 1
    assert not [name for name, _ in parsed.attributes if name.startswith("on")]
    assert not [count for count in parsed.ids.values() if count > 1]
    targets = [value for name, value in parsed.attributes if name in ("href", "xlink:href", "src")]
    assert all(target.startswith("#") and target[1:] in parsed.ids for target in targets)
    assert all(target in parsed.ids for target in re.findall(r"url\(#([^)]*)\)", text))
    assert "default-src 'none'" in text
    return parsed


def test_a_page_is_self_contained_and_reproducible(home: Path) -> None:
    run = ended_run(home)
    text = report_page([run], redact=False)
    parsed = assert_harmless(text)
    assert parsed.tags["svg"] == 3
    assert "Recall@100 0.375" in parsed.text and "0.375 (95 % interval [" in parsed.text and run.id in parsed.text
    assert report_page([run], redact=False) == text


def test_hostile_texts_are_escaped(home: Path) -> None:
    run = ended_run(home)
    make_hostile(run)
    other = ended_run(home, solved=3, id_="efgh-other")
    text = report_page([run, other], redact=False)
    parsed = assert_harmless(text)
    assert "<script" not in text.lower()
    assert not {"\u202e", "\x1b"} & set(text)
    assert parsed.text.count(sanitize(HOSTILE)) >= 6  # attack, reference, parameter, its value, note, tokens


def test_two_runs_are_compared(home: Path) -> None:
    better, worse = ended_run(home, solved=9, id_="good-run"), ended_run(home, solved=4, id_="less-run")
    parsed = assert_harmless(report_page([better, worse], redact=False))
    assert "good-run − less-run, on all examples" in parsed.text
    assert "Difference +0.312 [" in parsed.text
    assert "Examples on which the runs differ" in parsed.text
    assert parsed.text.index("Example 4") < parsed.text.index("Example 8") < parsed.text.rindex("Run good-run")


def test_the_headline_names_the_run_that_leads(home: Path) -> None:
    worse, better = ended_run(home, solved=4, id_="less-run"), ended_run(home, solved=12, id_="good-run")
    page = report_page([worse, better], redact=False)
    assert re.search(r"<h1>good-run leads 2 runs with Recall@[\d,]+ 0\.750</h1>", page)
    assert "good-run (some) is +0.500 [" in page
    scores = parsed_page(page).text.partition("Scores")[2]
    assert scores.index("less-run") < scores.index("good-run")  # in the order of the command


def test_runs_that_do_not_differ_clearly_have_no_leader(home: Path) -> None:
    one, other = ended_run(home, solved=8, id_="aaaa-x"), ended_run(home, solved=8, id_="bbbb-x")
    assert "<h1>No run is clearly the best of 2: Recall@" in report_page([one, other], redact=False)


def test_a_stopped_run_is_not_tested(home: Path) -> None:
    whole, stopped = ended_run(home, solved=12, id_="good-run"), recorded_run(home, id_="stop-run")
    stopped.guess(stopped.batch("all/0/0"), [(example, True, 0.0) for example in range(4)])
    stopped.event("phase", phase="stopped")
    reason = "stop-run is stopped and has attacked 4 of 16 examples, so it is not tested."
    text = parsed_page(report_page([whole, stopped.folder], redact=False)).text
    assert "No run is clearly the best of 2: Recall@" in text and text.count(reason) == 2
    assert "McNemar" not in text


def test_a_run_has_the_same_colour_in_the_summary_and_in_all_figures(home: Path) -> None:
    runs = [ended_run(home, solved=solved, id_=id_) for solved, id_ in ((2, "aaaa-x"), (9, "bbbb-x"))]
    page = report_page(runs, redact=False)
    rows = re.findall(r'<i class="swatch" style="background: (#\w+)"></i><code>([\w-]+)</code>', page)
    assert rows == [(COLOURS[1], "bbbb-x"), (COLOURS[0], "aaaa-x")]
    figures = page.partition("<h2")[2]
    assert all(figures.count(f"stroke: {colour}") >= 2 for colour, _ in rows)


def test_every_run_is_compared_with_the_first(home: Path) -> None:
    runs = [ended_run(home, solved=solved, id_=id_) for solved, id_ in ((9, "aaaa-x"), (4, "bbbb-x"), (2, "cccc-x"))]
    text = assert_harmless(report_page(runs, redact=False)).text
    assert "aaaa-x − bbbb-x, on all examples" in text and "aaaa-x − cccc-x, on all examples" in text
    assert "bbbb-x − cccc-x" not in text


def test_a_blind_round_is_reported_without_verdicts(home: Path) -> None:
    runs = [ended_run(home, is_blind=True, id_=id_) for id_ in ("aaaa-x", "bbbb-x")]
    parsed = assert_harmless(report_page(runs, redact=False))
    assert parsed.tags["svg"] == 1
    assert "is blind. Score each run" in parsed.text
    assert "✓" not in parsed.text and "✗" not in parsed.text
    assert "The first rows of the submission (blind round):" in parsed.text
    for reported in (runs, runs[:1]):
        assert "The round is blind: its answers are" in parsed_page(report_page(reported, redact=False)).text


def test_runs_with_different_limits_are_not_compared(home: Path) -> None:
    runs = [ended_run(home, id_="aaaa-x"), ended_run(home, limit=10, id_="bbbb-x")]
    text = assert_harmless(report_page(runs, redact=False)).text
    assert "Compare runs with the same --limit" in text
    assert "partial: 10 examples" in text and "not a result of the round" in text


@pytest.mark.parametrize(
    ("phase", "sentence"),
    first_is_fast(
        [
            ("running", "The run ended lost: its supervisor died"),
            ("crashed", "The run ended crashed."),
            ("out_of_time", "The run ended out of time."),
        ]
    ),
)
def test_an_unusual_end_is_shown(phase: str, sentence: str, home: Path) -> None:
    assert sentence in assert_harmless(report_page([ended_run(home, phase=phase)], redact=False)).text


def test_redaction_removes_guesses_and_answers(home: Path) -> None:
    run, other = ended_run(home), ended_run(home, solved=3, id_="efgh-other")
    open_text = report_page([run, other], redact=False)
    closed = report_page([run, other], redact=True)
    submitted = submission_now(run)
    for suffix in submitted.suffixes[:8]:
        shown = " ".join(map(str, suffix.tolist()))
        assert shown not in closed
        assert redact_suffix(suffix, run.attack_spec().round.vocabulary) not in open_text
    assert " ".join(map(str, submitted.suffixes[0].tolist())) in open_text
    assert redact_suffix(submitted.suffixes[0], run.attack_spec().round.vocabulary) in closed


def test_an_example_with_a_correct_row_is_not_shown_as_wrong(home: Path) -> None:
    recorded = recorded_run(home, per_example=2)
    batch = recorded.batch("guess/0/0")
    recorded.guess(batch, [(0, False, 9.0), (1, False, 8.0), (0, True, 7.0)])
    recorded.store.close()
    chosen = select_examples(run_facts(recorded.folder), limit=4, redact=False)
    assert {kind: [example.id for example in examples] for kind, examples in chosen.items()} == {
        "correct": [0],
        "wrong": [1],
    }
    (guess,) = chosen["correct"][0].guesses
    assert (guess.row, guess.is_correct, guess.differs) == (3, True, "")
    (wrong,) = chosen["wrong"][0].guesses
    assert (wrong.row, wrong.is_correct, wrong.agrees) == (2, False, "")
    assert wrong.differs.split()[1:] == str(chosen["wrong"][0].answer).split()[1:]


def test_runs_of_two_rounds_are_refused(home: Path) -> None:
    run, other = ended_run(home), ended_run(home, id_="efgh-other")
    spec = other.attack_spec()
    renamed = spec.round.model_copy(update={"name": "else"})
    other.spec_file.write_text(spec.model_copy(update={"round": renamed}).model_dump_json())
    with pytest.raises(HarnessError, match="Compare runs of one round"):
        report_page([run, other], redact=False)
    with pytest.raises(HarnessError, match="given twice"):
        report_page([run, run], redact=False)


def test_ids_of_several_figures_differ() -> None:
    svg = (
        '<?xml version="1.0"?><svg width="1"><!-- <b> --><metadata>x</metadata><style>*{}</style>'
        '<g id="a"><use href="#a"/><use xlink:href="#a"/><path clip-path="url(#a)"/></g></svg>'
    )
    assert inline_svg(svg, "one", 'say "x"') == (
        '<svg width="1" role="img" aria-label="say &#34;x&#34;" stroke-linejoin="round">'
        '<g id="one-a"><use href="#one-a"/><use xlink:href="#one-a"/><path clip-path="url(#one-a)"/></g></svg>'
    )


def test_a_missing_template_value_is_an_error() -> None:
    with pytest.raises(Exception, match="is undefined"):
        page("report.html.j2", round="demo")
