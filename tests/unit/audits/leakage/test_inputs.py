import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from harness.audits.leakage.cutting import entity_pairs, token_at
from harness.audits.leakage.inputs import (
    Model,
    Size,
    pairs_of_demo_names,
    pairs_of_file,
    pairs_of_round,
    shared_tokenizer,
    uncut_documents,
)
from harness.audits.leakage.pairs import Pairs, TokenTexts
from harness.audits.leakage.params import LeakageParams
from harness.audits.leakage.sources import Asked, inputs_of, targets_of
from harness.core.audit import AuditInputs
from harness.core.errors import HarnessError
from harness.core.rounds import load_round
from harness.engine.demo import SIZES, WEIGHTS
from harness.engine.demo.names import NAME, name_pairs
from tests.unit.audits.leakage.test_audit import _Marked

DEMO, SMALL, TINY = (Model(size.name, size.weights) for size in SIZES)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))


WHOLE = Size()


def _pairs(path: Path, size: Size = WHOLE, models=(TINY,), limit: int = 100) -> Pairs:
    return pairs_of_file(path, models, size, limit=limit, seed=0)


def _model(folder: Path, **config) -> Model:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    return Model(folder.name, folder)


def test_token_files_are_read_as_pairs(tmp_path):
    rows = np.random.default_rng(0).integers(0, 384, (20, 70))
    np.save(tmp_path / "rows.npy", rows)
    np.savez(tmp_path / "pairs.npz", prefixes=rows[:, :50], suffixes=rows[:, 50:])
    whole, parts = _pairs(tmp_path / "rows.npy"), _pairs(tmp_path / "pairs.npz")
    assert (whole.prefixes == rows[:, :50]).all() and (parts.suffixes == rows[:, 50:]).all()
    shorter = _pairs(tmp_path / "pairs.npz", Size(prefix=10, suffix=4))
    assert (shorter.prefixes == rows[:, 40:50]).all() and (shorter.suffixes == rows[:, 50:54]).all()
    few = _pairs(tmp_path / "pairs.npz", limit=7)
    assert len(few) == 7 and (_pairs(tmp_path / "pairs.npz", limit=7).prefixes == few.prefixes).all()


def test_what_was_read_travels_whole(tmp_path):
    pairs = pairs_of_demo_names([TINY], Size(), limit=9, seed=0)
    pairs.inputs.write(tmp_path)
    back = Pairs.of(AuditInputs.read(tmp_path))
    assert (back.prefixes == pairs.prefixes).all() and back.tokenizer == pairs.tokenizer and len(back) == 9


@pytest.mark.parametrize("ending", [".jsonl", ".tsv"])
def test_text_pairs_are_encoded_as_one_text_and_cut_where_the_suffix_begins(tmp_path, tokenizer, ending):
    prefix = "Nobody in Tormika carried the amber lantern beside the narrow harbour, said Vulzish; " * 2
    suffix = "and the furnace stood behind a garden that Kelbor watched."
    records = [{"prefix": prefix, "suffix": suffix}, {"prefix": "too short", "suffix": suffix}]
    path = tmp_path / f"pairs{ending}"
    if ending == ".jsonl":
        path.write_text("\n".join([*map(json.dumps, records), "no JSON", json.dumps({"prefix": 3}), "\n"]))
    else:
        lines = [f"{one['suffix']}\t{one['prefix']}" for one in records]
        path.write_text("\n".join(["suffix\tprefix", *lines, "only one cell"]))
    found = _pairs(path, Size(suffix=8))
    assert len(found) == 1 and found.suffixes.shape == (1, 8)
    begun = tokenizer.decode(found.suffixes[0].tolist())
    assert suffix.startswith(begun.strip()) and len(begun) > 8
    assert prefix.rstrip().endswith(tokenizer.decode(found.prefixes[0].tolist()))
    assert any("left out" in note for note in found.notes)


def test_names_of_the_demos_corpus_are_four_tokens_behind_fifty(tokenizer):
    made = name_pairs(WEIGHTS / "tokenizer.json")
    assert len(made) > 1000 and all(len(prefix) == 50 and len(name) == 4 for prefix, name in made)
    assert all(NAME.fullmatch(tokenizer.decode(name).strip()) for _, name in made)


def test_every_invented_name_is_recognised_as_one():
    from random import Random

    from harness.engine.demo.invented import name

    rng = Random(1)
    assert all(NAME.fullmatch(name(rng)) for _ in range(2000))


def test_the_sizes_of_the_demo_share_a_tokenizer_and_are_small_enough_for_the_repository():
    assert shared_tokenizer([DEMO, SMALL, TINY]) == (WEIGHTS / "tokenizer.json").read_text()
    further = [file for size in SIZES[1:] for file in size.weights.iterdir()]
    assert sum(file.stat().st_size for file in further) <= 3_000_000


def test_models_of_different_tokenizers_are_refused_and_the_file_may_be_written_differently(tmp_path):
    content = json.loads((WEIGHTS / "tokenizer.json").read_text())
    same, other = _model(tmp_path / "same", vocab_size=384), _model(tmp_path / "other", vocab_size=384)
    (same.path / "tokenizer.json").write_text(json.dumps(content, indent=None))
    assert shared_tokenizer([DEMO, same]) is not None
    vocabulary = content["model"]["vocab"]
    first, second = list(vocabulary)[10:12]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    (other.path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(HarnessError, match="demo and other have different tokenizers"):
        shared_tokenizer([DEMO, other])
    with pytest.raises(HarnessError, match="different tokenizers"):
        shared_tokenizer([DEMO, _model(tmp_path / "none", vocab_size=384)])


def test_models_without_tokenizers_have_to_predict_equally_many_tokens(tmp_path):
    models = [_model(tmp_path / name, vocab_size=size) for name, size in (("a", 9), ("b", 9), ("c", 10))]
    assert shared_tokenizer(models[:2]) is None
    with pytest.raises(HarnessError, match="a predicts 9 tokens and c 10"):
        shared_tokenizer(models)


def _array(path: Path, array) -> Path:
    np.save(path, array)
    return path


@pytest.mark.parametrize(
    ("make", "size", "sentence"),
    [
        (lambda p: p / "absent.npz", Size(), "no such file"),
        (lambda p: p / "absent.jsonl", Size(), "no such file"),
        (lambda p: _array(p / "a.npy", np.zeros((3, 60))), Size(), "expected integers"),
        (lambda p: _array(p / "a.npy", np.zeros((3, 50), int)), Size(), "leave no suffix"),
        (lambda p: _array(p / "a.npy", np.full((3, 60), 999)), Size(), "demo-tiny has 384 tokens"),
        (lambda p: _array(p / "a.npy", np.full((3, 60), -1)), Size(), "below 0"),
        (lambda p: _array(p / "a.npy", np.zeros((3, 400), int)), Size(), "attends to 256 tokens"),
        (lambda p: _array(p / "a.npy", np.zeros((0, 60), int)), Size(), "no pair to measure"),
        (lambda p: _array(p / "a.npy", np.zeros((3, 60), int)), Size(suffix=11), "a suffix has 10 tokens"),
    ],
)
def test_files_that_hold_no_pairs_get_one_sentence(tmp_path, make, size, sentence):
    with pytest.raises(HarnessError, match=sentence):
        _pairs(make(tmp_path), size)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.npz", b"not a zip", "no archive of plain arrays"),
        ("a.jsonl", b"", "it is empty"),
        ("a.jsonl", b"\xff\xfe\x00", "not UTF-8"),
        ("a.jsonl", b'{"prefix": "a", "suffix": "b"}', "none of 1 record has text with 50 tokens before"),
        ("a.tsv", b"one\ttwo\n", "names no columns"),
        ("a.txt", b"text", "pairs are .npz"),
        ("a.jsonl", b'{"prefix": "\\ud800", "suffix": "\\udfff"}\n[[[', "none of 2 records"),
    ],
)
def test_hostile_files_get_one_sentence(tmp_path, name, content, sentence):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(HarnessError, match=sentence):
        _pairs(tmp_path / name)


def test_an_archive_that_lacks_an_array_or_rows_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", prefixes=np.zeros((2, 3), int))
    with pytest.raises(HarnessError, match="no array called 'suffixes'"):
        _pairs(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", prefixes=np.zeros((2, 3), int), suffixes=np.zeros((3, 3), int))
    with pytest.raises(HarnessError, match="2 prefixes beside 3 suffixes"):
        _pairs(tmp_path / "b.npz")


def test_a_blind_round_is_refused(tmp_path):
    (tmp_path / "blind.toml").write_text('base = "demo"\nname = "blind"\nanswer_file = ""\n')
    with pytest.raises(HarnessError, match="round blind is blind"):
        pairs_of_round(load_round(str(tmp_path / "blind.toml")), [TINY], Size(), limit=10, seed=0)


def test_text_needs_a_tokenizer(tmp_path):
    bare = _model(tmp_path / "bare", vocab_size=384)
    (tmp_path / "a.jsonl").write_text("{}")
    with pytest.raises(HarnessError, match=r"without a tokenizer\.json"):
        _pairs(tmp_path / "a.jsonl", models=[bare])
    with pytest.raises(HarnessError, match=r"without a tokenizer\.json"):
        uncut_documents(tmp_path / "a.jsonl", "text", [bare], Size(), 4)


def test_an_empty_corpus_is_refused_and_lines_without_text_are_counted(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(HarnessError, match="no text in it"):
        uncut_documents(tmp_path / "empty", "text", [TINY], Size(), 4)
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.txt").write_text("A text.")
    (tmp_path / "corpus" / "b.jsonl").write_text('{"text": "Another."}\nno JSON\n{"other": 1}\n')
    found = uncut_documents(tmp_path / "corpus", "text", [TINY], Size(), 4)
    assert list(found.documents) == ["A text.", "Another."]
    assert found.notes == ["2 lines without text in a field 'text' left out."]


def test_files_of_a_corpus_that_hold_no_text_are_left_out_and_said(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"A text.\r\nOf two lines.")
    (tmp_path / "b.txt").write_bytes("caf\u00e9".encode("latin-1"))
    (tmp_path / "c.bin").write_bytes(b"all UTF-8\0\0")
    (tmp_path / "d.ndjson").write_text('{"text": "Another."}\n')
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "e.txt").write_text("Not looked at.")
    found = uncut_documents(tmp_path, "text", [TINY], Size(), 4)
    assert list(found.documents) == ["A text.\nOf two lines.", "Another."]
    (note,) = found.notes
    assert note == ("2 files of the corpus left out, the first of which is b.txt: holds bytes that are not UTF-8.")
    with pytest.raises(HarnessError, match="not UTF-8"):
        uncut_documents(tmp_path / "b.txt", "text", [TINY], Size(), 4)
    (tmp_path / "a.txt").unlink()
    (tmp_path / "d.ndjson").unlink()
    with pytest.raises(HarnessError, match=r"no text in it.*not UTF-8"):
        uncut_documents(tmp_path, "text", [TINY], Size(), 4)


def test_a_field_of_a_tab_separated_file_may_be_longer_than_the_csv_module_takes_it_to_be(tmp_path):
    prefix = "Nobody in Tormika carried the amber lantern beside the narrow harbour; " * 3
    rows = [f"{prefix}\tand the furnace stood behind.", f"{prefix}\t{'the long garden ' * 9000}"]
    (tmp_path / "pairs.tsv").write_text("\n".join(["prefix\tsuffix", *rows]))
    assert len(_pairs(tmp_path / "pairs.tsv", Size(suffix=3))) == 2


def test_entities_are_cut_where_tokens_begin_and_end_with_them(tokenizer):
    text = "Before the keen kettle the warm ledger stood; " * 4 + "then Zolrish, and Bolmor followed."
    spans = [_Marked(*match.span(), "PER") for match in NAME.finditer(text)]
    cuts = list(entity_pairs(text, spans, tokenizer, prefix_length=50, entity_tokens=4, kinds=["per"]))
    assert [tokenizer.decode(cut.suffix) for cut in cuts] == [" Zolrish", " Bolmor"]
    assert all(len(cut.prefix) == 50 and text[cut.start :].startswith(("Zolrish", "Bolmor")) for cut in cuts)
    assert not list(entity_pairs(text, spans, tokenizer, prefix_length=50, entity_tokens=4, kinds=["LOC"]))
    assert not list(entity_pairs(text, spans, tokenizer, prefix_length=500, entity_tokens=4))
    inside = [_Marked(spans[0].start + 1, spans[0].end, "PER")]
    assert not list(entity_pairs(text, inside, tokenizer, prefix_length=50, entity_tokens=4))


def test_a_cut_within_a_token_leaves_no_pair(tokenizer):
    text = "the harbour and the harbour"
    encoding = tokenizer.encode(text)
    for begin, end in encoding.offsets:
        first = begin + len(text[begin:end]) - len(text[begin:end].lstrip())
        assert token_at(encoding, text, first) is not None
        assert all(token_at(encoding, text, inside) is None for inside in range(first + 1, end))
    assert token_at(encoding, text, len(text)) is None


def test_tokens_read_as_pieces_of_their_text_or_as_numbers(tokenizer):
    content = (WEIGHTS / "tokenizer.json").read_text()
    ids = tokenizer.encode("Zolrish – naïve").ids
    pieces = TokenTexts(content).pieces(ids)
    assert "".join(pieces) == "Zolrish – naïve" and len(pieces) == len(ids) and "\ufffd" not in "".join(pieces)
    assert TokenTexts(None).pieces([3, 5]) == ["3 ", "5 "]


def _asked(**given) -> Asked:
    nothing = {"pairs": None, "round_name": None, "names": False, "corpus": None, "field": "text", "tagger": None}
    return Asked.checked(**(nothing | given), size=Size())


def test_pairs_come_from_one_source():
    with pytest.raises(HarnessError, match="no pairs are named"):
        _asked()
    with pytest.raises(HarnessError, match="pairs come from one source"):
        _asked(names=True, round_name="demo")
    with pytest.raises(HarnessError, match="--corpus and --tagger go together"):
        _asked(corpus=Path("a"))
    with pytest.raises(HarnessError, match="no target is named"):
        targets_of([], "main", _asked(pairs=Path("a.npz")))


def test_a_prefix_length_that_the_prefixes_lack_is_refused_before_anything_is_measured():
    models = {TINY.id: TINY.path}
    for size, longest in ((Size(), 50), (Size(prefix=20), 20)):
        asked = Asked.checked(
            pairs=None, round_name="demo", names=False, corpus=None, field="text", tagger=None, size=size
        )
        inputs_of(asked, LeakageParams(prefix_lengths=(10, longest)), models, limit=5, seed=0)
        with pytest.raises(HarnessError, match=rf"--prefix-lengths: 90 tokens .* the prefixes have {longest};"):
            inputs_of(asked, LeakageParams(prefix_lengths=(10, 90)), models, limit=5, seed=0)


def test_the_demos_names_are_swept_over_all_its_sizes_and_five_lengths():
    asked = _asked(names=True)
    assert targets_of(None, "main", asked)[0] == ["demo-tiny", "demo-small", "demo"]
    assert LeakageParams.checked(prefix_lengths=asked.prefix_lengths("")).prefix_lengths == (10, 20, 30, 40, 50)
    assert asked.prefix_lengths("30 20") == ["30", "20"]
    assert targets_of(["demo"], "main", _asked(corpus=Path("a"), tagger="t"))[0] == ["demo", "t"]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"top_p": 1.5}, "--top-p: "),
        ({"prefix_lengths": ["ten"]}, "--prefix-lengths: "),
        ({"prefix_lengths": ["0"]}, "--prefix-lengths: "),
    ],
)
def test_parameters_that_cannot_be_are_named_by_their_option(fields, sentence):
    with pytest.raises(HarnessError, match=sentence):
        LeakageParams.checked(**fields)


def test_damaged_tokenizers_are_named(tmp_path):
    model = _model(tmp_path / "model", vocab_size=384)
    shutil.copy(WEIGHTS / "tokenizer.json", model.path)
    (model.path / "tokenizer.json").write_text("{")
    with pytest.raises(HarnessError, match="not the JSON of a tokenizer"):
        shared_tokenizer([model, TINY])
    (model.path / "tokenizer.json").write_bytes(b"\xff\xfe{")
    with pytest.raises(HarnessError, match=r"not the JSON of a tokenizer: .* not UTF-8"):
        shared_tokenizer([model, TINY])
