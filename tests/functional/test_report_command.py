"""`harness report` on real runs: pages and errors."""

import pytest

from tests.functional.machine import Machine, wait_until, write_round


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Machine, str, str]:
    """A machine with two runs of one round, and their ids."""
    machine = Machine(tmp_path_factory.mktemp("report"))
    write_round(machine.folder)
    better, worse = (
        machine.executed("replay", *machine.replaying(name, solved)).id
        for name, solved in (("better", range(40)), ("worse", range(20, 44)))
    )
    return machine, better, worse


def test_the_page_of_two_runs_has_scores_and_differences(reported: tuple[Machine, str, str]) -> None:
    machine, better, worse = reported
    done = machine.run("report", better, worse, "--out", "pair.html")
    assert done.stdout == "pair.html\n"
    text = (machine.folder / "pair.html").read_text()
    assert text.startswith("<!doctype html>") and "<script" not in text
    for id_ in (better, worse):
        summary = machine.json("show", id_)
        assert f"{summary['recall_at_cap']:.3f} [" in text
    assert f"{better} − {worse}, on all examples" in text
    assert machine.run("report", better, worse, "--out", "again.html").stdout
    assert (machine.folder / "again.html").read_text() == text


def test_an_existing_page_is_replaced_only_with_force(reported: tuple[Machine, str, str]) -> None:
    machine, better, _ = reported
    (machine.folder / "one.html").write_text("mine")
    refused = machine.run("report", better, "--out", "one.html", code=1)
    assert refused.stderr == "harness: one.html exists. --force replaces it.\n"
    assert (machine.folder / "one.html").read_text() == "mine"
    machine.run("report", better, "--out", "one.html", "--force")
    assert better in (machine.folder / "one.html").read_text()


def test_redact_removes_guesses(reported: tuple[Machine, str, str]) -> None:
    machine, better, _ = reported
    for name, options in (("open", []), ("closed", ["--redact"])):
        machine.run("report", better, "--out", f"{name}.html", *options)
    (first,) = machine.json("show", better, "--example", "0")["candidates"]
    shown = " ".join(map(str, first["suffix"]))
    assert shown in (machine.folder / "open.html").read_text()
    closed = (machine.folder / "closed.html").read_text()
    assert shown not in closed and "8 tokens, sha256 " in closed


@pytest.mark.parametrize(
    ("out", "code", "sentence"),
    [
        ("page.pdf", 2, "page.pdf: a report is an .html file. Choose another name."),
        ("absent/page.html", 1, "no such directory: absent. Check the path."),
    ],
)
def test_an_invalid_output_path_is_refused(
    out: str, code: int, sentence: str, reported: tuple[Machine, str, str]
) -> None:
    machine, better, _ = reported
    assert machine.run("report", better, "--out", out, code=code).stderr == f"harness: {sentence}\n"


@pytest.mark.slow
def test_running_and_crashed_runs_can_be_reported(machine: Machine) -> None:
    running = machine.detached("patient")
    wait_until(lambda: machine.summary(running)["guesses"] > 0)
    crashed = machine.attack("misbehaving", "--set", "action=raises", code=1)
    machine.run("report", running.id, crashed["id"], "--out", "both.html")
    text = (machine.folder / "both.html").read_text()
    assert "The run was running when this was written" in text
    assert "The run ended crashed" in text
