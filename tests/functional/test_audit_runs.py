"""Audits are runs: they are killed, resumed, stopped and out of time, and findings come from their record."""

from pathlib import Path

import pytest

from harness.runs.folder import RunFolder
from harness.runs.summary import run_status, run_summary
from tests.completions_server import completion, completions_server
from tests.functional.machine import Machine, kill_supervisor, wait_until

SEQUENCE = ("audit", "sequence", "--round", "demo", "--threads", "1")
ON_TINY = (*SEQUENCE, "--target", "demo-tiny", "--limit", "400")
KEY = "sk-a-secret-key"


def detached(machine: Machine, *arguments: str) -> RunFolder:
    return RunFolder(Path(machine.json(*arguments, "--detach")["directory"]))


def rows_of(folder: RunFolder) -> int:
    return run_summary(folder).guesses


def tables_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "tables").iterdir())}


@pytest.mark.slow
def test_a_killed_audit_resumes_to_the_same_findings(machine: Machine) -> None:
    reference = machine.json(*ON_TINY, "--out", "whole")
    folder = detached(machine, *ON_TINY)
    wait_until(lambda: rows_of(folder) > 0)
    kill_supervisor(folder)
    wait_until(lambda: run_status(folder).is_over)
    assert run_status(folder) != "finished"
    machine.run("resume", folder.id, "--detach")
    wait_until(lambda: run_status(folder).is_over, seconds=120)
    assert run_status(folder) == "finished"
    assert machine.json("audit", "show", folder.id, "--out", "resumed") == reference
    assert tables_in(machine.folder / "resumed") == tables_in(machine.folder / "whole")


@pytest.mark.slow
def test_a_stopped_audit_shows_findings_and_can_be_resumed(machine: Machine) -> None:
    folder = detached(machine, *ON_TINY)
    wait_until(lambda: rows_of(folder) > 0)
    machine.run("stop", folder.id)
    assert run_status(folder) == "stopped"
    shown = machine.run("show", folder.id).stdout
    assert "audit         sequence" in shown
    assert "trigrams" in machine.run("audit", "show", folder.id).stdout
    machine.run("resume", folder.id)
    assert run_status(folder) == "finished"
    assert "finished" in machine.run("runs").stdout


@pytest.mark.slow
def test_an_audit_out_of_time_keeps_its_findings(machine: Machine) -> None:
    machine.run(*SEQUENCE, "--limit", "1000", "--budget", "6s", "--json", code=3)
    summary = machine.newest()
    assert summary["status"] == "out_of_time"
    assert 5 < summary["elapsed_s"] < 12
    assert machine.json("audit", "show", summary["id"])


@pytest.mark.slow
def test_an_audit_with_changed_inputs_is_not_resumed(machine: Machine) -> None:
    folder = detached(machine, *SEQUENCE, "--limit", "1000")
    wait_until(lambda: rows_of(folder) > 0)
    machine.run("stop", folder.id)
    (folder.inputs / "inputs.json").write_text((folder.inputs / "inputs.json").read_text() + " ")
    assert "its inputs in" in machine.run("resume", folder.id, code=1).stderr


def test_commands_for_guesses_refuse_an_audit(machine: Machine) -> None:
    id_ = detached(machine, *SEQUENCE, "--limit", "1000").id
    machine.run("stop", id_)
    for command in (
        ("export", id_),
        ("package", id_),
        ("compare", id_, id_),
        ("report", id_),
        ("show", id_, "--example", "1"),
    ):
        assert "found kind audit" in machine.run(*command, code=1).stderr


def test_a_sandboxed_worker_uses_an_endpoint_and_stores_no_key(machine_per_backend: Machine) -> None:
    machine = Machine(machine_per_backend.folder, {**machine_per_backend.environment, "OPENAI_API_KEY": KEY})
    corpus = machine.folder / "corpus"
    corpus.mkdir()
    words = [" ".join(f"word{number}of{paragraph}" for number in range(60)) for paragraph in range(5)]
    (corpus / "all.txt").write_text("\n\n".join(words))
    with completions_server(lambda body, number: completion(" and then nothing more")) as server:
        options = ("--endpoint", server.url, "--endpoint-model", "any", "--requests-per-minute", "6000")
        assert machine.json("audit", "sequence", str(corpus), *options, "--out", "found")
    assert len(set(server.prompts)) == 5
    assert {headers["Authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    summary = machine.newest()
    assert summary["status"] == "finished" and summary["network"] == "endpoint"
    for path in machine.folder.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), path
