"""The option `--share-device` is recorded by a tuning and an audit."""

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli import audit as audit_commands
from harness.core.spec import JobSpec
from harness.plugins.discovery import AttackFile
from harness.runs.folder import RunFolder
from harness.runs.specs import AttackSpec
from harness.sweeps import running
from tests.unit.cli.command_line import CommandLine


def test_the_runs_of_a_tuning_record_whether_they_share_the_device(
    harness: CommandLine, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("optuna")
    specs = []

    def start_attack(spec: AttackSpec, _: AttackFile) -> RunFolder:
        specs.append(spec)
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "start_attack", start_attack)
    assert harness("tune", "sampling", "--limit", "4", "--share-device").code == 130
    assert [spec.shares_device for spec in specs] == [True]


def test_an_audit_records_whether_it_shares_the_device(
    harness: CommandLine, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = []

    def start_job(id_: str, prepare: Callable[[RunFolder], JobSpec]) -> RunFolder:
        folder = RunFolder(home / id_)
        folder.path.mkdir()
        specs.append(prepare(folder))
        raise KeyboardInterrupt

    monkeypatch.setattr(audit_commands, "start_job", start_job)
    harness("audit", "leakage", "--round", "demo", "--limit", "5", "--target", "demo-tiny", "--share-device")
    assert [spec.shares_device for spec in specs] == [True]
