import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.audits.classifier import Entity, TokenClassifier
from harness.audits.compare.inputs import stored_targets
from harness.audits.exact import exact_logprobs
from harness.audits.leakage.audit import LeakageAudit
from harness.audits.leakage.inputs import PairSize, read_documents, read_pairs, stored_data_set
from harness.audits.leakage.measures import EASIER, MEAN_ESP, MEASURES, OVER, WRONG
from harness.audits.leakage.pairs import LeakageParams, Pairs, PairTexts
from harness.audits.leakage.rows import measured_pairs
from harness.audits.models import Model
from harness.audits.options import StoredAudit
from harness.audits.probabilities import RANDOM_SCHEMES, SCHEMES, Scheme
from harness.audits.sources import CorpusFiles
from harness.core.errors import HarnessError
from harness.core.findings import Findings, LineChart
from harness.core.rounds import load_round
from harness.core.text import format_percent
from harness.demo import SIZES
from harness.engine.loading import load_target
from harness.submit.finding_tables import redact_findings
from tests.demo_target.classifiers import Family, fine_tune, invented_names
from tests.demo_target.corpus import corpus
from tests.demo_target.names import NAME, demo_name_pairs
from tests.unit.audits.in_memory import InMemory, plain, target_configs
from tests.unit.engine.conftest import configurations, save_model
from tests.unit.engine.reference import exact_probabilities

DEMO, SMALL, TINY = (Model(size.name, size.weights) for size in SIZES)


def _context(params: LeakageParams, pairs: Pairs, *models: Model, batches: int | None = None) -> InMemory:
    folders = target_configs(*(model.path for model in models))
    return InMemory(LeakageAudit(params), pairs, folders, batches=batches)


def stored(context: InMemory, *models: str) -> StoredAudit:
    """Return the audit as one that was run before."""
    return StoredAudit(
        "other", "leakage", context.audit.params.model_dump(), models, Path(), context.inputs, context.rows
    )


@pytest.fixture(scope="module")
def swept() -> InMemory:
    """Names in the invented corpus under two sizes and three prefix lengths."""
    pairs = demo_name_pairs((TINY, DEMO), PairSize(), limit=70, seed=1)
    params = LeakageParams(prefix_lengths=(10, 30), schemes=SCHEMES, inexact=4, near=10)
    return _context(params, pairs, TINY, DEMO).run()


@pytest.fixture(scope="module")
def findings(swept: InMemory) -> Findings:
    return swept.findings("demo-tiny", "demo")


WHOLE, LOG_ESP = "prefixes of 50 tokens", "log ESP, top-k 10"


def rate_of(findings: Findings, case: str) -> float:
    """Return the extraction rate of the largest model with whole prefixes."""
    return findings.measures.get(MEAN_ESP, model="demo", side=WHOLE, case=case).value


def table(findings: Findings, name: str) -> dict[str, Sequence[Any]]:
    """Return the columns of a table."""
    (columns,) = [table.columns for table in findings.tables if table.name == name]
    return columns


def log_esps(findings: Findings) -> dict[tuple[str, int], dict[int, float]]:
    """Return the log ESP of each sequence under top-k, by model and prefix length, from the table of all sequences."""
    columns = [table(findings, "sequences")[name] for name in ("model", "prefix tokens", "sequence", LOG_ESP)]
    logs: dict[tuple[str, int], dict[int, float]] = {}
    for model, length, sequence, value in zip(*columns, strict=True):
        logs.setdefault((model, length), {})[sequence] = -np.inf if value == "-Infinity" else float(value)
    return logs


def test_a_sweep_reports_every_size_and_length(findings):
    figures = findings.figures
    assert figures["is_complete"] and figures["sequences"] == 70 and figures["model"] == "demo"
    assert [(one["model"], one["prefix_tokens"]) for one in figures["settings"]] == [
        (model, length) for model in ("demo-tiny", "demo") for length in (10, 30, 50)
    ]
    measured = findings.measures
    assert len({row.case for row in measured.select(MEAN_ESP)}) == len(SCHEMES)
    assert {row.measure for row in measured} == set(MEASURES)
    assert measured.get(OVER, case="top-k 10", at=1000).of == 70
    json.dumps([figures, measured.as_json()], allow_nan=False)


def test_the_conclusion_answers_how_likely_the_sequences_leak(findings):
    conclusion = findings.conclusion
    assert conclusion.question == "How likely is the model to leak these sequences?"
    assert conclusion.answer == f"{format_percent(rate_of(findings, 'top-k 10'))} in one query"
    assert "70 sequences" in conclusion.evidence and "so far" not in conclusion.evidence
    assert "do not tell the two apart" in conclusion.caveat


def test_every_term_in_a_title_is_defined(findings):
    said = " ".join([*findings.sentences, *(chart.title for chart in findings.charts)])
    assert {"ESP", "n-ISP"} <= set(re.findall(r"(?:n-)?I?E?SP\b", said)) <= set(findings.definitions)


def test_a_scheme_has_one_key_in_all_line_charts(findings):
    charts = {chart.name: chart for chart in findings.charts if isinstance(chart, LineChart)}
    leaked, positions = (
        [line.key or line.name for line in charts[name].series if not line.is_dashed and line.name != "greedy"]
        for name in ("leaked", "token-probability")
    )
    assert leaked == positions and len(leaked) == len(RANDOM_SCHEMES)


def test_figures_equal_the_targets_probabilities(swept, findings):
    pairs = swept.inputs
    target = load_target(DEMO.path, device="cpu", threads=1)
    policies = swept.audit.params.policies
    logprobs = exact_logprobs(target, pairs.prefixes, pairs.suffixes, list(policies.values()))
    for number, scheme in enumerate(policies):
        esp = np.exp(logprobs[number].sum(axis=1))
        label = swept.audit.params.label(scheme)
        assert rate_of(findings, label) == pytest.approx(esp.mean(), abs=1e-5)
        over = findings.measures.get(OVER, model="demo", side=WHOLE, case=label, at=100)
        assert over.value == pytest.approx((esp > 0.01).mean(), abs=0.02)
    drawn = target.sample(pairs.prefixes, policies[Scheme.GREEDY], length=4)
    is_right = (drawn.suffixes == pairs.suffixes[drawn.row]).all(axis=1)
    assert rate_of(findings, "greedy") == pytest.approx(is_right.mean())


def test_the_likeliest_sequences_are_listed_with_record_and_text(swept, findings):
    pairs, tables = swept.inputs, {table.name: table for table in findings.tables}
    shown, every = tables["likeliest"], tables["sequences"]
    assert not shown.is_detail and shown.title.startswith("Sequences, likeliest first, under top-k 10, demo")
    assert shown.title.endswith("(20 of 70)") and shown.text_columns == every.text_columns != ()
    likeliest = sorted(np.exp(list(log_esps(findings)["demo", 50].values())), reverse=True)
    assert shown.columns["ESP"] == pytest.approx(likeliest[:20])
    for columns in (shown.columns, every.columns):
        numbers = np.array(columns["sequence"]) - 1
        assert columns["record"] == [int(row) + 1 for row in pairs.rows[numbers]]
        assert columns["suffix"] == [PairTexts(pairs).suffix(number) for number in numbers]
    hidden = table(redact_findings(findings), "likeliest")
    assert not set(hidden["suffix"]) & set(shown.columns["suffix"])
    assert hidden["record"] == shown.columns["record"]


def test_charts_passages_and_tables_are_complete_and_name_their_text(swept, findings):
    names = {chart.name for chart in findings.charts}
    assert {"leaked", "token-probability", "inexact-over-exact"} <= names
    assert {"trends-over-model-sizes", "trends-over-prefix-lengths", "discoverable"} <= names
    settings = table(findings, "settings")
    assert len(set(zip(settings["model"], settings["side"], strict=True))) == 6
    (matches,) = [table for table in findings.tables if table.name == "matches"]
    assert matches.text_columns == ("suffix", "match") and len(matches.columns["match"]) > 50
    assert all(text not in " ".join(findings.sentences) for text in matches.columns["suffix"])
    numbers = np.array(matches.columns["sequence"]) - 1
    assert matches.columns["suffix"] == [PairTexts(swept.inputs).suffix(number) for number in numbers]
    passage = findings.passages[0]
    suffix, match = (dict(passage.texts)[label] for label in ("suffix", "match"))
    marked = [place for place, stretch in enumerate(match) if stretch.is_marked]
    assert marked and marked == [place for place, stretch in enumerate(suffix) if stretch.is_marked]
    assert all(suffix[place].text != match[place].text for place in marked)


def test_the_leak_charts_show_extraction_rates_too(findings):
    rates = {case: rate_of(findings, case) for case in ("greedy", "plain", "top-k 10")}
    for chart in findings.charts[:1]:
        assert isinstance(chart, LineChart) and chart.name.startswith("leaked")
        greedy, top_k = (series for series in chart.series if series.is_dashed)
        assert greedy.name == f"greedy, rate {format_percent(rates['greedy'])}" and set(greedy.y) == {rates["greedy"]}
        assert top_k.name == "extraction rate, top-k 10" and set(top_k.y) == {rates["top-k 10"]}
        assert f"plain, rate {format_percent(rates['plain'])}" in [series.name for series in chart.series]


@pytest.fixture(scope="module")
def short_suffixes() -> tuple[LeakageParams, Pairs, Findings]:
    """Suffixes of three tokens, and the findings about them."""
    pairs = read_pairs(load_round("demo"), [TINY], PairSize(suffix=3), limit=100, seed=3)
    params = LeakageParams(prefix_lengths=(20,), inexact=6, near=10)
    return params, pairs, _context(params, pairs, TINY).run().findings("demo-tiny")


def test_inexact_matches_of_long_suffixes_are_not_measured():
    pairs = read_pairs(load_round("demo"), [TINY], PairSize(suffix=9), limit=4, seed=3)
    findings = _context(LeakageParams(near=2), pairs, TINY).run().findings("demo-tiny")
    assert findings.figures["is_complete"] and not findings.passages
    assert not {"inexact", "matches"} & {table.name for table in findings.tables}
    assert "The n-ISP is measured for suffixes of at most 8 tokens only." in findings.sentences


def test_wrong_positions_are_counted_as_in_a_search_of_all_suffixes(tmp_path):
    folder = save_model(configurations(6, width=16, heads=2, window=4, spread=0.6)["neo"], tmp_path / "six", seed=11)
    rows = np.random.default_rng(2).integers(0, 6, (5, 11))
    pairs = Pairs(rows[:, :7], rows[:, 7:], None)
    params = LeakageParams(top_k=4, schemes=("top_k",), near=0, branches=10_000, least=0)
    measured = _context(params, pairs, Model("six", folder)).run().findings("six").measures
    target = load_target(folder, device="cpu", threads=1)
    for scheme in (Scheme.PLAIN, Scheme.TOP_K):
        by_errors: dict[int, list[tuple[float, str]]] = {1: [], 2: []}
        for prefix, suffix in zip(pairs.prefixes, pairs.suffixes, strict=True):
            probabilities = exact_probabilities(target, prefix, params.policies[scheme], 4)
            for tokens, probability in np.ndenumerate(probabilities):
                places = [str(place + 1) for place in range(4) if tokens[place] != suffix[place]]
                if len(places) in by_errors and probability > 0:
                    by_errors[len(places)].append((-probability, f"({', '.join(places)})"))
        for errors, matches in by_errors.items():
            assert len(matches) > (10 if scheme is Scheme.TOP_K else 99)
            counts = Counter(places for _, places in sorted(matches)[:100])
            found = [row for row in measured.select((WRONG, errors), case=params.label(scheme)) if row.estimate.value]
            assert {row.side: row.estimate.value for row in found} == counts
            assert {row.estimate.of for row in found} == {counts.total()}


def test_the_share_of_easier_sequences_equals_a_count_by_hand(swept, findings):
    logs = log_esps(findings)
    reference = logs["demo", 50]
    for measure, others in zip(EASIER.values(), ([("demo-tiny", 50)], [("demo", 10), ("demo", 30)]), strict=True):
        best = {sequence: max(logs[other][sequence] for other in others) for sequence in reference}
        easier = {sequence for sequence, value in reference.items() if best[sequence] > value}
        found = findings.measures.get(measure, case="top-k 10")
        assert found.value == pytest.approx(len(easier) / 70) and found.low < found.value < found.high
        assert found.of == 70 and 0 < len(easier) < 70
        examples = table(findings, measure.name.replace("_", "-"))
        assert set(examples["sequence"]) <= easier and len(examples["ESP"]) == min(10, len(easier))
        for row, sequence in enumerate(examples["sequence"]):
            assert logs[examples["model"][row], examples["prefix tokens"][row]][sequence] == best[sequence]
            assert examples["ESP"][row] == pytest.approx(np.exp(best[sequence]))
            assert examples["ESP of the reference"][row] == pytest.approx(np.exp(reference[sequence]))
    assert {row.name for row in findings.conclusion.key_figures} >= {measure.title for measure in EASIER.values()}


def test_curves_of_another_data_set_come_from_its_audit(short_suffixes, swept, findings):
    params, pairs, _ = short_suffixes

    data_set = stored_data_set(stored(swept, "demo-tiny", "demo"))
    pairs = replace(pairs, data_sets=[data_set])
    context = _context(LeakageParams(inexact=0, near=0), pairs, TINY).run()
    (drawn,) = [chart for chart in context.findings("demo-tiny").charts if chart.name == "leaked-2"]
    (wanted,) = [chart for chart in findings.charts if chart.name == "leaked"]
    assert drawn.title == f"{wanted.title}, other" and len(drawn.series) == len(wanted.series) == 8
    for one, other in zip(drawn.series, wanted.series, strict=True):
        assert (one.name, one.key) == (other.name, other.key) and np.array_equal(one.y, other.y)
    killed = _context(params, pairs, TINY, batches=1).run_until_killed()
    with pytest.raises(
        HarnessError, match=r"other has not measured all its sequences\. Continue it with harness resume\."
    ):
        stored_data_set(stored(killed, "demo-tiny"))


@pytest.fixture
def tagger(tmp_path, monkeypatch) -> Model:
    """A barely trained token classifier that returns the invented names, as a trained one would."""
    fine_tune(Family.BERT, invented_names(4), tmp_path / "tagger", steps=2)

    def find_names(self, texts):
        return [[Entity(*match.span(), "PER") for match in NAME.finditer(text)] for text in texts]

    monkeypatch.setattr(TokenClassifier, "find_entities", find_names)
    return Model("tagger", tmp_path / "tagger")


def _corpus_of(path: Path, documents: int) -> CorpusFiles:
    path.write_text("".join(json.dumps({"text": one.text}) + "\n" for one in corpus(2023, documents)))
    return CorpusFiles(path)


def test_a_corpus_is_cut_at_tagged_entities_and_resumes_to_the_same_pairs(tmp_path, tagger):
    pairs = read_documents(_corpus_of(tmp_path / "corpus.jsonl", 50), [TINY], PairSize(), limit=10_000)
    params = LeakageParams(inexact=4, near=10, entity_kinds=("PER",))
    whole = _context(params, pairs, TINY, tagger).run()
    findings = whole.findings("demo-tiny", "tagger")
    killed = _context(params, pairs, TINY, tagger, batches=2).run_until_killed()
    assert plain(killed.resumed().run().findings("demo-tiny", "tagger")) == plain(findings)
    cut = whole.rows("pair")
    assert len(cut["start"]) > 20 and cut["tokens"].shape[1] == 54
    assert findings.figures["sequences"] == len(cut["start"])


def test_pairs_of_a_corpus_are_a_sample_by_seed_that_other_audits_read(tmp_path, tagger):
    corpus_files, params = _corpus_of(tmp_path / "corpus.jsonl", 40), LeakageParams(inexact=0, near=0)
    contexts = [
        _context(params, read_documents(corpus_files, [TINY], PairSize(), limit=limit), TINY, tagger)
        for limit in (10_000, 7)
    ]
    every, sample = (measured_pairs(one.run().inputs, one.rows) for one in contexts)
    rows = {row.tobytes(): number for number, row in enumerate(np.hstack([every.prefixes, every.suffixes]))}
    places = [rows[row.tobytes()] for row in np.hstack([sample.prefixes, sample.suffixes])]
    assert len(every) > 20 and len(places) == 7 and places == sorted(set(places)) and places != list(range(7))
    findings = contexts[1].findings("demo-tiny", "tagger")
    assert findings.figures["sequences"] == 7 and findings.figures["is_complete"]
    _, pairs, targets = stored_targets(stored(contexts[1], "demo-tiny", "tagger"))
    assert [target.name for target in targets] == ["demo-tiny"] and len(pairs) == 7


def test_a_corpus_without_entities_is_refused(tmp_path, tagger):
    pairs = read_documents(_corpus_of(tmp_path / "corpus.jsonl", 5), [TINY], PairSize(), limit=10_000)
    with pytest.raises(HarnessError, match=r"no tagged entity of 4 tokens"):
        _context(LeakageParams(entity_kinds=("ORG",)), pairs, TINY, tagger).run()
