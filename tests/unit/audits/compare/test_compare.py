import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from harness.audits.compare.audit import CompareAudit
from harness.audits.compare.inputs import (
    ComparedPairs,
    CompareParams,
    StoredTarget,
    common_sequences,
    read_copies,
    with_control,
)
from harness.audits.compare.results import (
    CHANGE,
    EXACT,
    GREEDY,
    LIKELIHOOD,
    MEMORIZATION,
    STRENGTH,
    exact_memorization,
    extraction_strength,
    is_predicted,
)
from harness.audits.leakage.inputs import PairSize, read_pairs
from harness.audits.leakage.pairs import Pairs
from harness.audits.models import Model
from harness.audits.sources import CorpusFiles
from harness.core.errors import HarnessError
from harness.core.findings import BarChart, HeatMap
from harness.core.policy import Policy
from harness.core.rounds import load_round
from harness.demo import CORPUS, ROUND_ARRAYS, SIZES
from harness.engine.loading import load_target
from tests.unit.audits.in_memory import InMemory, quoted_after_redaction, target_configs

DEMO, SMALL, TINY = (Model(size.name, size.weights) for size in SIZES)
COPIES = ROUND_ARRAYS / "repetitions.npy"


@pytest.fixture(scope="module")
def sequences() -> ComparedPairs:
    """40 sequences of the demo and 10 that serve as the control."""
    pairs = read_pairs(load_round("demo"), [DEMO], PairSize(), limit=40, seed=1)
    whole = read_pairs(load_round("demo"), [DEMO], PairSize(), limit=1000, seed=1)
    chosen = np.setdiff1d(whole.rows, pairs.rows)[:10]
    control = replace(whole, prefixes=whole.prefixes[chosen], suffixes=whole.suffixes[chosen], rows=chosen)
    return with_control(pairs, control, COPIES)


@pytest.fixture(scope="module")
def pairs(sequences: ComparedPairs) -> Pairs:
    return Pairs(**{field.name: getattr(sequences, field.name) for field in fields(Pairs)})


def context(sequences: ComparedPairs, *models: Model, batches: int | None = None) -> InMemory:
    folders = target_configs(*(model.path for model in models))
    return InMemory(CompareAudit(CompareParams()), sequences, folders, batches=batches)


@pytest.fixture(scope="module")
def compared(sequences: ComparedPairs) -> InMemory:
    return context(sequences, TINY, SMALL, DEMO).run()


def test_measures_follow_their_definitions():
    logprobs = np.array([[0, -np.inf, 0, 0], [0, 0, 0, 0], [0, 0, 0, -np.inf], [-np.inf] * 4])
    predicted = is_predicted(logprobs)
    assert exact_memorization(predicted).tolist() == [0.75, 1, 0.75, 0]
    assert extraction_strength(predicted).tolist() == [0.5, 1, 0, 0]


def test_the_measures_are_those_of_greedy_decoding(compared: InMemory, sequences: ComparedPairs):
    findings = compared.findings("tiny", "small", "demo")
    figures = findings.figures
    assert (figures["sequences"], figures["control_sequences"]) == (40, 10) and figures["is_complete"]
    mean = {measure: findings.measures.get(measure, model="demo", side="text").value for measure in MEMORIZATION}
    pairs = sequences
    target = load_target(DEMO.path, device="cpu", threads=1)
    samples = target.sample(pairs.prefixes[:40], Policy(top_k=1), trials=1)
    right = (samples.suffixes[np.argsort(samples.row)] == pairs.suffixes[:40]).all(axis=1)
    assert mean[GREEDY] == pytest.approx(right.mean())
    scores = target.score(pairs.prefixes[:40], pairs.suffixes[:40])
    predicted = scores.rank == 0
    assert mean[EXACT] == pytest.approx(predicted.mean())
    strength = [next((length for length in range(51) if row[length:].all()), 50) for row in predicted]
    assert mean[STRENGTH] == pytest.approx(1 - np.mean(strength) / 50)
    assert mean[LIKELIHOOD] == pytest.approx(scores.token_logprobs.mean(), abs=1e-5)


def test_larger_models_know_more_and_copies_matter(compared: InMemory):
    findings = compared.findings("tiny", "small", "demo")
    measured = findings.measures
    changes = measured.select(CHANGE, side="text", case="extraction strength")
    assert [row.model for row in changes] == ["small", "demo"]
    before, after = (measured.get(STRENGTH, model=name, side="text").value for name in ("tiny", "demo"))
    change = changes[-1].estimate
    assert change.low > 0 and after > before and change.value == pytest.approx(after - before)
    assert findings.conclusion.answer == "More" and "control" in findings.conclusion.evidence
    (copies,) = (table for table in findings.tables if table.name == "copies")
    of_demo = [place for place, name in enumerate(copies.columns["target"]) if name == "demo"]
    assert sum(copies.columns["sequences"][place] for place in of_demo) == 40
    strength = [copies.columns["extraction strength"][place] for place in of_demo]
    assert strength[-1] > strength[0]
    kinds = {chart.name: type(chart) for chart in findings.charts}
    assert kinds == {"measures": BarChart, "transitions": HeatMap}
    json.dumps([findings.figures, measured.as_json()], allow_nan=False)


def test_passages_show_what_both_targets_return(compared: InMemory):
    findings = compared.findings("tiny", "small", "demo")
    passage = findings.passages[0]
    assert [label for label, _ in passage.texts] == ["end of the prefix", "suffix", "tiny", "demo"]
    suffix, before, after = ("".join(part.text for part in parts) for _, parts in passage.texts[1:])
    assert before != suffix and len(after) > 20
    assert any(part.is_marked for part in passage.texts[2][1])
    assert quoted_after_redaction(findings) == []


def test_one_measured_target_is_no_comparison(sequences: ComparedPairs):
    killed = context(sequences, TINY, DEMO, batches=1).run_until_killed()
    findings = killed.findings("tiny", "demo")
    assert findings.conclusion.answer == "Not known yet" and not findings.measures.select(CHANGE)


def stored(pairs: Pairs, name: str, top_k: int = 10) -> StoredTarget:
    logprobs = -np.random.default_rng(len(name)).random((3, *pairs.suffixes.shape))
    logprobs[0] = 0
    return StoredTarget(name, logprobs, top_k)


def test_stored_audits_are_compared_without_their_models(pairs: Pairs):
    order = np.arange(40)[::-1][:30]
    reordered = replace(pairs, prefixes=pairs.prefixes[order], suffixes=pairs.suffixes[order])
    first, second = stored(pairs, "a"), stored(reordered, "bb")
    common = common_sequences([("r1", pairs, [first]), ("r2", reordered, [second])])
    assert len(common) == 30 and list(common.targets) == ["a", "bb"]
    suffixes, reordered_suffixes = pairs.suffixes.tolist(), reordered.suffixes.tolist()
    for place, suffix in enumerate(common.suffixes.tolist()):
        results = [logprobs[:, place] for logprobs in common.logprobs]
        assert np.array_equal(results[0], first.logprobs[:, suffixes.index(suffix)])
        assert np.array_equal(results[1], second.logprobs[:, reordered_suffixes.index(suffix)])
    findings = context(common).run().findings()
    assert findings.figures["is_complete"] and findings.figures["targets"] == ["a", "bb"]
    assert len(findings.measures.select(CHANGE, model="bb")) == len(MEMORIZATION)
    assert all(label in ("end of the prefix", "suffix") for passage in findings.passages for label, _ in passage.texts)


def test_audits_that_do_not_fit_are_refused(pairs: Pairs, tmp_path: Path):
    shifted = replace(pairs, suffixes=pairs.suffixes[:, ::-1])
    for second, top_k, words in (
        (replace(pairs, tokenizer="{}"), 10, r"not a tokenizer\.json: r2"),
        (replace(pairs, tokenizer=None), 10, "different tokenizers"),
        (shifted, 10, "no sequence in common"),
        (replace(pairs, suffixes=pairs.suffixes[:, 1:]), 10, r"50 \+ 50 tokens, and r2 of 50 \+ 49"),
        (pairs, 40, "different values of --top-k"),
    ):
        with pytest.raises(HarnessError, match=words):
            common_sequences([("r1", pairs, [stored(pairs, "a")]), ("r2", second, [stored(second, "b", top_k)])])
    with pytest.raises(HarnessError, match="the control's prefixes 49"):
        with_control(pairs, replace(pairs, prefixes=pairs.prefixes[:, 1:]))
    with pytest.raises(HarnessError, match=r"the control shares .* sequences with the compared pairs"):
        with_control(pairs, replace(pairs, prefixes=pairs.prefixes[3:4], suffixes=pairs.suffixes[3:4]))
    np.save(tmp_path / "few.npy", np.arange(3))
    np.save(tmp_path / "real.npy", np.zeros(100))
    np.save(tmp_path / "negative.npy", np.arange(-1, 49))
    of_source = replace(pairs, rows=np.arange(50), source_rows=50)
    for file, words in (
        ("few.npy", "has 3 numbers of copies, and there are 50 pairs"),
        ("real.npy", "expected one integer per pair"),
        ("negative.npy", "a number of copies is negative"),
    ):
        with pytest.raises(HarnessError, match=words):
            read_copies(tmp_path / file, of_source)


def test_two_precisions_of_a_target_keep_their_names(pairs: Pairs):
    common = common_sequences([(run, pairs, [stored(pairs, "same")]) for run in ("r1", "r2")])
    findings = context(common).run().findings()
    assert findings.figures["targets"] == ["same (r1)", "same (r2)"]
    assert [row.model for row in findings.measures.select(GREEDY, side="text")] == findings.figures["targets"]


def test_few_sequences_allow_no_conclusion(pairs: Pairs):
    few = replace(pairs, prefixes=pairs.prefixes[:1], suffixes=pairs.suffixes[:1])
    sequences_of_one = ComparedPairs(**vars(few), is_control=np.array([False]), copies=np.array([0]))
    findings = context(sequences_of_one, TINY, DEMO).run().findings("tiny", "demo")
    assert findings.conclusion.answer == "Too few sequences"
    assert {row.side for row in findings.measures.select(GREEDY)} == {"text", "copies: 0"}


def test_copies_of_text_pairs_follow_the_records(tmp_path: Path):
    file = tmp_path / "pairs.jsonl"
    text = " ".join(json.loads(CORPUS.read_bytes())[5].split())
    cut = text.index(" ", 100)
    records = [{"prefix": "short", "suffix": "x"}, {"prefix": text[:cut], "suffix": text[cut:]}]
    file.write_text("\n".join(json.dumps(record) for record in [*records, *records]))
    pairs = read_pairs(CorpusFiles(file), [DEMO], PairSize(20, 5), limit=10, seed=1)
    assert pairs.rows.tolist() == [1, 3] and pairs.source_rows == 4
    np.save(tmp_path / "copies.npy", np.array([1, 20, 3, 40]))
    assert with_control(pairs, None, tmp_path / "copies.npy").copies.tolist() == [20, 40]
