"""Recorded runs as a notebook sees them: tables, lists, waiting, and HTML of hostile text."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.notebook import runs as module
from harness.notebook.progress import ProgressLine
from tests.records import EXAMPLES, Recorded, recorded_run


@pytest.fixture
def run(home: Path) -> Recorded:
    """A finished run that solved the examples 0 to 3 of 16, and guessed two examples wrongly."""
    recorded = recorded_run(home)
    void = recorded.batch("all/0/0")
    recorded.guess(void, [(9, True, 1.0)])
    batch = recorded.batch("all/0/0")
    rows = [(example, example < 4, -float(example)) for example in range(6)]
    recorded.guess(batch, [(0, True, -9.0), *rows])
    with recorded.store.transaction():
        recorded.store.add_point(spent=2.0, guesses=8, rows=6, solved=4, wrong=2, recall=0.25)
    end(recorded, "finished", "")
    return recorded


def end(recorded: Recorded, phase: str, reason: str) -> None:
    recorded.supervised_by(1)
    recorded.event("phase", phase=phase, reason=reason)


def test_guesses_have_their_last_score_and_void_ones_are_left_out(run: Recorded) -> None:
    guesses = harness.open_run("abcd").guesses()
    assert list(guesses.columns) == ["example", "score", "trial", "seconds", "correct", "suffix", "text"]
    assert guesses["example"].tolist() == list(range(6))
    assert guesses["score"].tolist() == [-float(example) for example in range(6)]
    assert guesses["correct"].tolist() == [True] * 4 + [False] * 2
    assert guesses["suffix"][0] == run.answers[0].tolist()
    # This run has no tokenizer.
    assert guesses["text"].isna().all()


def test_the_submission_is_ordered_and_says_what_is_correct(run: Recorded) -> None:
    submission = harness.open_run("abcd").submission()
    assert submission.index.tolist() == [1, 2, 3, 4, 5, 6]
    assert submission["example"].tolist() == [0, 1, 2, 3, 4, 5]
    assert submission["correct"].sum() == 4


def test_examples_curve_and_history_agree_with_the_score(run: Recorded) -> None:
    opened = harness.open_run()
    score, examples = opened.score(), opened.examples()
    assert (score.recall, score.solved, score.examples, score.rows) == (0.25, 4, EXAMPLES, 6)
    assert examples.index[examples["solved"]].tolist() == [0, 1, 2, 3]
    assert examples["answer"][15] == run.answers[15].tolist()
    assert opened.curve().to_dict("list") == {"errors": [1, 2, 3], "recall": [0.25, 0.25, 0.25]}
    assert score.curve().equals(opened.curve())
    assert opened.history().to_dict("list") == {"seconds": [2.0], "guesses": [8], "rows": [6], "recall": [0.25]}


def test_a_blind_run_says_what_is_not_known(home: Path) -> None:
    recorded = recorded_run(home, is_blind=True)
    recorded.guess(recorded.batch("all/0/0"), [(0, True, 1.0)])
    end(recorded, "finished", "")
    opened = harness.open_run()
    assert opened.guesses()["correct"].isna().all() and opened.examples()["solved"].isna().all()
    assert opened.examples()["answer"].isna().all()
    assert "blind round" in opened._repr_html_() and "<img" not in opened._repr_html_()
    for wrong in (opened.score, opened.curve):
        with pytest.raises(harness.HarnessError, match="is blind"):
            wrong()


def test_a_run_without_a_guess_has_empty_tables(home: Path) -> None:
    end(recorded_run(home), "stopped", "asked to stop")
    opened = harness.open_run()
    for table in (opened.guesses(), opened.submission(), opened.history()):
        assert len(table) == 0
    assert opened.curve()["recall"].tolist() == [0.0]
    assert "asked to stop" in opened._repr_html_()


def test_runs_are_found_by_id_directory_and_conditions(run: Recorded, home: Path) -> None:
    end(recorded_run(home, id_="zzzz-other"), "stopped", "")
    assert harness.open_run("zzzz").directory == harness.open_run(home / "state" / "runs" / "zzzz-other").directory
    assert [found.id for found in harness.list_runs(status="stopped")] == ["zzzz-other"]
    listed = harness.list_runs(attack="some", limit=2)
    assert len(listed) == 2 and len(listed[:1]) == 1 and listed[0] in list(listed)
    assert set(listed.table().index) == {"abcd-some", "zzzz-other"}
    assert listed.table()["recall"].notna().tolist() == [found.id == "abcd-some" for found in listed]
    for name, sentence in (("qqqq", "unknown run"), (home, "not the directory of a run")):
        with pytest.raises(harness.HarnessError, match=sentence):
            harness.open_run(name)


def test_the_scorecard_exists_after_the_end(run: Recorded) -> None:
    with pytest.raises(harness.HarnessError, match="has no scorecard"):
        _ = harness.open_run().scorecard
    run.folder.scorecard.write_text(json.dumps({"recall_at_cap": 0.25}))
    assert harness.open_run().scorecard == {"recall_at_cap": 0.25}


def test_text_of_a_record_is_escaped(home: Path) -> None:
    end(recorded_run(home), "crashed", "<script>alert(1)</script>\x1b[31m & more")
    opened = harness.open_run()
    for html in (opened._repr_html_(), harness.list_runs()._repr_html_()):
        assert "<script" not in html and "\x1b" not in html
    assert "&lt;script&gt;" in opened._repr_html_()
    assert "\x1b" not in repr(opened)


def test_figures_are_images_with_a_description(run: Recorded) -> None:
    for shown in (harness.open_run(), harness.open_run().score()):
        html = shown._repr_html_()
        assert 'alt="Recall vs. errors of abcd-some"' in html and "data:image/svg+xml;base64," in html


def test_a_comparison_has_a_table_and_the_difference(run: Recorded, home: Path) -> None:
    other = recorded_run(home, id_="bbbb-two")
    other.guess(other.batch("all/0/0"), [(example, example < 6, -float(example)) for example in range(8)])
    end(other, "finished", "")
    compared = harness.compare("abcd", harness.open_run("bbbb"))
    assert compared.table()["recall"].to_dict() == {"abcd-some": 0.25, "bbbb-two": 0.375}
    assert compared.as_dict()["contrast"]["only_second"] == [4, 5]
    assert "abcd-some − bbbb-two" in repr(compared) and "abcd-some − bbbb-two" in compared._repr_html_()
    with pytest.raises(harness.HarnessError, match="at least two runs"):
        harness.compare("abcd")


def test_a_stopped_run_is_not_tested(run: Recorded, home: Path) -> None:
    stopped = recorded_run(home, id_="bbbb-two")
    stopped.guess(stopped.batch("all/0/0"), [(0, True, 0.0)])
    end(stopped, "stopped", "")
    compared = harness.compare("abcd", "bbbb")
    reason = "bbbb-two is stopped and has attacked 1 of 16 examples, so it is not tested."
    assert reason in repr(compared) and reason in compared._repr_html_()
    assert compared.as_dict()["contrast"] is None and compared.as_dict()["not_tested_because"] == [reason]
    # Three runs are not tested in any case.
    end(recorded_run(home, id_="cccc-three"), "finished", "")
    assert "not tested" not in repr(harness.compare("abcd", "bbbb", "cccc"))


def test_waiting_for_a_crashed_run_raises_its_reason(home: Path) -> None:
    end(recorded_run(home), "crashed", "the attack raised ValueError.")
    with pytest.raises(harness.HarnessError, match="abcd-some crashed: the attack raised ValueError"):
        harness.open_run().wait()


def test_an_interrupt_ends_the_wait_and_not_the_run(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = recorded_run(home, pid=os.getpid())
    recorded.event("phase", phase="running", reason="")

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module.time, "sleep", interrupt)
        with pytest.raises(KeyboardInterrupt):
            harness.open_run().wait()
    assert str(harness.open_run().status) == "running"
    assert "abcd-some continues." in capsys.readouterr().err
    recorded.release()


def test_a_log_gets_the_first_and_the_last_status(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = recorded_run(home, pid=os.getpid())
    recorded.event("phase", phase="running", reason="")
    naps: list[Any] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 5:
            recorded.event("phase", phase="finished", reason="")

    monkeypatch.setattr(module.time, "sleep", nap)
    monkeypatch.setattr(time, "sleep", nap)
    assert str(harness.open_run().wait().status) == "finished"
    first, last = capsys.readouterr().err.splitlines()
    assert "running" in first and "finished" in last
    harness.open_run().wait(progress=False)
    assert capsys.readouterr().err == ""


def test_a_repainted_line_leaves_no_rest_and_an_error_erases_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with ProgressLine(is_shown=True) as line:
        for text in ("longer", "short", "short"):
            line.show_briefly(text)
    assert capsys.readouterr().err == "\rlonger\rshort \n"
    with pytest.raises(ValueError), ProgressLine(is_shown=True) as line:
        line.show("any")
        raise ValueError
    assert capsys.readouterr().err == "\rany\r   \r"
