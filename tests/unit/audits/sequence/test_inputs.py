"""Reading a corpus, a round and a control into the dataset."""

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.audits.sequence.comparison import shared_runs
from harness.audits.sequence.dataset import (
    MAX_CHARACTERS,
    Control,
    Cut,
    Dataset,
    SequenceParams,
    cut_after,
    cut_at,
    paragraphs_of,
    permuted_partners,
)
from harness.audits.sequence.inputs import Paragraph, SequenceSubject, read_inputs, sample_paragraphs, select_targets
from harness.audits.sequence.words import first_words
from harness.audits.sources import CorpusFiles, Source, named_source
from harness.core.errors import HarnessError
from harness.core.rounds import load_round
from harness.demo import SEED, WEIGHTS
from tests.demo_target.corpus import corpus


def test_blank_lines_separate_paragraphs_and_line_breaks_do_not() -> None:
    assert list(paragraphs_of(io.StringIO("one\ntwo\r\n\r\n \t \nthree\n\n\n", newline=None))) == ["one\ntwo", "three"]
    assert list(paragraphs_of([" \n", "\n"])) == []


def test_a_line_in_pieces_is_one_line() -> None:
    assert list(paragraphs_of(["one ", "  ", "two\n", "\n", "three"])) == ["one   two", "three"]


def test_an_endless_paragraph_is_cut() -> None:
    stream = io.StringIO("word " * 1_000_000 + "\n\nnext")
    first, second = paragraphs_of(iter(lambda: stream.readline(1 << 16), ""))
    assert len(first) <= MAX_CHARACTERS + (1 << 16)
    assert second == "next"


def test_a_cut_keeps_whitespace_and_needs_a_word_after_its_prompt() -> None:
    assert cut_after(" a  b\nc\td ", 2, 10) == ("a  b", "c\td")
    assert cut_after("a b c d", 2, 1) == ("a b", "c")
    assert cut_after("a b", 2, 10) is None and cut_after("", 1, 10) is None


def test_cut_at_drops_words_that_may_be_incomplete() -> None:
    assert cut_at("alpha beta gamma del", 8, 10) == ("alpha", "beta gamma")
    assert cut_at("alpha beta gamma ", 10, 10) == ("alpha beta", "gamma")
    assert cut_at("alpha", 3, 10) is None


def test_first_words_end_with_a_word() -> None:
    assert first_words(" a b  c d", 3) == " a b  c"
    assert first_words("a", 3) == "a"
    assert first_words("a b", 0) == ""


def paragraphs(*words: str | None) -> list[Paragraph]:
    return [Paragraph("a", place, None if word is None else Cut("prompt", word)) for place, word in enumerate(words, 1)]


def test_repeated_paragraphs_are_counted_and_sampled_once() -> None:
    found = sample_paragraphs(paragraphs("x", "y", "x", None, " x "), limit=10, seed=0)
    assert [piece.number for piece in found.paragraphs] == [1, 2]
    assert found.occurrences == [3, 1]
    assert found.counts == (5, 1, 2, 0, 0)


@given(st.lists(st.sampled_from([*"abcdefgh", None]), max_size=30), st.integers(1, 6), st.integers(0, 3))
def test_every_paragraph_is_accounted_for(words: list[str | None], limit: int, seed: int) -> None:
    found = sample_paragraphs(paragraphs(*words), limit=limit, seed=seed)
    counts = found.counts
    assert len(found.paragraphs) == min(limit, len(set(words) - {None}))
    assert counts.paragraphs == len(found.paragraphs) + counts.too_short + counts.repeated + counts.not_chosen
    for piece, times in zip(found.paragraphs, found.occurrences, strict=True):
        assert piece.cut is not None
        assert times == words.count(piece.cut.suffix)


def test_the_sample_depends_on_the_seed_and_not_on_the_order() -> None:
    words = [str(number) for number in range(200)]
    one = {piece.cut for piece in sample_paragraphs(paragraphs(*words), limit=20, seed=1).paragraphs}
    assert one == {piece.cut for piece in sample_paragraphs(paragraphs(*reversed(words)), limit=20, seed=1).paragraphs}
    assert one != {piece.cut for piece in sample_paragraphs(paragraphs(*words), limit=20, seed=2).paragraphs}


TOKENIZER = WEIGHTS / "tokenizer.json"


def read_dataset(source: Source, control: Source | None = None, seed: int = 0, **fields: Any) -> Dataset:
    return read_inputs(source, control, SequenceParams.checked(**fields), seed=seed, tokenizer_file=TOKENIZER)


def numbered(first: int, count: int) -> str:
    return " ".join(f"w{number}" for number in range(first, first + count))


def test_paragraphs_are_cut_after_35_words(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"{numbered(0, 40)}\n\nshort\n\n{numbered(0, 40)}\n\n{numbered(100, 36)}\n")
    found = read_dataset(CorpusFiles(tmp_path))
    assert found.prompts == [numbered(0, 35), numbered(100, 35)]
    assert found.suffixes == [numbered(35, 5), "w135"]
    assert found.number.tolist() == [1, 4]
    assert found.occurrences.tolist() == [2, 1]
    assert found.counts["corpus"] == (4, 1, 1, 0, 0)
    assert found.control is Control.PERMUTED


def test_long_suffixes_are_cut(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(numbered(0, 20))
    found = read_dataset(CorpusFiles(tmp_path), prompt_length=(5,), longest_suffix=10)
    assert found.suffixes == [numbered(5, 10)]
    assert found.counts["corpus"].shortened == 1


def test_the_demo_round_has_unseen_text_as_its_control() -> None:
    found = read_dataset(load_round("demo"), limit=300)
    assert found.control is Control.CORPUS
    assert int(found.is_control.sum()) == 300
    trained_on = "\n\n".join(document.text for document in corpus(SEED))
    passages = [f"{one}" for one in found.suffixes]
    is_known = np.array([passage in trained_on for passage in passages])
    assert is_known[~found.is_control].mean() > 0.99
    assert not is_known[found.is_control].any()
    assert not found.is_shared.any()


def test_a_rounds_prompt_is_its_own_prefix_by_default() -> None:
    own = read_dataset(load_round("demo"), limit=50)
    assert own.prompt_length is None
    assert len({len(prompt.split()) for prompt in own.prompts}) > 1
    given = read_dataset(load_round("demo"), limit=50, prompt_length=(6,))
    assert {len(prompt.split()) for prompt in given.prompts} == {6}


def test_shared_text_is_marked_on_both_sides(tmp_path: Path) -> None:
    for name, texts in (
        ("one", [numbered(0, 60), numbered(100, 60)]),
        ("other", [numbered(20, 60), numbered(300, 60)]),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text("\n\n".join(texts))
    found = read_dataset(CorpusFiles(tmp_path / "one"), CorpusFiles(tmp_path / "other"))
    assert found.is_control.tolist() == [False, False, True, True]
    assert found.is_shared.tolist() == [True, False, True, False]
    assert found.documents == ["a.txt", "a.txt"]


def test_a_run_of_thirteen_words_is_shared() -> None:
    one = [numbered(0, 30)]
    assert [side.tolist() for side in shared_runs(one, [numbered(18, 30)])] == [[False], [False]]
    assert [side.tolist() for side in shared_runs(one, [numbered(17, 30)])] == [[True], [True]]
    assert [side.tolist() for side in shared_runs(["a b"], ["a b", "b a"])] == [[True], [True, False]]


def test_partners_have_suffixes_of_similar_length(tmp_path: Path) -> None:
    lengths = [1, 9, 2, 8, 3, 7, 1, 9]
    (tmp_path / "a.txt").write_text("\n\n".join(numbered(100 * at, 3 + n) for at, n in enumerate(lengths)))
    found = read_dataset(CorpusFiles(tmp_path), prompt_length=(3,))
    partner = permuted_partners(found, seed=0)
    assert sorted(partner.tolist()) == list(range(len(lengths)))
    assert all(one != other for other, one in enumerate(partner.tolist()))
    longest = max(range(len(lengths)), key=lambda place: lengths[place])
    steps = [abs(lengths[one] - lengths[other]) for other, one in enumerate(partner.tolist())]
    assert sorted(steps)[:-1] == [0, 0, 1, 1, 1, 1, 4]
    assert lengths[longest] == 9


def test_a_single_paragraph_has_no_partner(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(numbered(0, 60))
    assert permuted_partners(read_dataset(CorpusFiles(tmp_path)), seed=0).tolist() == [-1]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        (".hidden", "", "It is empty"),
        ("a.txt", "", r"contains no paragraph\. It is empty\."),
        ("a.jsonl", '{"body": "x"}\n' * 5, r"no paragraph\. Skipped a.jsonl, line 1: no text in the field 'text'"),
        (
            "a.txt",
            "only a few words",
            r"more than 35 words \(text between spaces\)\. Use longer paragraphs or a smaller --prompt-length\.",
        ),
    ],
)
def test_a_corpus_without_a_long_enough_paragraph_is_refused(
    tmp_path: Path, name: str, content: str, says: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(HarnessError, match=says):
        read_dataset(CorpusFiles(tmp_path))


def test_a_control_of_files_for_a_round_needs_a_prompt_length(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(numbered(0, 60))
    with pytest.raises(HarnessError, match="--prompt-length"):
        read_dataset(load_round("demo"), CorpusFiles(tmp_path))
    assert read_dataset(load_round("demo"), CorpusFiles(tmp_path), prompt_length=(5,)).is_control.sum() == 1


def test_a_round_needs_a_tokenizer_and_answers(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"contains tokens, and the target has no tokenizer\.json"):
        read_inputs(load_round("demo"), None, SequenceParams(), seed=0)
    blind = load_round("demo").model_copy(update={"answer_file": None})
    with pytest.raises(HarnessError, match="is blind"):
        read_dataset(blind)
    small = tmp_path / "tokenizer.json"
    small.write_text("{}")
    with pytest.raises(HarnessError, match=r"not a tokenizer\.json"):
        read_inputs(load_round("demo"), None, SequenceParams(), seed=0, tokenizer_file=small)


def test_a_corpus_whose_path_is_not_utf8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"path .*caf\\udce9 is not UTF-8"):
        named_source(SequenceSubject(), tmp_path / os.fsdecode(b"caf\xe9"), None)


def test_one_corpus_and_one_model_are_selected(tmp_path: Path) -> None:
    files, round_ = CorpusFiles(tmp_path), load_round("demo")
    with pytest.raises(HarnessError, match="Name one"):
        named_source(SequenceSubject(), tmp_path, "demo")
    remote = SequenceParams.checked(endpoint="http://localhost/v1", endpoint_model="gpt")
    with pytest.raises(HarnessError, match="two models are named"):
        select_targets(["demo"], "main", files, None, remote)
    with pytest.raises(HarnessError, match="two models are named"):
        select_targets(["demo", "demo-tiny"], "main", round_, None, remote)
    assert select_targets([], "main", files, None, remote) == ([], "main")
    assert select_targets([], "main", round_, None, remote) == (["demo"], "main")
    assert select_targets(["a", "b", "a"], "r1", files, None, SequenceParams()) == (["a", "b"], "r1")
