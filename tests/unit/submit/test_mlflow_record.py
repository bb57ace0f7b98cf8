"""A run or an audit as parameters, metrics and tags that MLflow accepts."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import HarnessError
from harness.core.findings import Conclusion, Findings
from harness.core.measures import Estimate, Measure, MeasureRow, MeasureTable
from harness.core.spec import PathRecord
from harness.runs.folder import RunFolder
from harness.runs.status import Status
from harness.submit.mlflow_record import MlflowRecord, attack_record, audit_record, require_ended
from harness.submit.run_facts import run_facts
from tests.unit.submit.audit_header import HEADER, MODEL
from tests.unit.submit.ended import HOSTILE, ended_run, make_hostile

KEY = re.compile(r"[A-Za-z0-9_.-]{1,250}")
FIGURES = {
    "paragraphs": 3,
    "is_complete": True,
    "unknown": None,
    "infinite": float("inf"),
    "model": "demo",
    "models": [{"model": "secret text", "coverage": 0.5}, {"model": "b", "coverage": {"0.01": 0.75}}],
    "numbers": [1, 2, 3],
    "many": [{"n": number} for number in range(100)],
    "a b": 1,
    "a/b": 2,
    "": 3,
    "..": 4,
    "x" * 300: 5,
}


def record_of(folder: Path, figures: dict[str, Any] = FIGURES, **changes: Any) -> MlflowRecord:
    run = RunFolder(folder)
    run.spec_file.write_text("{}")
    header = replace(HEADER, spec=HEADER.spec.model_copy(update=changes))
    rate = MeasureRow(Measure("rate", "rate", "a share"), Estimate(0.4, 0.3, 0.5, 10), "demo", case="trigram", at=5)
    conclusion = Conclusion("Was it seen?", "Probably", "3 of 4")
    found = Findings(figures, conclusion=conclusion, measures=MeasureTable([rate]))
    return audit_record(run, header, found)


def values_of(record: MlflowRecord) -> dict[str, float]:
    assert {point.step for series in record.metrics.values() for point in series} == {0}
    return {name: series[0].value for name, series in record.metrics.items()}


def test_the_figures_that_the_report_names_are_metrics(tmp_path: Path) -> None:
    values = values_of(record_of(tmp_path))
    known = {
        "elapsed_s": 42.0,
        "paragraphs": 3.0,
        "is_complete": 1.0,
        "rate.5.trigram.demo": 0.4,
        "rate.5.trigram.demo.low": 0.3,
        "rate.5.trigram.demo.high": 0.5,
        "rate.5.trigram.demo.of": 10.0,
        "a_b": 1.0,
        "a_b_": 2.0,
        "_": 3.0,
        "__": 4.0,
        "x" * 200: 5.0,
    }
    assert values == known
    assert all(KEY.fullmatch(name) for name in values)


def test_an_audit_is_described_by_its_parameters_and_tags(tmp_path: Path) -> None:
    path = PathRecord(path=Path("/home/me/corpus.jsonl"), sha256="cd" * 32)
    models = (MODEL, MODEL.model_copy(update={"id": "/home/me/models/other"}))
    params = {"corpus": str(path.path), "kinds": ["a", "b"], "text": HOSTILE, "long": "x" * 2000}
    record = record_of(tmp_path, params=params, paths={"corpus": path}, models=models)
    known = {
        "audit": "sequence",
        "source": "corpus",
        "seed": "7",
        "budget_s": "600.0",
        "version.harness": "0.1",
        "param.corpus": "corpus.jsonl",
        "param.kinds": '["a", "b"]',
        "target_1": "demo",
        "target_2": "other",
    }
    assert record.params.items() >= known.items()
    assert "/home" not in str(record)
    assert len(record.params["param.long"]) == 500 and "\x1b" not in record.params["param.text"]
    tags = {"harness.run": "abcd-demo", "harness.kind": "audit", "harness.answer": "Probably"}
    assert (
        record.tags.items() >= (tags | {"harness.weights_sha256.1": "ab" * 32, "harness.is_redacted": "false"}).items()
    )
    assert (record.start_ms, record.end_ms) == (1_700_000_000_000, 1_700_000_042_000)
    assert record_of(tmp_path, params=params, paths={"corpus": path}, models=models) == record


def test_a_hostile_run_has_keys_that_mlflow_accepts(home: Path) -> None:
    run = ended_run(home)
    make_hostile(run)
    record = attack_record(run_facts(run), is_redacted=True)
    assert all(KEY.fullmatch(name) for names in (record.params, record.metrics, record.tags) for name in names)
    assert not {"\x1b", "\u202e"} & set("".join([*record.params.values(), *record.tags.values()]))
    assert str(home) not in str(record)


def test_a_curve_has_one_point_per_second_and_ends_with_the_score(home: Path) -> None:
    facts = run_facts(ended_run(home))
    curve = [(0.0, 0.0), (0.6, 0.1), (0.8, 0.2), (1.2, 0.3), (2.5, 0.375)]
    points = attack_record(replace(facts, curve=tuple(curve)), is_redacted=False).metrics["recall_at_cap"]
    assert [(point.step, point.value) for point in points] == [(0, 0.0), (1, 0.3), (2, 0.375)]
    assert [point.at_ms - points[0].at_ms for point in points] == [0, 1200, 2500]


@pytest.mark.parametrize("status", list(Status))
def test_only_a_run_that_is_over_is_exported(status: Status) -> None:
    if status.is_over:
        require_ended("abcd", status)
    else:
        with pytest.raises(HarnessError, match=f"abcd is {status.words}, and only a run that is over"):
            require_ended("abcd", status)
