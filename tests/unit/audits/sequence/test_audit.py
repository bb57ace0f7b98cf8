"""The sequence audit of the demo target: findings, completions, and texts that are left out."""

from pathlib import Path

import numpy as np
import pytest

from harness.audits.sequence.audit import SequenceAudit
from harness.audits.sequence.completion import LocalCompleter
from harness.audits.sequence.dataset import Dataset, SequenceParams
from harness.audits.sequence.inputs import read_inputs
from harness.audits.sequence.results import P_VALUE, PASSED, PASSED_BY_LENGTH, RUN_P
from harness.audits.sequence.thresholds import TITLES
from harness.audits.sources import CorpusFiles
from harness.core.findings import Findings
from harness.core.rounds import load_round
from harness.demo import REFERENCE, SEED, SIZES, WEIGHTS
from harness.engine.loading import load_target
from tests.demo_target.corpus import corpus
from tests.unit.audits.in_memory import InMemory, target_configs

pytestmark = pytest.mark.slow

DEMO = target_configs(WEIGHTS)
PARAMS = SequenceParams(limit=40)


@pytest.fixture(scope="module")
def inputs() -> Dataset:
    return read_inputs(load_round("demo"), None, PARAMS, seed=0, tokenizer_file=WEIGHTS / "tokenizer.json")


@pytest.fixture(scope="module")
def whole(inputs: Dataset) -> InMemory:
    return InMemory(SequenceAudit(PARAMS), inputs, DEMO).run()


def test_the_demo_target_completes_its_training_text_only(whole: InMemory) -> None:
    findings = whole.findings("demo")
    figures, measured = findings.figures, findings.measures
    for title in TITLES.values():
        assert measured.get(PASSED, side="corpus", case=title).low > 0.2
        assert measured.get(PASSED, side="control", case=title).high < 0.15
        assert measured.get(P_VALUE, case=title).value < 1e-4
    assert figures["control"] == "another_text"
    assert figures["paragraphs"].pop("completed") == 80 and not any(figures["paragraphs"].values())
    assert figures["is_complete"]


def test_passages_mark_common_runs(whole: InMemory) -> None:
    findings = whole.findings("demo")
    assert 0 < len(findings.passages) <= 10
    texts = dict(findings.passages[0].texts)
    assert all(any(stretch.is_marked for stretch in texts[name]) for name in ("suffix", "completion"))
    details = next(table for table in findings.tables if table.name == "paragraphs")
    assert details.is_detail and len(details.columns["document"]) == 80


def test_a_completion_does_not_depend_on_its_batch(inputs: Dataset) -> None:
    material = inputs
    target = load_target(WEIGHTS, threads=1)
    for params in (PARAMS, SequenceParams(temperature=1.0, top_k=10)):
        completer = LocalCompleter(target, material, params, seed=0)
        batch = np.arange(0, 80, 20)
        _, together = completer.complete(batch, 7)
        assert together == [completer.complete(np.array([item]), 7)[1][0] for item in batch]


def test_every_paragraph_is_completed_once_in_few_batches(inputs: Dataset) -> None:
    completer = LocalCompleter(load_target(WEIGHTS, threads=1), inputs, PARAMS, seed=3)
    assert sorted(completer.order.tolist()) == list(range(80))
    assert len({len(prompt) for prompt in completer._prompts}) > 4 >= len(completer.ends)
    assert max(np.diff([0, *completer.ends])) <= completer.batch_size


def test_targets_and_prompt_lengths_have_the_rates_that_they_have_alone(tmp_path: Path) -> None:
    often = sorted(corpus(SEED), key=lambda document: -document.repetitions)[:6]
    for number, document in enumerate(often):
        (tmp_path / f"{number:02}.txt").write_text(" ".join(document.text.split()[:14]))
    folders = {"tiny": SIZES[-1].weights, "reference": REFERENCE.weights}

    def findings(lengths: tuple[int, ...], *names: str) -> Findings:
        params = SequenceParams(prompt_length=lengths)
        inputs = read_inputs(CorpusFiles(tmp_path), None, params, seed=0)
        run = InMemory(SequenceAudit(params), inputs, target_configs(*(folders[name] for name in names))).run()
        return run.findings(*names)

    both = findings((4, 8), *folders)
    longest = findings((8,), "reference").measures
    assert {row.side for row in longest} > {"corpus", "permuted suffixes"}
    for row in longest:
        of_both = both.measures.get(row.measure, model=row.model, side=row.side, case=row.case or None, at=row.at)
        assert str(of_both) == str(row.estimate), row.name
    shorter = findings((4,), "tiny").measures
    for side in ("corpus", "permuted suffixes"):
        rates = [str(row.estimate) for row in shorter.select(PASSED, side=side)]
        of_both = both.measures.select((PASSED_BY_LENGTH, 4), model="tiny", side=side)
        assert [str(row.estimate) for row in of_both] == rates and len(rates) == 4
    assert {chart.name for chart in both.charts} == {"rates", "prompt_lengths"}


def findings_of_files(folder: Path, prompt_length: int) -> Findings:
    params = SequenceParams(prompt_length=(prompt_length,))
    inputs = read_inputs(CorpusFiles(folder), None, params, seed=0)
    return InMemory(SequenceAudit(params), inputs, DEMO).run().findings("demo")


def test_a_corpus_of_files_is_compared_with_permuted_suffixes(tmp_path: Path) -> None:
    often = sorted(corpus(SEED), key=lambda document: -document.repetitions)[:21]
    for number, document in enumerate(often):
        (tmp_path / f"{number:02}.txt").write_text(document.text[:160])
    findings = findings_of_files(tmp_path, prompt_length=10)
    measured = findings.measures
    assert findings.figures["control"] == "permuted_suffixes"
    assert measured.get(PASSED, side="corpus").value > 0.5
    assert measured.get(PASSED, side="permuted suffixes").value < 0.1
    assert measured.get(P_VALUE, case="trigrams").value < 1e-4
    assert measured.get(RUN_P).value < 1e-4
    assert findings.conclusion and "The control is chance only" in findings.conclusion.caveat
    assert [table.name for table in findings.tables] == [
        "rates",
        "thresholds_passed",
        "documents",
        "all_documents",
        "measures",
        "paragraphs",
    ]


def test_a_paragraph_beyond_the_context_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"{'word ' * 20}\n\n{'lantern harbour ' * 200}\n")
    findings = findings_of_files(tmp_path, prompt_length=5)
    assert findings.figures["paragraphs"]["no_room"] == 1
    assert findings.figures["paragraphs"]["completed"] == 1
    assert any(sentence.startswith("Left out: 1 paragraph whose prompt and suffix") for sentence in findings.sentences)
