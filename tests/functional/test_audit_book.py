"""`harness audit book`: killed and resumed, several texts and targets, redaction, invalid input."""

from pathlib import Path

import pytest

from harness.runs.folder import RunFolder
from harness.runs.summary import run_status, run_summary
from tests.demo_texts import trained_text, unseen_text
from tests.functional.machine import Machine, kill_supervisor, wait_until

QUICK = ("--target", "demo-tiny", "--threads", "1")


@pytest.fixture
def book(machine: Machine) -> tuple[str, ...]:
    """The arguments of an audit of two known texts and a control."""
    folder = machine.folder / "books"
    folder.mkdir()
    (folder / "one.txt").write_text(trained_text(8), encoding="utf-8")
    (folder / "two.txt").write_text(trained_text(14)[-900:], encoding="utf-8")
    (machine.folder / "control.txt").write_text(unseen_text(8), encoding="utf-8")
    return ("audit", "book", "books", "--control", "control.txt")


def contents(folder: Path) -> dict[str, bytes]:
    """Return the tables, figures and texts of an audit."""
    parts = ("tables", "figures", "texts")
    return {str(path.relative_to(folder)): path.read_bytes() for part in parts for path in (folder / part).iterdir()}


@pytest.mark.slow
def test_a_killed_audit_continues_to_the_same_findings(machine: Machine, book: tuple[str, ...]) -> None:
    arguments = (*book, *QUICK, "--target", "demo", "--stride", "4")
    reference = machine.json(*arguments, "--out", "whole")
    folder = RunFolder(Path(machine.json(*arguments, "--detach")["directory"]))
    wait_until(lambda: run_summary(folder).guesses > 100)
    kill_supervisor(folder)
    wait_until(lambda: run_status(folder).is_over)
    assert run_status(folder) != "finished"
    partial = machine.json("audit", "show", folder.id)
    assert not partial["is_complete"] and "so far" in partial["conclusion"]["evidence"]
    machine.run("resume", folder.id)
    assert machine.json("audit", "show", folder.id, "--out", "resumed") == reference
    assert contents(machine.folder / "resumed") == contents(machine.folder / "whole")
    rows = [row for row in reference["measures"] if row["measure"] == "measured_windows"]
    assert [(row["model"], row["side"]) for row in rows] == [
        (model, text) for model in ("demo-tiny", "demo") for text in ("one.txt", "two.txt", "control.txt (control)")
    ]
    shown = contents(machine.folder / "whole")
    assert {"figures/heat-map.svg", "tables/windows.parquet", "texts/text-1-model-2.html"} <= set(shown)
    (heat_map,) = reference["heat_maps"]
    assert len(heat_map["values"]) == 6 and len(heat_map["values"][0]) == len(heat_map["columns"])


def test_a_redacted_audit_shows_no_text(machine: Machine, book: tuple[str, ...]) -> None:
    machine.json(*book, "--target", "demo", "--threads", "1", "--stride", "60", "--out", "open")
    machine.run("audit", "show", "latest", "--out", "hidden", "--redact")
    secrets = [line.encode() for line in trained_text(14).splitlines() if len(line) > 20]
    written = {path: path.read_bytes() for path in (machine.folder / "hidden").rglob("*") if path.is_file()}
    assert not [path for path, content in written.items() for secret in secrets if secret in content]
    assert not (machine.folder / "hidden" / "texts").exists()
    assert any(secret in (machine.folder / "open" / "texts" / "text-1-model-1.html").read_bytes() for secret in secrets)


def test_bad_input_is_refused_in_one_sentence(machine: Machine, book: tuple[str, ...]) -> None:
    (machine.folder / "short.txt").write_text("a few words")
    for arguments, code, sentence in (
        ((), 2, "no text is named. Give a file or a directory."),
        (("books",), 2, "no target is named. Give --target."),
        (("books", *QUICK, "--schemes", "beam"), 2, "--schemes: "),
        (("books", *QUICK, "--stride", "0"), 2, "--stride: "),
        (("short.txt", *QUICK), 1, "short.txt contains no text of 100 tokens."),
        (("books", *QUICK, "--prefix-tokens", "4000"), 1, "the context of demo-tiny is"),
    ):
        done = machine.run("audit", "book", *arguments, code=code)
        assert sentence in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert machine.folders() == []
