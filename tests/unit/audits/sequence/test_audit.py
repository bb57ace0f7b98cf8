"""The audit on the demo target: what it finds, resumed and whole, complete and so far."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.audits.sequence.audit import SequenceAudit
from harness.audits.sequence.inputs import sequence_inputs
from harness.audits.sequence.local import LocalCompleter
from harness.audits.sequence.material import Material
from harness.audits.sequence.params import SequenceParams
from harness.audits.sequence.sources import CorpusFiles
from harness.core.audit import AuditInputs
from harness.core.findings import Findings
from harness.core.rounds import load_round
from harness.core.spec import TargetConfig
from harness.engine.demo import SEED, WEIGHTS
from harness.engine.demo.corpus import corpus
from harness.engine.loading import load_target
from tests.unit.audits.in_memory import Cut, InMemory

DEMO = (TargetConfig(path=WEIGHTS, device="cpu", dtype="float32", threads=1),)
PARAMS = SequenceParams(limit=80)


@pytest.fixture(scope="module")
def inputs() -> AuditInputs:
    return sequence_inputs(load_round("demo"), None, PARAMS, seed=0, tokenizer_file=WEIGHTS / "tokenizer.json")


@pytest.fixture(scope="module")
def whole(inputs: AuditInputs) -> InMemory:
    run = InMemory(SequenceAudit(PARAMS), inputs, DEMO)
    run.audit.run(run)
    return run


def found(run: InMemory) -> Findings:
    return run.audit.findings(run.inputs, run.rows, ("demo",))


def assert_same(one: Findings, other: Findings) -> None:
    assert one.figures == other.figures
    assert one.sentences == other.sentences
    assert one.tables == other.tables
    assert one.passages == other.passages
    for chart, again in zip(one.charts, other.charts, strict=True):
        np.testing.assert_equal(vars(chart), vars(again))


def test_the_demo_target_completes_what_it_was_trained_on_and_not_what_it_never_saw(whole: InMemory) -> None:
    figures = found(whole).figures
    for rates in figures["rates"].values():
        assert rates["corpus"]["low"] > 0.2
        assert rates["control"]["high"] < 0.15
        assert rates["p_value"] < 1e-4
    assert figures["control"] == "corpus"
    assert figures["paragraphs"] == {"completed": 160, "unanswered": 0, "no_room": 0, "pending": 0}
    assert figures["is_complete"]


def test_live_figures_are_those_of_the_findings(whole: InMemory) -> None:
    rates = found(whole).figures["rates"]
    assert whole.figures["trigram"] == rates["trigram"]["corpus"]["value"]
    assert whole.figures["control_overlap"] == rates["overlap"]["control"]["value"]


@pytest.mark.parametrize("batches", [0, 1, 2])
def test_an_audit_that_is_cut_and_resumed_finds_the_same(inputs: AuditInputs, whole: InMemory, batches: int) -> None:
    cut = InMemory(SequenceAudit(PARAMS), inputs, DEMO, cut_after=batches)
    with pytest.raises(Cut):
        cut.audit.run(cut)
    so_far = found(cut)
    assert not so_far.figures["is_complete"]
    assert so_far.figures["paragraphs"]["pending"] > 0
    resumed = cut.again()
    resumed.audit.run(resumed)
    assert_same(found(resumed), found(whole))
    assert resumed.figures == whole.figures


def test_findings_without_a_row_say_that_nothing_was_asked(inputs: AuditInputs) -> None:
    findings = found(InMemory(SequenceAudit(PARAMS), inputs, DEMO))
    assert findings.figures["rates"]["trigram"]["corpus"]["value"] is None
    assert findings.charts == []
    assert "160 paragraphs were not asked for: the figures are of those that were." in findings.sentences


def test_the_order_of_rows_does_not_matter(whole: InMemory) -> None:
    def backwards(table: str) -> dict[str, Any]:
        return {name: column[::-1] for name, column in whole.rows(table).items()}

    assert_same(whole.audit.findings(whole.inputs, backwards, ("demo",)), found(whole))


def test_passages_mark_what_is_the_same_and_tables_name_their_text(whole: InMemory) -> None:
    findings = found(whole)
    assert 0 < len(findings.passages) <= 10
    followed, written = dict(findings.passages[0].texts)["what followed"], dict(findings.passages[0].texts)
    assert any(stretch.is_marked for stretch in followed)
    assert any(stretch.is_marked for stretch in written["what the model wrote"])
    details = next(table for table in findings.tables if table.name == "paragraphs")
    assert details.is_detail
    assert set(details.text_columns) == {"prompt", "suffix", "completion"}
    assert {len(column) for column in details.columns.values()} == {160}


def test_sentences_and_figures_quote_no_text(whole: InMemory) -> None:
    findings = found(whole)
    said = " ".join(findings.sentences) + str(findings.figures)
    material = Material.of(whole.inputs)
    texts = [*material.prompts, *material.suffixes, *whole.rows("completion")["text"]]
    assert not any(text in said for text in texts if len(text.split()) > 2)


def test_a_completion_does_not_depend_on_what_goes_with_it(inputs: AuditInputs) -> None:
    material = Material.of(inputs)
    for params in (PARAMS, SequenceParams(temperature=1.0, top_k=10)):
        completer = LocalCompleter(load_target(WEIGHTS, threads=1), material, params, seed=0)
        some = np.arange(12)
        _, together = completer.complete(some, 7)
        assert together == [completer.complete(some[place : place + 1], 7)[1][0] for place in some]


def test_every_paragraph_is_asked_once(inputs: AuditInputs) -> None:
    completer = LocalCompleter(load_target(WEIGHTS, threads=1), Material.of(inputs), PARAMS, seed=3)
    assert sorted(completer.order.tolist()) == list(range(160))


def test_a_corpus_of_files_is_held_against_permuted_suffixes_and_says_so(tmp_path: Path) -> None:
    often = sorted(corpus(SEED), key=lambda document: -document.repetitions)[:40]
    for number, document in enumerate(often):
        (tmp_path / f"{number:02}.txt").write_text(document.text)
    params = SequenceParams(prompt_length=10)
    run = InMemory(SequenceAudit(params), sequence_inputs(CorpusFiles(tmp_path), None, params, seed=0), DEMO)
    run.audit.run(run)
    findings = found(run)
    rates = findings.figures["rates"]["trigram"]
    assert findings.figures["control"] == "permuted_suffixes"
    assert rates["corpus"]["value"] > 0.5
    assert rates["control"]["value"] < 0.1
    assert rates["p_value"] < 1e-4
    assert findings.figures["longest_run_words"]["p_value"] < 1e-4
    assert any("chance overlap only" in sentence for sentence in findings.sentences)
    assert [table.name for table in findings.tables] == ["rates", "documents", "all_documents", "paragraphs"]


def test_a_paragraph_that_does_not_fit_the_context_is_left_out_and_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"{'word ' * 20}\n\n{'lantern harbour ' * 200}\n")
    params = SequenceParams(prompt_length=5)
    run = InMemory(SequenceAudit(params), sequence_inputs(CorpusFiles(tmp_path), None, params, seed=0), DEMO)
    run.audit.run(run)
    findings = found(run)
    assert findings.figures["paragraphs"]["no_room"] == 1
    assert findings.figures["paragraphs"]["completed"] == 1
    assert any(sentence.startswith("1 paragraph left out: prompt and suffix") for sentence in findings.sentences)
