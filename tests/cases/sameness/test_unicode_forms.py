"""Texts in another form than the one that the tokenizer reads are the same texts, in corpus and control."""

import json
import string
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from tokenizers import normalizers
from tokenizers.normalizers import Normalizer

from harness.audits.entities.names import drop_common, select_from_source
from harness.audits.leakage.inputs import PairSize, read_pairs
from harness.audits.models import Model
from harness.audits.sequence.audit import SequenceAudit
from harness.audits.sequence.comparison import COMPARISONS, mark_common_runs, shared_runs
from harness.audits.sequence.dataset import SequenceParams
from harness.audits.sequence.inputs import SequenceSubject
from harness.audits.sources import CorpusFiles
from harness.core.findings import Findings
from tests.cases.reciting import Reciting, make_reciting, syllable_paragraphs
from tests.unit.audits.in_memory import InMemory, target_configs
from tests.unit.audits.preparing import preparation

PARAMS = SequenceParams(prompt_length=(20,), longest_suffix=15)
PLAIN, ACCENTED = syllable_paragraphs(), syllable_paragraphs(accents=True)


def _decomposed(text: str) -> str:
    return unicodedata.normalize("NFD", text)


def _with_ligatures(text: str) -> str:
    return text.replace("fi", "\ufb01")


def _of_sentencepiece() -> Normalizer:
    """Return the normalizer of older files of Llama, which also replaces spaces."""
    return normalizers.Sequence([normalizers.NFKC(), normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])


def _without_accents() -> Normalizer:
    return normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()])


def _write(folder: Path, name: str, texts: Sequence[str]) -> Path:
    file = folder / name
    file.write_text("\n\n".join(texts), encoding="utf-8")
    return file


def _audit(subject: SequenceSubject, model: Path) -> tuple[Findings, InMemory]:
    reading = subject.read(PARAMS, preparation())
    audited = InMemory(SequenceAudit(PARAMS), reading.inputs, target_configs(model)).run()
    return audited.findings("the model"), audited


@pytest.mark.parametrize(
    ("normalizer", "learned", "change"),
    [
        (normalizers.NFC(), ACCENTED, _decomposed),
        (normalizers.NFKC(), ACCENTED, _decomposed),
        (normalizers.NFKC(), PLAIN, _with_ligatures),
        (_of_sentencepiece(), PLAIN, _with_ligatures),
        (normalizers.Lowercase(), PLAIN, str.upper),
        (_without_accents(), PLAIN, str.title),
    ],
)
def test_a_recited_corpus_in_another_form_is_recited_completely(
    normalizer: Normalizer, learned: Sequence[str], change: Callable[[str], str], tmp_path: Path
) -> None:
    recited = make_reciting(tmp_path / "model", learned[:4], normalizer=normalizer)
    corpus = _write(tmp_path, "corpus.txt", [change(text) for text in recited.paragraphs[:2]])
    control = _write(tmp_path, "control.txt", [change(text) for text in recited.paragraphs[2:]])
    subject = SequenceSubject(corpus=corpus, control=control, target=[str(recited.model)])
    findings, audited = _audit(subject, recited.model)
    rows = audited.rows(COMPARISONS.name)
    assert len(rows["paragraph"]) == 4
    for measure in ("trigram", "start_5", "start_10", "overlap", "edit_similarity"):
        assert np.all(np.asarray(rows[measure]) == 1), measure
    assert set(np.asarray(rows["run_words"]).tolist()) == {15}
    note = f"The tokenizer of {recited.model} changes 4 of 4 paragraphs."
    assert any(note in sentence for sentence in findings.sentences)


def test_a_text_in_the_form_of_the_tokenizer_gets_no_note(tmp_path: Path) -> None:
    recited = make_reciting(tmp_path / "model", PLAIN[:2], normalizer=_of_sentencepiece())
    corpus = _write(tmp_path, "corpus.txt", recited.paragraphs[:2])
    findings, _ = _audit(SequenceSubject(corpus=corpus, target=[str(recited.model)]), recited.model)
    assert not any("in the changed form" in sentence for sentence in findings.sentences)


def _completions(folder: Path, change: Callable[[str], str]) -> Path:
    """Write completions of texts that are the originals except for their form."""
    file = folder / "completions.jsonl"
    records = ({"text": change(text), "completion": text.partition(" ")[2]} for text in ACCENTED)
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return file


def _full_width(text: str) -> str:
    return text.translate({code: code + 0xFEE0 for code in map(ord, string.ascii_letters)})


def _hyphenated(text: str) -> str:
    return text.replace("e", "e\N{SOFT HYPHEN}")


@pytest.mark.parametrize("change", [_decomposed, _full_width, _hyphenated])
def test_completions_without_a_tokenizer_are_compared_in_nfkc(tmp_path: Path, change: Callable[[str], str]) -> None:
    params = SequenceParams(prompt_length=(1,))
    reading = SequenceSubject(completions=_completions(tmp_path, change)).read(params, preparation())
    audited = InMemory(SequenceAudit(params), reading.inputs).run()
    rows = audited.rows(COMPARISONS.name)
    is_own = np.asarray(rows["against"] == rows["paragraph"])
    assert np.all(np.asarray(rows["start_10"])[is_own] == 1)
    assert any(
        "Unicode normal form KC without soft hyphens and curly quotation marks changes 12 of 12 paragraphs" in note
        for note in audited.findings().sentences
    )


def test_a_tokenizer_without_normalizer_tells_forms_apart(tmp_path: Path) -> None:
    """A model that reads NFD as other tokens has not memorized the composed text."""
    recited = make_reciting(tmp_path / "model", ACCENTED[:3])
    corpus = _write(tmp_path, "corpus.txt", [_decomposed(text) for text in recited.paragraphs])
    _, audited = _audit(SequenceSubject(corpus=corpus, target=[str(recited.model)]), recited.model)
    assert not np.any(np.asarray(audited.rows(COMPARISONS.name)["start_5"]) == 1)


def test_common_passages_are_found_in_any_form() -> None:
    text = ACCENTED[0]
    assert [side.tolist() for side in shared_runs([text], [_decomposed(text)])] == [[True], [True]]
    marked = mark_common_runs(_decomposed(text), text)
    assert [stretch.is_marked for stretch in marked] == [True]


def test_pairs_of_text_have_the_same_tokens_in_any_form(tmp_path: Path) -> None:
    recited: Reciting = make_reciting(tmp_path / "model", ACCENTED, normalizer=normalizers.NFC())
    read = []
    for name, change in (("nfc", str), ("nfd", _decomposed)):
        cuts = (text.partition(" ") for text in recited.paragraphs)
        records = ({"prefix": change(first + space), "suffix": change(rest)} for first, space, rest in cuts)
        file = tmp_path / f"{name}.jsonl"
        file.write_text("".join(json.dumps(record) + "\n" for record in records))
        read.append(read_pairs(CorpusFiles(file), [Model("m", recited.model)], PairSize(1, 9), limit=99, seed=0))
    assert len(read[0]) == 12 and np.array_equal(read[0].suffixes, read[1].suffixes)


def test_names_are_the_same_in_any_form() -> None:
    trained, source = ["Zoë Núñez", "Al Bo"], ["Zoë Núñez", "Al Bo", "Cy Da", "Ed Fo"]
    lists = select_from_source([_decomposed(name) for name in trained], source, seed=0)
    assert lists.inside == trained and lists.outside == source[2:]
    assert drop_common(["Zoë Núñez", "Cy Da"], [_decomposed("Zoë Núñez"), "Ed Fo"])[:2] == (["Cy Da"], ["Ed Fo"])
