"""Cutting arrays out of a small invented Pile with both kinds of pointers."""

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from harness.core.errors import HarnessError
from harness.data.catalog import Split
from harness.data.pile import cut_rows, load_tokenizer, write_split
from harness.data.pointers import read_pointers

WORDS = ["naïve", "signal", "copper", "ledger", "river", "amount", "due", "Ω", "north", "seven", "total", "invoice"]


def invented_text(seed, words=900):
    return " ".join(np.random.default_rng(seed).choice(WORDS, words))


@pytest.fixture(scope="module")
def tokenizer():
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(
        [invented_text(99)], trainers.BpeTrainer(vocab_size=330, initial_alphabet=alphabet, show_progress=False)
    )
    return bpe


class Pile:
    """A folder of two JSONL files and the offset of each document in its file."""

    def __init__(self, folder):
        self.folder = folder
        self.texts = {(file, line): invented_text(10 * file + line) for file in range(2) for line in range(3)}
        self.offsets = {}
        for file in range(2):
            with (folder / f"{file:02d}.jsonl").open("wb") as output:
                for line in range(3):
                    self.offsets[file, line] = output.tell()
                    document = {"text": self.texts[file, line], "meta": {"pile_set_name": "invented"}}
                    output.write(json.dumps(document).encode() + b"\n")

    def pointers(self, *rows):
        """Write pointers to a CSV and read them back.

        Each row is the example, (file, line) and the columns from the start byte to the end token.
        """
        path = self.folder / "pointers.csv"
        lines = [[example, place[0], self.offsets[place], *rest, -1] for example, place, *rest in rows]
        path.write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
        return read_pointers(path)


@pytest.fixture
def pile(tmp_path):
    return Pile(tmp_path)


def ignore_progress(done):
    """Ignore the progress."""


BY_TOKENS = (-1, -1, -1, -1, -1, 200)


def test_a_token_pointer_selects_tokens_of_the_whole_document(pile, tokenizer):
    pointers = pile.pointers((7, (1, 2), *BY_TOKENS, 11, 211))
    rows = cut_rows(pile.folder, pointers, tokenizer, ignore_progress)
    assert rows.dtype == np.uint16
    assert rows.tolist() == [tokenizer.encode(pile.texts[1, 2]).ids[11:211]]


def test_a_byte_pointer_drops_incomplete_characters(pile, tokenizer):
    text = pile.texts[0, 1].encode()
    start = text.index("ï".encode()) + 1  # inside a character of two bytes
    end = start + 1500
    rows = cut_rows(
        pile.folder, pile.pointers((0, (0, 1), start, end, 0, 0, 0, 200, -1, -1)), tokenizer, ignore_progress
    )
    assert rows.tolist() == [tokenizer.encode(text[start:end].decode("utf-8", "ignore")).ids[:200]]


def test_surrounding_bytes_and_internal_offset_move_the_cut(pile, tokenizer):
    text = pile.texts[0, 2].encode()
    rows = cut_rows(
        pile.folder, pile.pointers((0, (0, 2), 300, 1700, 50, 40, 11, 200, -1, -1)), tokenizer, ignore_progress
    )
    assert rows.tolist() == [tokenizer.encode(text[250:1740].decode("utf-8", "ignore")).ids[11:211]]


def test_an_empty_cut_is_retried_with_a_letter_in_front(pile, tokenizer):
    text = pile.texts[0, 0].encode()
    rows = cut_rows(
        pile.folder, pile.pointers((0, (0, 0), 10, 1700, 50, 0, 0, 200, -1, -1)), tokenizer, ignore_progress
    )
    assert text[10 - 50 : 1700] == b""
    assert rows.tolist() == [tokenizer.encode("z" + text[10:1700].decode("utf-8", "ignore")).ids[1:201]]


def test_rows_are_ordered_by_example_id(pile, tokenizer):
    places = [(30, (1, 0)), (2, (0, 2)), (11, (0, 0))]
    pointers = pile.pointers(*((example, place, *BY_TOKENS, 0, 200) for example, place in places))
    rows = cut_rows(pile.folder, pointers, tokenizer, ignore_progress)
    assert rows.tolist() == [tokenizer.encode(pile.texts[place]).ids[:200] for _, place in sorted(places)]


def test_arrays_are_written_only_with_the_right_md5(pile, tokenizer, tmp_path):
    rows = cut_rows(pile.folder, pile.pointers((0, (0, 0), *BY_TOKENS, 0, 200)), tokenizer, ignore_progress)
    out = tmp_path / "out"
    with pytest.raises(HarnessError, match="official one is 0000"):
        write_split(Split("small", 1, "0" * 32), rows, out)
    assert not out.exists()
    write_split(Split("small", 1, hashlib.md5(rows.tobytes()).hexdigest()), rows, out)
    parts = [np.load(out / f"small_{part}.npy") for part in ("preprefix", "prefix", "suffix")]
    assert [part.shape for part in parts] == [(1, 100), (1, 50), (1, 50)]
    assert np.concatenate(parts, axis=1).tolist() == rows.tolist()


def error_of(pile, tokenizer, pointers):
    with pytest.raises(HarnessError) as caught:
        cut_rows(pile.folder, pointers, tokenizer, ignore_progress)
    return str(caught.value)


def test_a_different_copy_of_the_pile_is_refused(pile, tokenizer):
    pointers = pile.pointers((0, (0, 1), *BY_TOKENS, 0, 200))
    shifted = (pile.folder / "00.jsonl").read_bytes()
    (pile.folder / "00.jsonl").write_bytes(b'{"text": 3}\n' + shifted)
    assert "different copy" in error_of(pile, tokenizer, pointers)
    (pile.folder / "00.jsonl").write_bytes(b'{"text": "short"}\n')
    assert "beyond the end" in error_of(pile, tokenizer, pointers)


def test_an_offset_beyond_any_file_is_refused(pile, tokenizer):
    (pointer,) = pile.pointers((0, (0, 0), *BY_TOKENS, 0, 200))
    assert "beyond the end" in error_of(pile, tokenizer, [pointer._replace(line_offset=2**62)])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": "too short"}\n', "tokens instead of 200"),
        (b'{"text": "\\ud800 alone"}\n', "not Unicode"),
        (b'{"text": 3}\n', "has no text"),
        (b"[" * 100_000 + b"\n", "no line of JSON"),
        (b"\xff\xfe\n", "no line of JSON"),
    ],
)
def test_an_invalid_document_is_refused(pile, tokenizer, line, reason):
    pointers = pile.pointers((0, (0, 0), *BY_TOKENS, 0, 200))
    (pile.folder / "00.jsonl").write_bytes(line)
    with pytest.raises(HarnessError, match=reason):
        cut_rows(pile.folder, pointers, tokenizer, ignore_progress)


def test_a_compressed_pile_is_recognized(pile, tokenizer):
    pointers = pile.pointers((0, (0, 0), *BY_TOKENS, 0, 200))
    (pile.folder / "00.jsonl").rename(pile.folder / "00.jsonl.zst")
    assert "Unpack 00.jsonl.zst" in error_of(pile, tokenizer, pointers)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1,2,3", "number of columns changed"),
        ("1,0,np.int64(3),0,5,0,0,0,200,-1,-1,-1", "could not convert string 'np.int64"),
        ("1,0,-3,0,5,0,0,0,200,-1,-1,-1", "line 2: an example, a file or an offset is negative"),
        ("9" * 300 + ",0,3,9,5,0,0,0,200,-1,-1,-1", "could not convert string"),
        ("4,0,3,0,5,0,0,0,200,-1,-1,-1", "contains example 4 more than once"),
    ],
)
def test_a_faulty_pointer_is_refused(tmp_path, line, reason):
    path = tmp_path / "pointers.csv"
    path.write_text(f"4,0,3,0,5,0,0,0,200,-1,-1,-1\n{line}\n")
    with pytest.raises(HarnessError, match=reason) as caught:
        read_pointers(path)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)


def test_lines_without_twelve_integers_are_refused(tmp_path):
    (path := tmp_path / "pointers.csv").write_text("1,2,3\n")
    with pytest.raises(HarnessError, match="expected lines of 12 integers, found 1 lines of 3"):
        read_pointers(path)


@pytest.mark.parametrize("positions", [(0, 3, 0, 0, 0, 999999, -1, -1), (9, 5, 0, 0, 0, 200, -1, -1)])
def test_a_pointer_must_select_200_tokens(pile, tokenizer, positions):
    assert "tokens instead of 200" in error_of(pile, tokenizer, pile.pointers((1, (0, 0), *positions)))


@given(st.binary(max_size=300))
def test_any_bytes_are_pointers_or_a_one_line_error(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("pointers") / "pointers.csv"
    path.write_bytes(content)
    try:
        assert read_pointers(path)
    except HarnessError as error:
        assert "\n" not in str(error)


def test_a_tokenizer_is_loaded_from_a_file_or_a_directory(tokenizer, tmp_path):
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    for place in (tmp_path, tmp_path / "tokenizer.json"):
        assert load_tokenizer(place).encode("river").ids == tokenizer.encode("river").ids
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(HarnessError, match="not a tokenizer"):
        load_tokenizer(tmp_path)
    with pytest.raises(HarnessError, match="does not exist"):
        load_tokenizer(tmp_path / "absent.json")
