"""Every audit of the registry: stored inputs, resume, findings of no and some rows, JSON, and redaction."""

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.audits.registry import AUDITS
from harness.core.findings import BarChart, Findings, HeatMap, LineChart
from harness.core.paths import model_names
from harness.demo import REFERENCE, SIZES
from harness.submit.finding_tables import redact_findings
from tests.demo_target.classifiers import Family, fine_tune, invented_names, write_names
from tests.tools.demo_texts import trained_text, unseen_text
from tests.unit.audits.in_memory import InMemory, Killed, plain, quoted_after_redaction, target_configs
from tests.unit.audits.preparing import preparation

TINY, SMALL, OTHER = (str(model.weights) for model in (SIZES[-1], SIZES[-2], REFERENCE))
Options = dict[str, Any]


def book(folder: Path) -> tuple[Options, Options]:
    files = {"text": (folder / "known.txt",), "control": folder / "unseen.txt"}
    return files | {"target": (TINY, SMALL)}, {"stride": 40, "near": 6, "beams": 2}


def compare(folder: Path) -> tuple[Options, Options]:
    files = {"pairs": folder / "known.txt", "control": folder / "unseen.txt"}
    return files | {"target": (TINY, SMALL)}, {}


def entities(folder: Path) -> tuple[Options, Options]:
    names = invented_names(6)
    for family in (Family.BERT, Family.ALBERT):
        fine_tune(family, names, folder / family, steps=2)
    write_names(names, folder)
    (folder / "prompts.txt").write_text("kind\tMASK came home at last.\nother\tWho is MASK?\nother\tMASK is here.\n")
    lists = {name.replace("-", "_"): folder / f"{name}.txt" for name in ("in-train", "out-train", "prompts")}
    return lists | {"target": (str(folder / Family.BERT), str(folder / Family.ALBERT))}, {"attention_prompts": 1}


def leakage(folder: Path) -> tuple[Options, Options]:
    pairs = {"pairs": folder / "known.txt", "prefix_tokens": 30, "suffix_tokens": 6, "limit": 20}
    return pairs | {"target": (TINY, SMALL)}, {"prefix_lengths": (20,), "inexact": 4, "near": 4, "beams": 2}


def membership(folder: Path) -> tuple[Options, Options]:
    for name, text in (("members", trained_text(60)), ("others", unseen_text(60))):
        lines = (json.dumps({"text": part}) for part in text.split("\n\n"))
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    files = {"members": folder / "members.jsonl", "non_members": folder / "others.jsonl"}
    return files | {"target": TINY, "reference": OTHER, "limit": 30}, {"tokens": 40, "least_tokens": 16}


def sequence(folder: Path) -> tuple[Options, Options]:
    for side in ("known", "unseen"):
        texts = (folder / f"{side}.txt").read_text().split("\n\n")
        completions = {"reciting": texts, "other": texts[::-1]}
        records = [
            {"text": text, "completion": " ".join(completion.split()[5:]), "model": model}
            for model, written in completions.items()
            for text, completion in zip(texts, written, strict=True)
        ]
        (folder / f"{side}.jsonl").write_text("\n".join(map(json.dumps, records)))
    files = {"completions": folder / "known.jsonl", "control": folder / "unseen.jsonl"}
    return files, {"prompt_length": (5,)}


CASES: dict[str, Callable[[Path], tuple[Options, Options]]] = {
    case.__name__: case for case in (book, compare, entities, leakage, membership, sequence)
}
PARTS = {
    "book": {"heat-map", "windows", "text-1-model-2"},
    "compare": {"measures", "transitions"},
    "entities": {"methods", "prompts", "names", "importance-best-2", "attention-worst-1"},
    "leakage": {"leaked", "token-probability", "matches", "settings"},
    "membership": {"roc", "auc", "documents"},
    "sequence": {"rates", "passed", "thresholds_passed", "documents", "paragraphs"},
}
"""Some of the tables, charts and texts of each audit."""
WITHOUT_TEXT = ("membership",)
"""Audits whose findings quote no text."""


@dataclass(frozen=True)
class Audited:
    """A finished audit, its findings, and some words in a row of each text that it read."""

    run: InMemory
    models: tuple[str, ...]
    findings: Findings
    texts: frozenset[str]

    def killed(self, batches: int) -> InMemory:
        killed = InMemory(self.run.audit, self.run.inputs, self.run.models, batches=batches)
        with pytest.raises(Killed):
            killed.run()
        return killed


@pytest.fixture(scope="module", params=AUDITS)
def audited(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Audited:
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "known.txt").write_text(trained_text(8))
    (folder / "unseen.txt").write_text(unseen_text(8))
    entry, (subject, params) = AUDITS[request.param], CASES[request.param](folder)
    audit_type = entry.audit_type()
    reading = entry.subject_type().checked(**subject).read(audit_type.params_type().checked(**params), preparation())
    configs = target_configs(*(model.path for model in reading.models))
    run = InMemory(audit_type(reading.params), reading.inputs, configs).run()
    models = tuple(model.id for model in reading.models)
    words = [" ".join((folder / f"{name}.txt").read_text().split()).split() for name in ("known", "unseen")]
    texts = {" ".join(part[first : first + 5]) for part in words for first in range(len(part) - 4)}
    if request.param == "entities":
        texts = {*run.inputs.all, *run.inputs.prompts}
    return Audited(run, models, run.findings(*models), frozenset(texts))


def test_inputs_are_stored_and_read(audited: Audited, tmp_path: Path) -> None:
    inputs = audited.run.inputs
    inputs.write(tmp_path)
    again = type(inputs).read(tmp_path)
    for field in fields(inputs):
        assert plain(getattr(again, field.name)) == plain(getattr(inputs, field.name))
    assert plain(audited.run.audit.findings(again, audited.run.rows, audited.models)) == plain(audited.findings)


def test_a_killed_audit_shows_what_it_has_and_continues_to_the_same_findings(audited: Audited) -> None:
    whole, last = plain(audited.findings), len(audited.run._done) - 1
    for batches in sorted({1, last // 2, last}):
        killed = audited.killed(batches)
        partial = killed.findings(*audited.models)
        json.dumps([partial.as_json(), partial.as_sketch()], allow_nan=False)
        assert partial.conclusion is not None and plain(partial) != whole
        assert partial.figures.get("is_complete") is not True
        assert plain(killed.resumed().run().findings(*audited.models)) == whole


def test_findings_without_rows_conclude_nothing(audited: Audited) -> None:
    findings = InMemory(audited.run.audit, audited.run.inputs, audited.run.models).findings(*audited.models)
    assert findings.conclusion and findings.conclusion.answer == "Not known yet"
    assert not findings.charts and not findings.passages and not findings.texts
    assert not any(np.isfinite(row.estimate.value) and row.estimate.value for row in findings.measures)
    json.dumps([findings.as_json(), findings.as_sketch()], allow_nan=False)


def test_the_order_of_rows_does_not_matter(audited: Audited) -> None:
    assert plain(audited.run.findings_of_shuffled_rows(*audited.models)) == plain(audited.findings)


def test_every_value_is_of_a_declared_measure_and_model_and_valid_json(audited: Audited) -> None:
    findings, audit = audited.findings, audited.run.audit
    assert findings.measures and {row.measure for row in findings.measures} <= set(audit.measures)
    models = model_names(audited.models) or audited.run.inputs.models
    assert {row.model for row in findings.measures} - {""} <= set(models)
    keys = [(row.measure, row.model, row.side, row.case, row.at) for row in findings.measures]
    assert len(set(keys)) == len(keys)
    live = [row for part in audit.live for row in findings.measures.select(part)]
    assert live and all(np.isfinite(row.estimate.value) for row in live)
    assert findings.figures.get("is_complete") is not False
    assert findings.conclusion and findings.conclusion.question.endswith("?") and findings.conclusion.answer
    json.dumps([findings.as_json(), findings.as_sketch()], allow_nan=False)


def test_tables_and_charts_are_complete_and_have_names_of_their_own(audited: Audited) -> None:
    findings = audited.findings
    for parts in (findings.tables, findings.charts):
        names = [part.name for part in parts]
        assert names and len(set(names)) == len(names)
    named = {part.name for part in (*findings.tables, *findings.charts, *findings.texts)}
    assert named >= PARTS[audited.run.audit.name]
    for table in findings.tables:
        assert len(set(map(len, table.columns.values()))) == 1, table.name
        assert set(table.text_columns) <= table.columns.keys()
    for chart in findings.charts:
        match chart:
            case BarChart():
                assert chart.values.shape == (len(chart.groups), len(chart.labels)), chart.name
            case HeatMap():
                assert chart.values.shape == (len(chart.row_labels), len(chart.column_labels)), chart.name
                assert {len(row) for row in chart.words or ()} <= {len(chart.column_labels)}
            case LineChart():
                assert chart.series and all(len(line.x) == len(line.y) for line in chart.series), chart.name


def test_a_redacted_audit_quotes_no_text(audited: Audited, request: pytest.FixtureRequest) -> None:
    def quoted(part: Any) -> list[str]:
        shown = " ".join(json.dumps(plain(part), ensure_ascii=False, default=str).replace("\\n", " ").split())
        return [text for text in audited.texts if json.dumps(text, ensure_ascii=False)[1:-1] in shown]

    findings = audited.findings
    assert quoted(redact_findings(findings)) == []
    if audited.run.audit.name not in WITHOUT_TEXT:
        assert quoted(findings) and quoted_after_redaction(findings) == []
