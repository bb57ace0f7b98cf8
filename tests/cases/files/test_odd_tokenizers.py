"""A tokenizer.json that needs much memory for a short text, or makes its library fail, is refused in one sentence."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer as LibraryTokenizer
from tokenizers import models

from harness.analysis.decoded_text import TokenText
from harness.core.errors import HarnessError
from harness.core.tokenizers import Tokenizer, load_tokenizer, parse_tokenizer
from harness.demo import WEIGHTS

LONG = "x" * 50_000
LONG_TABLE = base64.b64encode((4).to_bytes(4, "little") + bytes(4) + LONG.encode()).decode()


def _replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def _nested(kind: str, field: str, steps: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": kind, field: [{"type": kind, field: [step]} for step in steps]}


def _tokenizer(content: dict[str, Any], folder: Path) -> Tokenizer:
    file = folder / "tokenizer.json"
    file.write_text(json.dumps(content))
    return load_tokenizer(file)


def _content(**parts: Any) -> dict[str, Any]:
    return {**json.loads((WEIGHTS / "tokenizer.json").read_text()), **parts}


def _with_model(**fields: Any) -> dict[str, Any]:
    content = _content()
    content["model"].update(fields)
    return content


def _unigram() -> dict[str, Any]:
    vocabulary = [[f"{number:04}" * 4_000, 0.0] for number in range(600)]
    return _content(model={"type": "Unigram", "unk_id": 0, "vocab": vocabulary}, added_tokens=[])


def _added(content: str) -> list[dict[str, Any]]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return [{"id": 384, "content": content, "special": True, **flags}]


def _template(number: int) -> dict[str, Any]:
    tokens = {"id": "[B]", "ids": [0] * number, "tokens": ["b"] * number}
    single = [{"SpecialToken": {"id": "[B]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    return {"type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": {"[B]": tokens}}


DOUBLED = [_replace({"String": letter}, 2 * letter) for letter in 11 * "a"]
REFUSED: dict[str, Callable[[], dict[str, Any]]] = {
    "decoder, long content": lambda: _content(decoder=_replace({"String": "a"}, LONG)),
    "decoder, empty pattern": lambda: _content(decoder=_replace({"String": ""}, 600 * "b")),
    "decoder, expression": lambda: _content(decoder=_replace({"Regex": "b*"}, 600 * "b")),
    "decoder, chain": lambda: _content(decoder={"type": "Sequence", "decoders": DOUBLED}),
    "decoder, nested chain": lambda: _content(decoder=_nested("Sequence", "decoders", DOUBLED)),
    "normalizer, long content": lambda: _content(normalizer=_replace({"String": "a"}, LONG)),
    "normalizer, prefix": lambda: _content(normalizer={"type": "Prepend", "prepend": LONG}),
    "normalizer, table": lambda: _content(normalizer={"type": "Precompiled", "precompiled_charsmap": LONG_TABLE}),
    "normalizer, forms": lambda: _content(
        normalizer={
            "type": "Sequence",
            "normalizers": 3 * [_replace({"String": "a"}, "\ufdfa"), {"type": "NFKD"}],
        }
    ),
    "normalizer, nested chain": lambda: _content(normalizer=_nested("Sequence", "normalizers", DOUBLED)),
    "pre-tokenizer, bytes of bytes": lambda: _content(
        pre_tokenizer={
            "type": "Sequence",
            "pretokenizers": 11
            * [{"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}],
        }
    ),
    "long added token": lambda: _content(added_tokens=[*_content()["added_tokens"], *_added(LONG)]),
    "long token": lambda: _with_model(vocab={**_content()["model"]["vocab"], LONG: 384}),
    "long unknown token": lambda: _with_model(
        unk_token=LONG[:9_000], vocab={**_content()["model"]["vocab"], LONG[:9_000]: 384}
    ),
    "long prefix of words": lambda: _with_model(end_of_word_suffix=LONG),
    "many special tokens": lambda: _content(post_processor=_template(20_000)),
    "large Unigram model": _unigram,
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_a_tokenizer_that_makes_much_of_little_is_refused(make: Callable[[], dict[str, Any]], tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"^(refused tokenizer|not a tokenizer\.json): .*tokenizer\.json \(.*\)\."):
        _tokenizer(make(), tmp_path)


def test_equal_contents_differ_in_their_place_and_in_how_they_are_read() -> None:
    text, refused = json.dumps(_content()), json.dumps(_unigram())
    as_text, as_token, again = (
        parse_tokenizer(text, "a", reads_special_tokens=reads) for reads in (False, True, False)
    )
    assert len(as_text.encode("<|endoftext|>").ids) == len(again.encode("<|endoftext|>").ids) > 1
    assert len(as_token.encode("<|endoftext|>").ids) == 1
    for where in ("a", "b"):
        with pytest.raises(HarnessError, match=f"^refused tokenizer: {where} "):
            parse_tokenizer(refused, where)


def test_a_part_that_stands_twice_is_refused(tmp_path: Path) -> None:
    # The library would read both, and Python's parser the second alone.
    model = json.dumps(_unigram()["model"])
    text = json.dumps(_content()).replace('"model":', f'"model": {model}, "model":', 1)
    with pytest.raises(HarnessError, match="occurs twice"):
        parse_tokenizer(text, "tokenizer.json")


USUAL: dict[str, dict[str, Any]] = {
    "byte level": {},
    "Llama": {
        "normalizer": {
            "type": "Sequence",
            "normalizers": [{"type": "Prepend", "prepend": "▁"}, _replace({"String": " "}, "▁")],
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                _replace({"String": "▁"}, " "),
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
    },
    "ALBERT": {
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                _replace({"String": "``"}, '"'),
                _replace({"String": "''"}, '"'),
                *({"type": name} for name in ("NFKD", "StripAccents", "Lowercase")),
                _replace({"Regex": " {2,}"}, " "),
            ],
        }
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("parts", USUAL.values(), ids=USUAL)
def test_usual_tokenizers_read_a_long_book(parts: dict[str, Any], tmp_path: Path) -> None:
    tokenizer = _tokenizer(_content(**parts), tmp_path)
    assert len(tokenizer.encode(50_000 * "It was the best of times. ", add_special_tokens=False).ids) > 50_000


FAILING: dict[str, dict[str, Any]] = {
    "panic of a decoder": {"decoder": {"type": "Strip", "content": "a", "start": 0, "stop": 5}},
    "expression without end": {
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"Regex": "(a+)+b"},
            "behavior": "Isolated",
            "invert": False,
        }
    },
}


@pytest.mark.parametrize("parts", FAILING.values(), ids=FAILING)
def test_a_failure_of_the_library_is_one_sentence(parts: dict[str, Any], tmp_path: Path) -> None:
    tokenizer = _tokenizer(_content(**parts), tmp_path)
    with pytest.raises(HarnessError, match=r"^the tokenizer fails: .*tokenizer\.json \(.*\)\. Choose another model\.$"):
        tokenizer.decode(tokenizer.encode(3_000 * "a").ids[:1] * 3, skip_special_tokens=False)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("AAAA////", "its table of characters is cut short"),
        ("", r"not a tokenizer\.json"),
        ("AA", r"not a tokenizer\.json"),
    ],
)
def test_a_table_that_the_library_cannot_read_is_one_sentence(tmp_path: Path, table: str, says: str) -> None:
    normalizer = {"type": "Precompiled", "precompiled_charsmap": table}
    with pytest.raises(HarnessError, match=says):
        _tokenizer(_content(normalizer=normalizer), tmp_path).encode("some text")


def test_a_word_that_the_model_cannot_encode_is_one_sentence() -> None:
    library = LibraryTokenizer(models.WordLevel({"a": 0}, unk_token="[UNK]"))
    with pytest.raises(HarnessError, match="the tokenizer fails"):
        parse_tokenizer(library.to_str(), "tokenizer.json").encode("b")


def test_rows_of_the_longest_tokens_are_decoded_in_parts_and_refused(tmp_path: Path) -> None:
    # A token of 16,000 characters is decoded. A table of them would be larger than the memory.
    longest = LONG[:16_000]
    content = _content(added_tokens=[*_content()["added_tokens"], *_added(longest)], decoder=None)
    tokenizer = _tokenizer(content, tmp_path)
    number = tokenizer.token_to_id(longest)
    assert TokenText(tmp_path / "tokenizer.json").text([number]) == longest
    with pytest.raises(HarnessError, match="it may make more than"):
        TokenText(tmp_path / "tokenizer.json").texts(np.full((100_000, 50), number))
    with pytest.raises(HarnessError, match="it may make more than"):
        tokenizer.decode([number] * 3_000, skip_special_tokens=False)


def test_a_novel_is_decoded_at_once() -> None:
    vocabulary = {"a": 0, "-" * 256: 1}
    library = LibraryTokenizer(models.WordLevel(vocabulary, unk_token="a"))
    tokenizer = parse_tokenizer(library.to_str(), "tokenizer.json")
    assert len(tokenizer.decode([0] * 1_000_000)) >= 1_000_000


def test_decoding_in_parts_changes_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(1).integers(0, 384, (30, 20)).tolist()
    tokenizer = load_tokenizer(WEIGHTS / "tokenizer.json")
    whole = tokenizer.decode_batch(rows, skip_special_tokens=False)
    library = LibraryTokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
    assert whole == library.decode_batch(rows, skip_special_tokens=False)
    monkeypatch.setattr("harness.core.tokenizers._MAX_CHARACTERS", 4_000)
    assert tokenizer.decode_batch(rows, skip_special_tokens=False) == whole
    assert tokenizer.decode_batch([], skip_special_tokens=False) == []
