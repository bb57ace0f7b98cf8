import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from harness.audits.book.audit import BookAudit
from harness.audits.book.coverage import COVERAGE, GAP, MEASURED_WINDOWS, WINDOWS
from harness.audits.book.inputs import MIN_PROBABILITY, BookParams, Texts, read_texts
from harness.audits.book.windows import cut_windows
from harness.audits.models import Model
from harness.audits.sources import CorpusFiles
from harness.core.errors import HarnessError
from harness.core.findings import Findings, HeatMap
from harness.demo import SIZES
from harness.engine.loading import load_target
from tests.tools.demo_texts import TOKENIZER, trained_text
from tests.unit.audits.in_memory import InMemory, plain, quoted_after_redaction, target_configs

DEMO, SMALL, TINY = (Model(size.name, size.weights) for size in SIZES)
PARAMS = BookParams(stride=25, near=10)


def read(paths: Sequence[Path], control: Path | None, models: Sequence[Model], params: BookParams = PARAMS) -> Texts:
    """Return the texts of files."""
    return read_texts(list(map(CorpusFiles, paths)), control and CorpusFiles(control), models, params)


def context(
    params: BookParams, texts: tuple[Path, Path | None], *models: Model, batches: int | None = None
) -> InMemory:
    inputs = read([texts[0]], texts[1], models, params)
    return InMemory(BookAudit(params), inputs, target_configs(*(model.path for model in models)), batches=batches)


@pytest.fixture(scope="module")
def audited(texts: tuple[Path, Path]) -> InMemory:
    return context(PARAMS, texts, DEMO).run()


@pytest.fixture(scope="module")
def findings(audited: InMemory) -> Findings:
    return audited.findings("demo")


def plain_probabilities(tokens: np.ndarray, top_k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the probability of each suffix under plain and top-k sampling, from the model's own logits."""
    model = load_target(DEMO.path, device="cpu", threads=1).model
    with torch.inference_mode():
        logits = model(torch.as_tensor(tokens)).logits[:, 49:-1].double()
    targets = torch.as_tensor(tokens[:, 50:]).unsqueeze(2)
    plain_logs = torch.log_softmax(logits, 2).gather(2, targets).squeeze(2)
    kept = logits.masked_fill(logits < logits.topk(top_k).values[..., -1:], -torch.inf)
    top_logs = torch.log_softmax(kept, 2).gather(2, targets).squeeze(2)
    return plain_logs.sum(1).exp().numpy(), top_logs.sum(1).exp().numpy()


def test_probabilities_are_those_of_plain_teacher_forcing(texts: tuple[Path, Path]):
    params = BookParams(stride=25, near=0, schemes=("plain", "top_k", "greedy"))
    rows = context(params, texts, DEMO).run().rows(WINDOWS.name)
    order = np.lexsort((rows["start"], rows["text"]))
    windows = [cut_windows(path.read_text(encoding="utf-8"), TOKENIZER, params) for path in texts]
    tokens = np.concatenate([each.tokens for each in windows]).astype(np.int64)
    wanted_plain, wanted_top = plain_probabilities(tokens, 40)
    assert rows["start"][order].tolist() == np.concatenate([each.start for each in windows]).tolist()
    assert np.abs(np.exp(rows["plain"][order]) - wanted_plain).max() < 1e-5
    assert np.abs(np.exp(rows["top_k"][order]) - wanted_top).max() < 1e-5
    assert (wanted_top > 0.1).any() and (wanted_top < MIN_PROBABILITY).any()
    assert np.isnan(rows["typical_p"]).all()


def test_the_memorized_text_is_found_and_the_control_is_not(findings: Findings):
    covered = [row.estimate.value for row in findings.measures.select(COVERAGE, side="text")]
    assert covered[0] > 0.2 and covered == sorted(covered, reverse=True) and len(covered) == 4
    assert [row.estimate.value for row in findings.measures.select(COVERAGE, side="control")] == [0] * 4
    assert findings.measures.get(GAP, at=0.001).value == covered[0]
    windows = [(row.side, row.estimate.value) for row in findings.measures.select(MEASURED_WINDOWS)]
    assert [side for side, _ in windows] == ["known.txt", "control.txt (control)"]
    figures = findings.figures
    assert figures["is_complete"]
    assert figures["measured_windows"] == figures["windows"] == sum(number for _, number in windows)
    top_k = [row.estimate.value for row in findings.measures.select(COVERAGE, side="known.txt", case="top-k 40")]
    assert top_k == covered
    json.dumps([figures, findings.measures.as_json()], allow_nan=False)


def test_passages_and_texts_show_what_can_be_extracted(findings: Findings):
    assert findings.conclusion.question == "How much of the text can be extracted?"
    (_, stretches) = findings.passages[0].texts[0]
    marked = "".join(part.text for part in stretches if part.is_marked)
    assert len(marked) > 20 and marked in trained_text(6)
    chart = findings.charts[0]
    assert isinstance(chart, HeatMap) and list(chart.row_labels) == ["known.txt", "control.txt (control)"]
    shaded = findings.texts[0]
    assert len(shaded.values) == len(shaded.text)
    largest = np.nanmax(shaded.values)
    assert f"{largest:.3f}" in findings.passages[0].title or largest < 1e-4
    assert np.nanmax(chart.values[0]) == largest
    assert quoted_after_redaction(findings) == []


@pytest.mark.slow
def test_an_audit_killed_near_its_end_continues(texts: tuple[Path, Path]):
    params = BookParams(stride=30, near=24, beams=2)
    whole = context(params, texts, TINY, SMALL).run()
    # The last batch is one of near-verbatim windows under the second target.
    killed = context(params, texts, TINY, SMALL, batches=len(whole._done) - 1).run_until_killed()
    partial = killed.findings("tiny", "small")
    assert not partial.figures["is_complete"] and "near-verbatim windows" in partial.conclusion.evidence
    assert plain(killed.resumed().run().findings("tiny", "small")) == plain(whole.findings("tiny", "small"))


def test_texts_that_are_not_begun_are_missing(tmp_path: Path):
    for number in range(200):
        (tmp_path / f"{number:03}.txt").write_text(f"{number} {trained_text(2)}", encoding="utf-8")
    params = BookParams(near=0, stride=1000)
    killed = context(params, (tmp_path, None), TINY, batches=1).run_until_killed()
    found = killed.findings("tiny")
    assert not found.figures["is_complete"] and "so far 128 of 200 windows" in found.conclusion.evidence


def test_windows_at_tokens_of_one_character_are_told_apart(tmp_path: Path):
    (tmp_path / "emoji.txt").write_text("\U0001f600\u6f22" * 60, encoding="utf-8")
    params = BookParams(prefix_tokens=6, suffix_tokens=6, stride=1, stride_unit="tokens", near=1000, beams=1)
    audited = context(params, (tmp_path, None), TINY).run()
    found = audited.findings("tiny").figures
    assert found["is_complete"]
    assert found["windows"] == len(audited.rows(WINDOWS.name)["start"]) > 300


def test_targets_are_measured_in_their_own_tokens(texts: tuple[Path, Path], tmp_path: Path):
    other = tmp_path / "other"
    shutil.copytree(TINY.path, other)
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    tokenizer["model"]["merges"] = tokenizer["model"]["merges"][:100]
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    params = BookParams(stride=60, prefix_tokens=20, suffix_tokens=10, near=0)
    audited = context(params, texts, DEMO, Model("other", other)).run()
    measured = audited.findings("demo", "other").measures
    assert [row.model for row in measured.select(MEASURED_WINDOWS)] == ["demo", "demo", "other", "other"]
    rows = audited.rows(WINDOWS.name)
    lengths = [(rows["end"] - rows["start"])[rows["model"] == model].mean() for model in (0, 1)]
    assert lengths[0] > lengths[1]


def test_short_texts_are_skipped_with_a_note(tmp_path: Path):
    (tmp_path / "long.txt").write_text(trained_text(3))
    (tmp_path / "short.txt").write_text("a few words")
    inputs = read([tmp_path], None, [DEMO])
    assert inputs.names == ["long.txt"]
    (note,) = inputs.notes
    assert note.startswith("Skipped short.txt: ") and note.endswith(" tokens, and a window has 100.")


def test_texts_of_equal_names_are_told_apart_and_equal_texts_are_read_once(tmp_path: Path):
    for folder in ("one", "two", "three"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "book.txt").write_text(trained_text(4 if folder == "two" else 3))
    paths = [tmp_path / folder / "book.txt" for folder in ("one", "two", "three")]
    inputs = read(paths, None, [DEMO])
    assert inputs.names == ["book.txt", "book.txt (2)"]
    assert inputs.notes == ["Skipped book.txt: the same text as book.txt."]
    with pytest.raises(HarnessError, match=r"the control book\.txt is the same text as book\.txt\. Name text"):
        read(paths[:2], paths[2], [DEMO])


def test_bytes_that_are_not_utf_8_do_not_end_a_book(tmp_path: Path):
    book = tmp_path / "book.txt"
    content = trained_text(9).encode()
    book.write_bytes(content[:900] + b"\xe9\xff" + content[900:])
    inputs = read([book], None, [DEMO])
    assert inputs.texts == [f"{content[:900].decode()}\ufffd\ufffd{content[900:].decode()}"]
    assert inputs.notes == ["book.txt: 2 bytes that are not UTF-8 became U+FFFD."]


def test_bad_input_is_one_sentence(tmp_path: Path):
    short, empty = tmp_path / "short.txt", tmp_path / "empty.txt"
    short.write_text("a few words")
    empty.write_text("")
    long = tmp_path / "long.txt"
    long.write_text(trained_text(3))
    bare = tmp_path / "bare"
    shutil.copytree(DEMO.path, bare)
    (bare / "tokenizer.json").unlink()
    for arguments, words in (
        (([short], None, [DEMO]), "short.txt contains no text of 100 tokens. Skipped short.txt: "),
        (([empty], None, [DEMO]), "empty.txt contains no text of 100 tokens."),
        (([tmp_path / "none"], None, [DEMO]), "no such file or directory"),
        (([long], short, [DEMO]), "short.txt contains no text of 100 tokens. Name a longer control text."),
        (([long], None, [Model("bare", bare)]), "bare has no tokenizer.json, .* AutoTokenizer.from_pretrained"),
    ):
        with pytest.raises(HarnessError, match=words):
            read(*arguments, PARAMS)
    with pytest.raises(HarnessError, match="the context of demo is"):
        read([long], None, [DEMO], BookParams(prefix_tokens=4000))
