"""The directory of a real audit as a data set, and the same audit in a real MLflow store."""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from harness.core.text import sanitize
from harness.submit.mlflow_export import require_mlflow
from tests.demo_target.names import write_name_pairs
from tests.functional.machine import Machine, readable_bytes

AUDIT = ("audit", "leakage", "names.npz", "--target", "demo-tiny", "--threads", "1", "--shorter-prefixes", "20")
SMALL = ("--limit", "12", "--inexact", "3", "--near", "0")

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Audited:
    """A machine with one finished audit, whose files are in the directory `out`."""

    machine: Machine
    findings: dict[str, Any]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Audited:
    machine = Machine(tmp_path_factory.mktemp("audited"))
    write_name_pairs(machine.folder)
    return Audited(machine, machine.json(*AUDIT, *SMALL, "--out", "out"))


def test_a_redacted_audit_is_logged_to_mlflow_without_text(audited: Audited) -> None:
    machine, findings = audited.machine, audited.findings
    uri = f"sqlite:///{machine.folder}/mlflow.db"
    with contextlib.chdir(machine.folder):
        client: Any = require_mlflow().MlflowClient(tracking_uri=uri)
        run = client.get_run(machine.json("export", "latest", "--mlflow", uri, "--redact")["mlflow_run"])
    assert run.data.params["targets"] == "demo-tiny" and run.data.tags["harness.status"] == "finished"
    assert run.data.metrics["sequences"] == findings["sequences"]
    assert len(run.data.metrics) < 40
    artifacts = Path(run.info.artifact_uri) / "audit"
    assert {"README.md", "findings.json", "index.html"} <= {path.name for path in artifacts.iterdir()}
    matches = pyarrow.parquet.read_table(machine.folder / "out" / "tables" / "matches.parquet")
    texts = {text.strip() for column in ("suffix", "match") for text in matches[column].to_pylist()}
    texts = {shown for text in texts if len(text) > 5 for shown in (text, sanitize(text))}
    assert texts
    for path in filter(Path.is_file, artifacts.rglob("*")):
        content = readable_bytes(path)
        assert not [text for text in texts if text.encode() in content], path
    assert not [text for text in texts if text in str([run.data.params, run.data.metrics, run.data.tags])]
