import json
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from harness.audits.membership.audit import MembershipAudit
from harness.audits.membership.findings import AUC, read_scores
from harness.audits.membership.inputs import Documents, MembershipParams, read_documents
from harness.audits.membership.scores import LABELS, MODEL_SCORES, Score, min_k_score
from harness.audits.models import Model
from harness.audits.sources import CorpusFiles
from harness.core.errors import HarnessError
from harness.core.findings import Findings, LineChart
from harness.core.rounds import load_round
from harness.demo import CONTROL_TEXT, REFERENCE, SIZES, WEIGHTS
from harness.engine.loading import load_target
from harness.engine.target import Target
from tests.unit.audits.in_memory import InMemory, target_configs

DEMO = Model(SIZES[0].name, SIZES[0].weights)
OTHER = Model(REFERENCE.name, REFERENCE.weights)
TOKENIZER = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))


@pytest.fixture(scope="module")
def unseen(tmp_path_factory: pytest.TempPathFactory) -> CorpusFiles:
    """200 examples that the demo target has not seen, as text."""
    arrays = np.load(CONTROL_TEXT)
    rows = np.concatenate([arrays["prefixes"], arrays["suffixes"]], axis=1)[:200]
    file = tmp_path_factory.mktemp("unseen") / "unseen.jsonl"
    texts = [TOKENIZER.decode(row.tolist(), skip_special_tokens=False) for row in rows]
    file.write_text("\n".join(json.dumps({"text": text}) for text in texts))
    return CorpusFiles(file)


def context(params: MembershipParams, inputs: Documents, *models: Model, batches: int | None = None) -> InMemory:
    folders = target_configs(*(model.path for model in models))
    return InMemory(MembershipAudit(params), inputs, folders, batches=batches)


@pytest.fixture(scope="module")
def documents(unseen: CorpusFiles) -> Documents:
    params = MembershipParams(reference=True)
    return read_documents(load_round("demo"), unseen, [DEMO, OTHER], params, limit=100, seed=1)


@pytest.fixture(scope="module")
def audited(documents: Documents) -> InMemory:
    return context(MembershipParams(reference=True), documents, DEMO, OTHER).run()


def against(unseen: CorpusFiles, folder: Path, texts: list[str]) -> Findings:
    """Return the findings of an audit of these members and 60 texts that the demo target has not seen."""
    members = folder / "members.jsonl"
    members.write_text("\n".join(json.dumps({"text": text}) for text in texts))
    params = MembershipParams(shots=0)
    inputs = read_documents(CorpusFiles(members), unseen, [DEMO], params, limit=60, seed=1)
    return context(params, inputs, DEMO).run().findings("demo")


def by_hand(tokens: np.ndarray, text: str, shots: np.ndarray) -> dict[Score, float]:
    """Return the scores of one text from the logits of the model."""
    scores = {}
    for model in (DEMO, OTHER):
        target = load_target(model.path, device="cpu", threads=1)
        bos = [] if target.bos_token is None else [target.bos_token]

        def logprobs(before: np.ndarray, target: Target = target, bos: list[int] = bos) -> torch.Tensor:
            whole = torch.tensor([[*bos, *before.tolist(), *tokens.tolist()]])
            with torch.inference_mode():
                logits = target.model(whole).logits[0].double()
            return torch.log_softmax(logits[-len(tokens) : -1], dim=-1)

        every = logprobs(tokens[:0])
        of_tokens = every.gather(1, torch.tensor(tokens[1:, None])).squeeze(1)
        if model is OTHER:
            scores[Score.REFERENCE] = float(-scores[Score.LOSS] / of_tokens.mean())
            continue
        mean = (every.exp() * every).sum(1)
        deviation = ((every.exp() * every**2).sum(1) - mean**2).sqrt()
        number = int(len(of_tokens) * 0.2)
        scores |= {
            Score.LOSS: float(of_tokens.mean()),
            Score.ZLIB: float(of_tokens.mean()) / len(zlib.compress(text.encode())),
            Score.MIN_K: float(of_tokens.sort().values[:number].mean()),
            Score.MIN_K_PLUS: float(((of_tokens - mean) / deviation).sort().values[:number].mean()),
        }
        after = logprobs(shots).gather(1, torch.tensor(tokens[1:, None])).squeeze(1)
        scores[Score.RECALL] = float(after.mean() / of_tokens.mean())
    return scores


def test_scores_are_those_computed_by_hand(audited: InMemory, documents: Documents):
    scores = read_scores(audited.rows, len(documents.tokens))
    target = load_target(DEMO.path, device="cpu", threads=1)
    room = target.context_length - max(map(len, documents.tokens)) - 2
    for number in (0, 7, len(documents.tokens) - 1):
        wanted = by_hand(documents.tokens[number], documents.texts[number], documents.shots[-room:])
        for score in MODEL_SCORES:
            assert scores[score][number] == pytest.approx(wanted[score], rel=1e-3), score


def test_members_of_the_demo_are_found_and_the_words_do_not_tell(audited: InMemory):
    findings = audited.findings("demo", "demo-reference")
    figures = findings.figures
    assert figures["is_complete"] and (figures["members"], figures["non_members"]) == (100, 100)
    for score in MODEL_SCORES:
        assert findings.measures.get("auc", case=LABELS[score]).low > 0.6
        assert np.isnan(findings.measures.get("tpr_at_fpr", case=LABELS[score], at=0.001).value)
    words = findings.measures.get("auc", side="words alone")
    assert abs(words.value - 0.5) < 0.1 and figures["word_shift"] is False
    assert findings.measures.get("words_p_value").value > 0.025
    assert findings.conclusion.answer == "Yes" and "the words alone give" in findings.conclusion.evidence
    (chart,) = (chart for chart in findings.charts if isinstance(chart, LineChart) and chart.name == "roc")
    assert {float(series.x.min()) for series in chart.series} == {1 / 100}
    (sentence,) = (sentence for sentence in findings.sentences if "not resolvable" in sentence)
    assert sentence == "The TPR at 0.1 % FPR is not resolvable with 100 non-members: it needs at least 1,000."
    assert findings.conclusion.key_figures[-1][1:3] == ("–", "needs 1,000 non-members")
    json.dumps([figures, findings.measures.as_json()], allow_nan=False)


def test_texts_of_another_kind_are_no_evidence(tmp_path: Path, unseen: CorpusFiles):
    generator = np.random.default_rng(1)
    words = ["archived", "record", "town", "mayor", "said", "times", "no", "Zadika"]
    findings = against(unseen, tmp_path, [" ".join(generator.choice(words, 24)) for _ in range(60)])
    assert findings.conclusion.answer == "The texts differ" and findings.figures["word_shift"] is True
    assert "no evidence of membership" in findings.conclusion.evidence
    assert not findings.measures.select(AUC, case=LABELS[Score.RECALL])


def test_members_that_are_near_copies_of_each_other_show_nothing(tmp_path: Path, unseen: CorpusFiles):
    text = (
        "archived record {} of the town of Zadika: the mayor said no, and the council said no, and the people said no"
    )
    findings = against(unseen, tmp_path, [text.format(number) for number in range(60)])
    assert findings.conclusion.answer == "Not known" and findings.figures["word_shift"] is None
    assert "fewer than 5 texts that are not near-copies" in findings.conclusion.evidence
    assert findings.figures["clusters"] < 62


# tests/functional kills the process of such an audit.


def test_min_k_takes_the_least_likely_tokens():
    assert min_k_score(np.array([-1.0, -4.0, -2.0, -3.0, 0.0]), 0.4) == -3.5
    assert min_k_score(np.array([-1.0, -4.0]), 0.1) == -4.0


def test_bad_input_is_one_sentence(tmp_path: Path, unseen: CorpusFiles):
    short = tmp_path / "short.txt"
    short.write_text("a few words")
    params = MembershipParams()
    for members, non_members, words in (
        (CorpusFiles(short), unseen, "short.txt contains no document of 32 tokens. Skipped short.txt"),
        (unseen, unseen, "members and non-members are the same documents"),
        (CorpusFiles(tmp_path / "none"), unseen, "no such file or directory"),
    ):
        with pytest.raises(HarnessError, match=words):
            read_documents(members, non_members, [DEMO], params, limit=10, seed=1)
    with pytest.raises(HarnessError, match="the context of demo is"):
        read_documents(unseen, unseen, [DEMO], MembershipParams(tokens=4000), limit=10, seed=1)


def test_every_document_that_is_not_scored_is_accounted_for(tmp_path: Path, unseen: CorpusFiles):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder, number in ((inside, 8), (outside, 32)):
        folder.mkdir()
        for place in range(number):
            (folder / f"{place:02}.txt").write_text(f"{folder.name} {place} " + "A sentence of the text. " * 20)
    (inside / "again.txt").write_text((inside / "00.txt").read_text())
    sides = (CorpusFiles(inside), CorpusFiles(outside))
    read = read_documents(*sides, [DEMO], MembershipParams(), limit=7, seed=1)
    assert read.is_member.sum() == 7 and (~read.is_member).sum() == 7
    assert list(read.notes[:4]) == [
        "3 of 32 non-members are the shots of ReCaLL and are not scored.",
        "Scored 7 of 8 members, sampled by seed. Set --limit for more.",
        "Scored 7 of 29 non-members, sampled by seed. Set --limit for more.",
        "Skipped again.txt: its first 128 tokens are those of 00.txt.",
    ]
