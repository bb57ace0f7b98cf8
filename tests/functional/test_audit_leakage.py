"""`harness audit leakage`: findings, tables and figures, redaction, invalid input."""

import csv
import json

import numpy as np
import pytest

from tests.functional.machine import Machine

NAMES = ("audit", "leakage", "--names", "--threads", "1", "--prefix-lengths", "20", "--limit", "12", "--inexact", "3")


@pytest.mark.slow
def test_a_sweep_writes_findings_tables_and_figures(machine: Machine) -> None:
    findings = machine.json(*NAMES, "--out", "whole")
    assert findings["is_complete"] and len(findings["settings"]) == 6
    assert findings["conclusion"]["question"] == "How likely is the model to leak these sequences?"
    rates = {row["case"] for row in findings["measures"] if row["measure"] == "mean_esp"}
    assert {case.split()[0] for case in rates} == {"greedy", "plain", "temperature", "top-k", "top-p", "typical-p"}
    assert machine.json("audit", "show", "latest", "--out", "again") == findings
    names = {path.name: path for path in (machine.folder / "whole" / "tables").iterdir()}
    assert "matches.parquet" in names
    assert all(
        path.read_bytes() == (machine.folder / "again" / "tables" / name).read_bytes() for name, path in names.items()
    )
    figures = {path.stem for path in (machine.folder / "whole" / "figures").iterdir()}
    assert {
        "leaked",
        "token-probability",
        "trends-over-model-sizes",
        "inexact-over-exact",
        "wrong-positions",
    } <= figures


@pytest.mark.slow
def test_a_redacted_audit_writes_no_text(machine: Machine) -> None:
    machine.json(*NAMES, "--target", "demo", "--out", "open")
    machine.run("audit", "show", "latest", "--out", "hidden", "--redact")
    with (machine.folder / "open" / "tables" / "matches.csv").open(encoding="utf-8-sig", newline="") as file:
        texts = {row[column].strip() for row in csv.DictReader(file) for column in ("suffix", "match")}
    texts = {text for text in texts if len(text) > 5}
    assert texts
    for path in (machine.folder / "hidden").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not [text for text in texts if text.encode() in content], path


def test_pairs_in_a_file_are_measured_and_bad_input_is_refused(machine: Machine) -> None:
    rows = np.random.default_rng(0).integers(1, 384, (20, 54))
    np.savez(machine.folder / "pairs.npz", prefixes=rows[:, :50], suffixes=rows[:, 50:])
    found = machine.json("audit", "leakage", "pairs.npz", "--target", "demo-tiny", "--inexact", "3", "--threads", "1")
    assert found["sequences"] == 20 and found["suffix_tokens"] == 4
    json.dumps(found, allow_nan=False)
    for arguments, code, sentence in (
        (("pairs.npz",), 2, "no target is named"),
        ((), 2, "no pairs are named"),
        (("absent.npz", "--target", "demo"), 1, "no such file"),
        (("--names", "--top-p", "2"), 2, "--top-p"),
        (("--corpus", "pairs.npz"), 2, "--corpus and --tagger must be given together"),
    ):
        assert sentence in machine.run("audit", "leakage", *arguments, code=code).stderr


def test_an_audit_of_an_earlier_version_is_still_shown(machine: Machine) -> None:
    rows = np.random.default_rng(0).integers(1, 384, (6, 54))
    np.savez(machine.folder / "pairs.npz", prefixes=rows[:, :50], suffixes=rows[:, 50:])
    options = ("--target", "demo-tiny", "--inexact", "0", "--near", "0", "--threads", "1")
    found = machine.json("audit", "leakage", "pairs.npz", *options)
    (spec_file,) = machine.folder.rglob("spec.json")
    spec = json.loads(spec_file.read_text())
    spec["tables"] = [table for table in spec["tables"] if table["name"] != "near"]
    for name in ("near", "edits", "beams"):
        del spec["params"][name]
    spec_file.chmod(0o644)
    spec_file.write_text(json.dumps(spec))
    assert machine.json("audit", "show", "latest") == found and found["is_complete"]
