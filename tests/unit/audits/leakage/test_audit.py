import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from harness.audits.classifier import Entity, TokenClassifier
from harness.audits.compare.inputs import stored_targets
from harness.audits.exact import exact_logprobs
from harness.audits.leakage.audit import LeakageAudit
from harness.audits.leakage.inexact import inexact_probabilities
from harness.audits.leakage.inputs import PairSize, read_documents, read_pairs, stored_data_set
from harness.audits.leakage.pairs import LeakageParams, Pairs, TokenDecoder
from harness.audits.leakage.results import EASIER, EXCEED, EXPECTED_EXCEED, MEAN_ESP, MEASURES, OVER, WRONG
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
from tests.demo_target.classifiers import FRAMES, Family, fine_tune, invented_names
from tests.demo_target.corpus import corpus
from tests.demo_target.names import NAME, demo_name_pairs
from tests.unit.audits.in_memory import InMemory, Killed, plain, target_configs
from tests.unit.engine.conftest import configurations, save_model
from tests.unit.engine.reference import exact_probabilities

DEMO, SMALL, TINY = (Model(size.name, size.weights) for size in SIZES)


def _context(params: LeakageParams, pairs: Pairs, *models: Model, batches: int | None = None) -> InMemory:
    folders = target_configs(*(model.path for model in models))
    return InMemory(LeakageAudit(params), pairs, folders, batches=batches)


@pytest.fixture(scope="module")
def swept() -> InMemory:
    """Names in the invented corpus under two sizes and three prefix lengths."""
    pairs = demo_name_pairs((TINY, DEMO), PairSize(), limit=70, seed=1)
    params = LeakageParams(prefix_lengths=(10, 30), schemes=SCHEMES, inexact=4, near=10)
    return _context(params, pairs, TINY, DEMO).run()


@pytest.fixture(scope="module")
def findings(swept: InMemory) -> Findings:
    return swept.findings("demo-tiny", "demo")


WHOLE = "prefixes of 50 tokens"


def rate_of(findings: Findings, case: str) -> float:
    """Return the extraction rate of the largest model with whole prefixes."""
    return findings.measures.get(MEAN_ESP, model="demo", side=WHOLE, case=case).value


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


def test_larger_models_and_longer_prefixes_leak_more(findings):
    means = [row.estimate.value for row in findings.measures.select(MEAN_ESP, case="plain")]
    assert means[0] < means[1] < means[2] < means[5]


def test_the_likeliest_sequences_are_listed_with_record_and_text(swept, findings):
    (shown,) = [table for table in findings.tables if table.name == "likeliest"]
    (every,) = [table for table in findings.tables if table.name == "sequences"]
    pairs = swept.inputs
    assert not shown.is_detail and shown.title.startswith("Sequences, likeliest first, under top-k 10, demo")
    assert shown.title.endswith("(20 of 70)") and shown.text_columns == every.text_columns != ()
    logs = {
        sequence: -np.inf if value == "-Infinity" else float(value)
        for model, length, sequence, value in zip(
            *(every.columns[name] for name in ("model", "prefix tokens", "sequence", "log ESP, top-k 10")), strict=True
        )
        if (model, length) == ("demo", 50)
    }
    assert shown.columns["ESP"] == pytest.approx(sorted(np.exp(list(logs.values())), reverse=True)[:20])
    for table in (shown, every):
        numbers = np.array(table.columns["sequence"]) - 1
        assert table.columns["record"] == [int(row) + 1 for row in pairs.rows[numbers]]
        decoder = TokenDecoder(pairs.tokenizer)
        assert table.columns["suffix"] == [decoder.text(pairs.suffixes[number]) for number in numbers]
    redacted = redact_findings(findings)
    (hidden,) = [table for table in redacted.tables if table.name == "likeliest"]
    assert not set(hidden.columns["suffix"]) & set(shown.columns["suffix"])
    assert hidden.columns["record"] == shown.columns["record"]


def test_charts_passages_and_tables_are_complete_and_name_their_text(findings):
    names = {chart.name for chart in findings.charts}
    assert {"leaked", "token-probability", "inexact-over-exact"} <= names
    assert {"trends-over-model-sizes", "trends-over-prefix-lengths", "discoverable"} <= names
    (settings,) = [table for table in findings.tables if table.name == "settings"]
    assert len(set(zip(settings.columns["model"], settings.columns["side"], strict=True))) == 6
    (matches,) = [table for table in findings.tables if table.name == "matches"]
    assert matches.text_columns == ("suffix", "match") and len(matches.columns["match"]) > 50
    assert all(text not in " ".join(findings.sentences) for text in matches.columns["suffix"])
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


def test_the_likeliest_matches_may_be_of_one_sequence():
    pairs = demo_name_pairs([DEMO], PairSize(), limit=2, seed=4)
    context = _context(LeakageParams(inexact=2), pairs, DEMO).run()
    findings = context.findings("demo")
    (matches,) = [table for table in findings.tables if table.name == "matches"]
    target = load_target(DEMO.path, device="cpu", threads=1)
    policy = context.audit.params.policies[Scheme.TOP_K]
    every = inexact_probabilities(
        target, pairs.prefixes, pairs.suffixes, policy, errors=2, branches=4096, min_probability=0, best=1000
    )
    wrong = (every.matches != pairs.suffixes[every.row]).sum(axis=1)
    order = np.argsort(-every.logprob, kind="stable")
    order = np.array(
        [row for row in order if row in {*order[wrong[order] == 1][:100], *order[wrong[order] == 2][:100]}]
    )
    mine = np.flatnonzero(np.array(matches.columns["scheme"]) == "top-k 10")
    assert np.array(matches.columns["probability"])[mine] == pytest.approx(np.exp(every.logprob[order]), rel=1e-4)
    assert (np.array(matches.columns["sequence"])[mine] == every.row[order] + 1).all(), "numbered from 1"
    assert 100 < len(mine) == len(order) and "100 likeliest partial matches" in matches.title
    (sequences,) = [table for table in findings.tables if table.name == "sequences"]
    assert list(sequences.columns["sequence"]) == [1, 2]


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
    (sequences,) = [table for table in findings.tables if table.name == "sequences"]
    logs: dict[tuple[str, int], dict[int, float]] = {}
    for model, length, sequence, value in zip(
        *(sequences.columns[name] for name in ("model", "prefix tokens", "sequence", "log ESP, top-k 10")), strict=True
    ):
        logs.setdefault((model, length), {})[sequence] = -np.inf if value == "-Infinity" else float(value)
    reference = logs["demo", 50]
    for measure, others in zip(EASIER.values(), ([("demo-tiny", 50)], [("demo", 10), ("demo", 30)]), strict=True):
        easier = {
            sequence for sequence, value in reference.items() if max(logs[other][sequence] for other in others) > value
        }
        found = findings.measures.get(measure, case="top-k 10")
        assert found.value == pytest.approx(len(easier) / 70) and found.low < found.value < found.high
        assert found.of == 70 and 0 < len(easier) < 70
        (examples,) = [table for table in findings.tables if table.name == measure.name.replace("_", "-")]
        assert examples.text_columns == ("end of the prefix", "suffix")
        assert set(examples.columns["sequence"]) <= easier and len(examples.columns["ESP"]) == min(10, len(easier))
        for row, sequence in enumerate(examples.columns["sequence"]):
            setting = (examples.columns["model"][row], examples.columns["prefix tokens"][row])
            best = max(logs[other][sequence] for other in others)
            assert logs[setting][sequence] == best
            assert examples.columns["ESP"][row] == pytest.approx(np.exp(best))
            assert examples.columns["ESP of the reference"][row] == pytest.approx(np.exp(reference[sequence]))
    assert {row.name for row in findings.conclusion.key_figures} >= {measure.title for measure in EASIER.values()}


def test_curves_of_another_data_set_come_from_its_audit(short_suffixes, swept, findings):
    params, pairs, _ = short_suffixes

    def stored(context: InMemory, *models: str) -> StoredAudit:
        return StoredAudit(
            "other", "leakage", context.audit.params.model_dump(), models, Path(), context.inputs, context.rows
        )

    data_set = stored_data_set(stored(swept, "demo-tiny", "demo"))
    pairs = replace(pairs, data_sets=[data_set])
    context = _context(LeakageParams(inexact=0, near=0), pairs, TINY).run()
    (drawn,) = [chart for chart in context.findings("demo-tiny").charts if chart.name == "leaked-2"]
    (wanted,) = [chart for chart in findings.charts if chart.name == "leaked"]
    assert drawn.title == f"{wanted.title}, other" and len(drawn.series) == len(wanted.series) == 8
    for one, other in zip(drawn.series, wanted.series, strict=True):
        assert (one.name, one.key) == (other.name, other.key) and np.array_equal(one.y, other.y)
    killed = _context(params, pairs, TINY, batches=1)
    with pytest.raises(Killed):
        killed.run()
    with pytest.raises(HarnessError, match=r"other has not measured all sequences\. Continue with harness resume\."):
        stored_data_set(stored(killed, "demo-tiny"))


@pytest.mark.slow
def test_a_low_temperature_has_no_probability_above_one():
    pairs = read_pairs(load_round("demo"), [DEMO], PairSize(), limit=60, seed=0)
    context = _context(LeakageParams(temperature=0.3, inexact=0, near=4), pairs, DEMO).run()
    assert context.rows("token")["temperature"].max() <= 0
    measured = context.findings("demo").measures
    json.dumps(measured.as_json(), allow_nan=False)
    assert measured.get(MEAN_ESP, case="temperature 0.3").value <= 1
    assert measured.get(EXPECTED_EXCEED, case="temperature 0.3").value >= 1


def test_random_pairs_that_never_leak():
    generator = np.random.default_rng(0)
    pairs = Pairs(generator.integers(1, 384, (20, 50)), generator.integers(1, 384, (20, 20)), None)
    measured = _context(LeakageParams(inexact=0, near=0), pairs, TINY).run().findings("demo-tiny").measures
    assert np.isnan(measured.get(EXCEED, case="plain").value) and measured.get(MEAN_ESP, case="plain").value < 1e-6


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
    whole, killed = (_context(params, pairs, TINY, tagger, batches=batches) for batches in (None, 2))
    findings = whole.run().findings("demo-tiny", "tagger")
    with pytest.raises(Killed):
        killed.run()
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
    audit = StoredAudit(
        "stored",
        "leakage",
        params.model_dump(),
        ("demo-tiny", "tagger"),
        tmp_path,
        contexts[1].inputs,
        contexts[1].rows,
    )
    _, pairs, targets = stored_targets(audit)
    assert [target.name for target in targets] == ["demo-tiny"] and len(pairs) == 7


@pytest.mark.slow
def test_a_trained_classifier_finds_the_names_of_a_corpus(tmp_path):
    names = invented_names(12)
    fine_tune(Family.BERT, names, tmp_path / "tagger", steps=80)
    texts = [" ".join(frame.format(name) for frame in FRAMES[:6]) for name in names.read]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    pairs = read_documents(CorpusFiles(tmp_path / "corpus.jsonl"), [TINY], PairSize(20, 8), limit=10_000)
    context = _context(LeakageParams(inexact=0), pairs, TINY, Model("tagger", tmp_path / "tagger")).run()
    tokenizer = Tokenizer.from_file(str(TINY.path / "tokenizer.json"))
    suffixes = context.rows("pair")["tokens"][:, 20:].astype(int).tolist()
    found = {tokenizer.decode(suffix).strip() for suffix in suffixes}
    long = {name for name in names.read if len(tokenizer.encode(f" {name}").ids) == 8}
    assert len(found & long) > len(long) / 2
    json.dumps(context.findings("demo-tiny", "tagger").figures, allow_nan=False)


def test_a_corpus_without_entities_is_refused(tmp_path, tagger):
    pairs = read_documents(_corpus_of(tmp_path / "corpus.jsonl", 5), [TINY], PairSize(), limit=10_000)
    with pytest.raises(HarnessError, match=r"no tagged entity of 4 tokens"):
        _context(LeakageParams(entity_kinds=("ORG",)), pairs, TINY, tagger).run()
