"""Completions that were made elsewhere: the worked example, several models, and files that are refused."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.audits.sequence.audit import SequenceAudit
from harness.audits.sequence.dataset import SequenceParams
from harness.audits.sequence.inputs import SequenceSubject, read_inputs
from harness.audits.sequence.results import THRESHOLDS_PASSED
from harness.audits.sequence.thresholds import TITLES, Threshold
from harness.audits.sources import CorpusFiles
from harness.core.errors import HarnessError
from harness.core.findings import Findings
from harness.core.measures import MeasureRow
from tests.unit.audits.in_memory import InMemory, Killed
from tests.unit.audits.sequence.worked_example import PREFIX, S1, S2, SUFFIX

Record = dict[str, Any]


def write_records(path: Path, records: Sequence[Record]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def audit_of(path: Path, control: Path | None = None, **fields: Any) -> InMemory:
    params = SequenceParams.checked(**fields)
    inputs = read_inputs(CorpusFiles(path), control and CorpusFiles(control), params, seed=0, has_completions=True)
    return InMemory(SequenceAudit(params), inputs)


def verdicts(findings: Findings) -> dict[str, list[bool | None]]:
    """Return the verdicts on the first paragraph by model."""
    columns = next(table for table in findings.tables if table.name == "paragraphs").columns
    return {model: [columns[name][row] for name in Threshold] for row, model in enumerate(columns["model"])}


EXAMPLE = [
    {"model": name, "prefix": PREFIX, "suffix": SUFFIX, "completion": text} for name, text in [("S1", S1), ("S2", S2)]
]
AFTER_35 = [
    record | {"prefix": f"{PREFIX} I", "suffix": SUFFIX[2:], "completion": record["completion"].removeprefix("I ")}
    for record in EXAMPLE
]
AS_TEXT = [
    {"model": record["model"], "text": f"{PREFIX}\n{SUFFIX}", "completion": record["completion"]} for record in AFTER_35
]


@pytest.mark.parametrize(
    ("records", "of_s2"),
    [(EXAMPLE, [True] * 4), (AFTER_35, [True, True, False, True]), (AS_TEXT, [True, True, False, True])],
    ids=["as printed", "after 35 words", "text"],
)
def test_the_worked_example(tmp_path: Path, records: list[Record], of_s2: list[bool]) -> None:
    run = audit_of(write_records(tmp_path / "a.jsonl", records)).run()
    findings = run.findings()
    assert verdicts(findings) == {"S1": [False] * 4, "S2": of_s2}
    distribution = {
        model: [findings.measures.get(THRESHOLDS_PASSED, model=model, side="corpus", at=at).value for at in range(5)]
        for model in ("S1", "S2")
    }
    assert distribution == {
        "S1": [1, 0, 0, 0, 0],
        "S2": [float(number == sum(of_s2)) for number in range(5)],
    }
    assert findings.figures["prompt_length"] == (35 if "text" in records[0] else None)
    assert findings.conclusion is not None and findings.conclusion.answer == "Cannot be concluded"
    assert [chart.name for chart in findings.charts] == ["rates", "thresholds_passed"]


def test_a_csv_file_of_one_model(tmp_path: Path) -> None:
    with (tmp_path / "a.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([("completion", "suffix", "prefix"), (S2, SUFFIX, PREFIX), ("", "one two three", PREFIX)])
    findings = audit_of(tmp_path / "a.csv").run().findings()
    assert list(verdicts(findings)) == ["the model"]
    columns = next(table for table in findings.tables if table.name == "paragraphs").columns
    assert columns["trigram"] == [True, False] and columns["completion"][1] == ""


PARAGRAPHS = 30


def records_of(models: dict[str, int], name: str, **kept: Any) -> list[Record]:
    """Return records of 30 paragraphs, of which each model recites so many."""
    return [
        {
            "model": model,
            "prefix": f"{name}{number} begins",
            "suffix": " ".join(f"{name}{number}word{place}" for place in range(12)),
            "completion": " ".join(f"{name if number < recited else 'x'}{number}word{place}" for place in range(12)),
        }
        for number in range(PARAGRAPHS)
        for model, recited in models.items()
    ]


def rows_of(findings: Findings, model: str) -> list[MeasureRow]:
    return [row for row in findings.measures if row.model == model]


def test_each_of_several_models_has_the_statistics_that_it_has_alone(tmp_path: Path) -> None:
    models = {"trained": (20, 1), "other": (2, 2)}
    files = [
        write_records(
            tmp_path / f"{side}.jsonl", records_of({name: recited[place] for name, recited in models.items()}, side)
        )
        for place, side in enumerate(("corpus", "control"))
    ]
    both = audit_of(*files).run().findings()
    assert both.conclusion is not None
    assert both.conclusion.answer == "Probably (trained), No evidence for the corpus as a whole (other)"
    for model, answer in (("trained", "Probably"), ("other", "No evidence for the corpus as a whole")):
        own = [
            write_records(
                tmp_path / f"own-{file.name}",
                [record for line in file.read_text().splitlines() if (record := json.loads(line))["model"] == model],
            )
            for file in files
        ]
        alone = audit_of(*own).run().findings()
        assert str(rows_of(both, model)) == str(rows_of(alone, model)) and rows_of(alone, model)
        assert alone.conclusion is not None and alone.conclusion.answer == answer
    passed = next(table for table in both.tables if table.name == "passed").columns
    assert passed["trigrams"] == pytest.approx([20 / 30, 1 / 30, 2 / 30, 2 / 30])
    assert (passed["model"], passed["of"]) == (["trained"] * 2 + ["other"] * 2, ["corpus", "control"] * 2)


@pytest.mark.parametrize(("models", "left"), [(("a",), "30 paragraphs"), (("a", "b"), "30 completions")])
def test_paragraphs_that_were_not_requested_are_counted(tmp_path: Path, models: tuple[str, ...], left: str) -> None:
    path = write_records(tmp_path / "a.jsonl", records_of(dict.fromkeys(models, 20), "a"))
    killed = audit_of(path)
    killed._batches = len(models) - 1
    with pytest.raises(Killed):
        killed.run()
    findings = killed.findings()
    assert f"Not measured yet: {left}." in findings.sentences
    assert findings.figures["paragraphs"]["pending"] == 30 and not findings.figures["is_complete"]


@pytest.mark.parametrize(
    ("records", "fields", "fault"),
    [
        ([{"prefix": "a", "suffix": "b"}], {}, "no record has the fields prefix, suffix and completion"),
        ([], {}, "no record has the fields"),
        ([*EXAMPLE, EXAMPLE[0] | {"completion": "x"}], {}, r"a\.jsonl, line 3: a second completion"),
        ([*EXAMPLE, EXAMPLE[0] | {"suffix": "x"}], {}, r"S2 has no completion of the paragraph in a\.jsonl:3"),
        (EXAMPLE, {"prompt_length": (34,)}, "has completions of one prompt each"),
        (AS_TEXT, {"prompt_length": (10, 20)}, "Give one length for text only"),
        ([EXAMPLE[0] | {"prefix": " "}], {}, "none of which has words"),
        ([EXAMPLE[0] | {"prefix": "字" * 30, "suffix": "字" * 30}], {}, "without spaces between words"),
    ],
)
def test_a_file_that_cannot_be_judged_is_refused(
    tmp_path: Path, records: list[Record], fields: Record, fault: str
) -> None:
    path = write_records(tmp_path / "a.jsonl", records)
    with pytest.raises(HarnessError, match=fault):
        audit_of(path, **fields)


def test_a_control_needs_the_same_models(tmp_path: Path) -> None:
    path, control = write_records(tmp_path / "a.jsonl", EXAMPLE), write_records(tmp_path / "b.jsonl", EXAMPLE[:1])
    with pytest.raises(HarnessError, match="other models or fields"):
        audit_of(path, control)
    with pytest.raises(HarnessError, match="not a regular file"):
        audit_of(tmp_path)


@pytest.mark.parametrize(
    "fields", [{"corpus": "x"}, {"target": ("demo",)}, {"split": "train"}, {"control_round": "demo"}]
)
def test_completions_need_neither_a_corpus_nor_a_model(tmp_path: Path, fields: Record) -> None:
    path = write_records(tmp_path / "a.jsonl", EXAMPLE)
    subject = SequenceSubject.checked(completions=path, **fields)
    with pytest.raises(HarnessError, match="--completions names text and completions"):
        subject.read(SequenceParams(), None)  # type: ignore[arg-type]


def test_damaged_records_are_noted_and_unquoted(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a.jsonl", EXAMPLE)
    path.write_text(path.read_text() + "{broken\n" + json.dumps({"prefix": "a", "suffix": "b", "model": "S1"}) + "\n")
    run = audit_of(path)
    notes = run.inputs.notes
    assert [note.split(":")[0] for note in notes] == ["Skipped a.jsonl, line 3", "Skipped a.jsonl, line 4"]


def test_thresholds_are_judged_after_the_cut_to_the_suffix(tmp_path: Path) -> None:
    record = EXAMPLE[1] | {"suffix": "I recall the jitters that", "completion": S2}
    findings = audit_of(write_records(tmp_path / "a.jsonl", [record])).run().findings()
    assert verdicts(findings) == {"S2": [True, True, None, True]}
    assert findings.measures.get(THRESHOLDS_PASSED, side="corpus").of == 0
    tables = {table.name: table.columns for table in findings.tables}
    assert tables["paragraphs"]["completion"] == [record["suffix"]]
    assert tables["rates"]["threshold"] == list(TITLES.values()) and tables["rates"]["judged"] == [1, 1, 0, 1]
