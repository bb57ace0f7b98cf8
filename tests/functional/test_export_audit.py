"""The directory of a real audit as a data set, and the same audit in a real MLflow store."""

import contextlib
import csv
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from harness.submit.mlflow_export import require_mlflow
from tests.functional.machine import Machine

AUDIT = ("audit", "leakage", "--names", "--target", "demo-tiny", "--threads", "1", "--prefix-lengths", "20")
SMALL = ("--limit", "12", "--inexact", "3", "--near", "0")


@pytest.mark.slow
def test_datasets_and_croissant_load_every_table_of_an_audit(machine: Machine) -> None:
    import datasets  # slow to import, and needed by one test
    import mlcroissant as croissant

    machine.json(*AUDIT, *SMALL, "--out", "out")
    out = machine.folder / "out"
    tables = {path.stem: pyarrow.parquet.read_table(path) for path in (out / "tables").glob("*.parquet")}
    filled = {name for name, table in tables.items() if table.num_rows}
    assert {"schemes", "matches", "sequences"} <= filled == set(datasets.get_dataset_config_names(str(out)))
    metadata = croissant.Dataset(jsonld=str(out / "croissant.json"))
    for name in filled:
        cache = str(machine.folder / "cache-of-datasets")
        loaded = datasets.load_dataset(str(out), name, split="audit", cache_dir=cache)
        assert loaded.to_list() == tables[name].to_pylist()
        assert len(list(metadata.records(name))) == tables[name].num_rows
    for file in filter(Path.is_file, out.rglob("*")):
        assert bytes(machine.folder) not in file.read_bytes(), file
    assert "revision main, float32, weights" in (out / "README.md").read_text(encoding="utf-8")
    machine.run("audit", "show", "latest", "--out", "again")
    assert (machine.folder / "again" / "README.md").read_bytes() == (out / "README.md").read_bytes()
    assert (machine.folder / "again" / "croissant.json").read_bytes() == (out / "croissant.json").read_bytes()


@pytest.mark.slow
def test_an_audit_is_exported_to_mlflow_and_redacted_afterwards(machine: Machine) -> None:
    findings = machine.json(*AUDIT, *SMALL)
    uri = f"sqlite:///{machine.folder}/mlflow.db"
    printed = machine.json("export", "latest", "--mlflow", uri)
    with contextlib.chdir(machine.folder):
        client: Any = require_mlflow().MlflowClient(tracking_uri=uri)
        run = client.get_run(printed["mlflow_run"])
    assert run.data.params["audit"] == "leakage" and run.data.params["target"] == "demo-tiny"
    assert run.data.metrics["sequences"] == findings["sequences"]
    assert len(run.data.metrics) > len(findings["measures"])
    (expected,) = (
        row["value"]
        for row in findings["measures"]
        if (row["measure"], row["case"], row["side"]) == ("mean_esp", "top-k 10", "prefixes of 50 tokens")
    )
    assert run.data.metrics["mean_esp.top-k_10.prefixes_of_50_tokens.demo-tiny"] == pytest.approx(expected)
    artifacts = Path(run.info.artifact_uri) / "audit"
    assert {"README.md", "croissant.json", "findings.json", "index.html"} <= {path.name for path in artifacts.iterdir()}
    with (artifacts / "tables" / "matches.csv").open(encoding="utf-8", newline="") as file:
        texts = {row[column].strip() for row in csv.DictReader(file) for column in ("suffix", "match")}
    texts = {text for text in texts if len(text) > 5}
    assert texts
    again = machine.json("export", "latest", "--mlflow", uri, "--redact")
    assert again["mlflow_run"] == printed["mlflow_run"] and not again["is_new"]
    kept = [path for path in artifacts.rglob("*") if path.is_file()]
    assert len(kept) == len(again["artifacts"])
    for path in kept:
        content = path.read_bytes()
        assert not [text for text in texts if text.encode() in content], path
    run = client.get_run(printed["mlflow_run"])
    assert not [text for text in texts if text in str([run.data.params, run.data.metrics, run.data.tags])]
