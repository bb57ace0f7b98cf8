"""`harness occurrences` on guesses, completions, texts and tokens, compared with a search without an index."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from tokenizers import Tokenizer

from harness.core.examples import load_answers, load_prefixes
from harness.core.rounds import load_round
from harness.core.submission import write_submission
from harness.demo import CORPUS, WEIGHTS
from tests.functional.corpus_index import build_index, longest_of, places_of, windows_of
from tests.functional.machine import EXAMPLES, ROOT, Machine
from tests.unit.cli.test_json import check

DEMO_DOCUMENTS = 300
HOSTILE = "\x1b]0;owned\x07 \u202e"


@pytest.fixture(scope="module")
def demo_tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))


@pytest.fixture(scope="module")
def demo_texts() -> list[str]:
    texts: list[str] = json.loads(CORPUS.read_text())[:DEMO_DOCUMENTS]
    return texts


@pytest.fixture(scope="module")
def demo_shards(demo_texts: list[str], demo_tokenizer: Tokenizer) -> list[list[list[int]]]:
    ids = [encoding.ids for encoding in demo_tokenizer.encode_batch(demo_texts, add_special_tokens=False)]
    return [ids[::2], ids[1::2]]


@pytest.fixture(scope="module")
def demo_index(demo_shards: list[list[list[int]]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of documents of the demo corpus, in the tokens of the demo target."""
    return build_index(tmp_path_factory.mktemp("demo") / "index", demo_shards)


@pytest.fixture
def guesses(machine: Machine) -> tuple[Path, list[list[Any]]]:
    """A submission for the round of the machine, and the documents of a corpus.

    The corpus contains the first 20 examples whole. Of the next 10 it contains the guessed suffix, which is wrong. Of
    the others it contains at most the first half of the guess.
    """
    round_ = load_round(str(machine.folder / "round.toml"))
    prefixes, answers = load_prefixes(round_), load_answers(round_)
    assert answers is not None
    guessed = answers.copy()
    guessed[20:] = guessed[20:, ::-1]
    documents = [
        *np.concatenate([prefixes[:20], answers[:20]], axis=1),
        *np.concatenate([answers[20:30], guessed[20:30], guessed[20:30]], axis=1),
        *guessed[30:40, :4],
    ]
    path = machine.folder / "guesses.csv"
    write_submission(path, np.arange(EXAMPLES), guessed)
    return path, [documents]


def test_guesses_are_counted_and_split_into_right_and_wrong(
    machine: Machine, guesses: tuple[Path, list[list[Any]]]
) -> None:
    submission, shards = guesses
    build_index(machine.folder / "index", shards)
    found = machine.json(
        *("occurrences", str(submission), "--round", "round.toml", "--index", "index", "--out", "rows.parquet")
    )
    check(found, "`harness occurrences`")
    assert (found["kind"], found["min_tokens"]) == ("guess", 8)
    right, wrong = found["groups"]["right"], found["groups"]["wrong"]
    assert (right["whole"]["number"], right["with_prefix"]["number"], right["whole"]["of"]) == (20, 20, 20)
    assert (wrong["whole"]["number"], wrong["with_prefix"]["number"], wrong["whole"]["of"]) == (10, 0, 44)
    assert 0 < wrong["whole"]["low"] < 10 / 44 < wrong["whole"]["high"] < 1
    assert found["all"]["distinct_windows"] == 30
    assert [row["name"] for row in found["notable"]] == [str(example) for example in range(20, 30)]
    assert all(row["count"] == 2 for row in found["notable"])
    round_ = load_round(str(machine.folder / "round.toml"))
    prefixes = load_prefixes(round_)
    rows = pyarrow.parquet.read_table(machine.folder / "rows.parquet").to_pylist()
    ids, suffixes = zip(*_submitted(submission), strict=True)
    for row, example, suffix in zip(rows, ids, suffixes, strict=True):
        places = places_of(shards, suffix)
        longest = longest_of(shards, suffix)
        assert row["name"] == str(example)
        assert row["count"] == len(places)
        assert row["count_with_prefix"] == len(places_of(shards, [*prefixes[example], *suffix]))
        assert (row["longest_start"], row["longest"]) == longest
        if longest.length:
            of_longest = {place.label for place in places_of(shards, suffix[longest.start : longest.end])}
            assert set(row["places"].split()) <= of_longest
        assert bool(row["places"]) is bool(longest.length)


def _submitted(path: Path) -> list[tuple[int, list[int]]]:
    rows = list(csv.reader(path.read_text().splitlines()))[1:]
    return [(int(id_), json.loads(suffix)) for id_, suffix in rows]


def test_a_run_gives_the_rows_of_its_submission(machine: Machine, guesses: tuple[Path, list[list[Any]]]) -> None:
    submission, shards = guesses
    build_index(machine.folder / "index", shards)
    run = machine.attack("replay", "--set", f"source={submission}")
    of_run = machine.json("occurrences", run["id"], "--index", "index")
    of_file = machine.json("occurrences", run["submission"], "--round", "round.toml", "--index", "index")
    assert of_run["all"]["whole"]["number"] == 30
    assert {**of_run, "source": ""} == {**of_file, "source": ""}
    shown = machine.run("occurrences", run["id"], "--index", "index").stdout
    assert "Wrong guesses that the corpus contains" in shown
    assert "10, 22.7 % [12.8 %, 37.0 %]" in shown


def test_a_blind_round_has_no_groups(machine: Machine, guesses: tuple[Path, list[list[Any]]]) -> None:
    submission, shards = guesses
    build_index(machine.folder / "index", shards)
    (machine.folder / f"answer-{EXAMPLES}.npy").unlink()
    found = machine.json("occurrences", str(submission), "--round", "round.toml", "--index", "index")
    assert found["groups"] == {}
    assert found["all"]["whole"]["number"] == 30
    assert found["notable"][0]["longest"] == 8


def test_texts_are_tokenized_and_compared_with_a_plain_search(
    machine: Machine,
    demo_index: Path,
    demo_shards: list[list[list[int]]],
    demo_texts: list[str],
    demo_tokenizer: Tokenizer,
) -> None:
    texts = [demo_texts[3][:400], f"{demo_texts[8][:120]} and then {demo_texts[9][40:300]}", demo_texts[0][::-1], "few"]
    texts += [demo_texts[5], demo_texts[5]]
    lines = [json.dumps({"body": text, "other": 1}) for text in texts]
    (machine.folder / "texts.jsonl").write_text("\n".join([*lines, '{"other": 2}']) + "\n")
    command = ("occurrences", "texts.jsonl", "--index", str(demo_index), "--tokenizer", "demo", "--field", "body")
    machine.run(*command, "--min-tokens", "20", "--out", "rows.csv")
    found = machine.json(*command, "--min-tokens", "20")
    rows = list(csv.DictReader((machine.folder / "rows.csv").read_text().splitlines()))
    windows: set[tuple[int, ...]] = set()
    verbatim = 0
    for row, text in zip(rows, texts, strict=True):
        ids = demo_tokenizer.encode(text, add_special_tokens=False).ids
        starts = windows_of(demo_shards, ids, 20)
        windows |= {tuple(ids[start : start + 20]) for start in starts}
        verbatim += bool(starts)
        assert int(row["tokens"]) == len(ids)
        assert int(row["count"]) == len(places_of(demo_shards, ids))
        assert (int(row["longest_start"]), int(row["longest"])) == longest_of(demo_shards, ids)
        assert int(row["windows"]) == len(starts)
        assert row["is_verbatim"] == ("true" if starts else "false")
    assert [row["name"] for row in rows] == [f"texts.jsonl:{line}" for line in range(1, 7)]
    assert found["all"]["distinct_windows"] == len(windows) > 0
    assert (found["all"]["verbatim"]["number"], found["all"]["verbatim"]["of"]) == (verbatim, 5)
    assert found["all"]["too_short"] == 1
    assert found["all"]["with_prefix"] is None
    assert found["notable"][0]["longest_text"] == rows[found["notable"][0]["row"]]["longest_text"]


def test_rows_of_tokens_need_no_tokenizer(
    machine: Machine, demo_index: Path, demo_shards: list[list[list[int]]]
) -> None:
    rows = np.array([demo_shards[0][0][:60], demo_shards[1][1][:60], [7] * 60], np.uint16)
    np.save(machine.folder / "rows.npy", rows)
    found = machine.json("occurrences", "rows.npy", "--index", str(demo_index))
    assert found["all"]["whole"]["number"] == 2
    assert found["all"]["distinct_windows"] == 22
    assert found["min_tokens"] == 50
    assert found["notable"][0]["text"].split() == [str(token) for token in rows[0]]
    named = machine.json("occurrences", "rows.npy", "--index", str(demo_index), "--tokenizer", "demo")
    assert named["notable"][0]["text"][:20] != found["notable"][0]["text"][:20]


def test_an_index_of_bytes_needs_no_tokenizer(machine: Machine) -> None:
    documents = ["Grüße aus dem Wald, wo die Bäume stehen.", "Nothing else is here but this sentence, which is long."]
    shards = [[np.frombuffer(text.encode(), np.uint8) for text in documents]]
    build_index(machine.folder / "index", shards, "<u1")
    (machine.folder / "text.txt").write_text("Er schrieb: Grüße aus dem Wald, wo die")
    found = machine.json("occurrences", "text.txt", "--index", "index", "--min-tokens", "20")
    (row,) = found["notable"]
    assert found["unit"] == "byte"
    assert (row["longest"], row["longest_text"]) == (len(" Grüße aus dem Wald, wo die".encode()) - 1, documents[0][:26])


def test_text_is_made_safe_for_the_terminal_and_redacted_on_request(
    machine: Machine, demo_tokenizer: Tokenizer
) -> None:
    text = f"{HOSTILE} =1+1 the keeper of the amber lantern"
    ids = demo_tokenizer.encode(text, add_special_tokens=False).ids
    build_index(machine.folder / "index", [[ids]])
    name = "evil\x1b[2J.jsonl"
    (machine.folder / name).write_text(json.dumps({"text": text}) + "\n")
    command = ("occurrences", name, "--index", "index", "--tokenizer", "demo", "--min-tokens", "5")
    shown = machine.run(*command)
    assert "amber lantern" in shown.stdout
    assert not set("\x1b\x07\u202e") & set(shown.stdout + shown.stderr)
    machine.run(*command, "--out", "open.parquet")
    (row,) = pyarrow.parquet.read_table(machine.folder / "open.parquet").to_pylist()
    assert row["text"] == demo_tokenizer.decode(ids) and HOSTILE.strip() in row["text"]
    assert machine.json(*command)["notable"][0]["text"] == row["text"]
    redacted = machine.run(*command, "--redact", "--out", "rows.csv").stdout + (machine.folder / "rows.csv").read_text()
    assert "lantern" not in redacted
    assert f"{len(ids)} tokens, sha256 " in redacted


@pytest.mark.slow
def test_completions_of_a_sequence_audit_are_looked_up_after_their_prompts(
    machine: Machine, demo_texts: list[str]
) -> None:
    folder = machine.folder / "corpus"
    folder.mkdir()
    for number, text in enumerate(demo_texts[:40]):
        (folder / f"{number:02}.txt").write_text(" ".join(text.split()))
    shards = _encoded([" ".join(text.split()) for text in demo_texts[:40]])
    build_index(machine.folder / "index", shards)
    audit = ("audit", "sequence", "corpus", "--target", "demo", "--threads", "1", "--prompt-length", "12")
    machine.run(*audit)
    found = machine.json("occurrences", "latest", "--index", "index", "--min-tokens", "10", "--out", "rows.parquet")
    rows = pyarrow.parquet.read_table(machine.folder / "rows.parquet").to_pylist()
    assert (found["kind"], set(found["groups"])) == ("completion", {"corpus"})
    assert {row["name"].split(":")[0] for row in rows} <= {f"{number:02}.txt" for number in range(40)}
    assert any(row["is_verbatim"] for row in rows)
    tokenizer = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
    for row in rows:
        prompt = " ".join(demo_texts[int(row["name"][:2])].split()[:12])
        before = tokenizer.encode(prompt, add_special_tokens=False).ids
        whole = tokenizer.encode(prompt + row["text"], add_special_tokens=False).ids
        ids = whole[len(before) :]
        first = tokenizer.encode(prompt.split()[0], add_special_tokens=False).ids
        assert len(ids) == row["tokens"]
        assert row["count"] == len(places_of(shards, ids))
        assert row["count_with_prefix"] == len(places_of(shards, whole[len(first) :]))
        assert row["longest"] == longest_of(shards, ids).length
    with_prefix = [row["count_with_prefix"] for row in rows]
    assert found["all"]["with_prefix"]["number"] == np.count_nonzero(with_prefix) > 0


def _encoded(texts: list[str]) -> list[list[list[int]]]:
    tokenizer = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
    return [[encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]]


def test_guesses_are_encoded_again_for_an_index_of_another_kind(machine: Machine, demo_tokenizer: Tokenizer) -> None:
    round_ = load_round("demo")
    prefixes, answers = load_prefixes(round_)[:40], load_answers(round_)
    assert answers is not None
    write_submission(machine.folder / "guesses.csv", np.arange(40), answers[:40])
    whole = demo_tokenizer.decode_batch(np.concatenate([prefixes, answers[:40]], axis=1).tolist())
    shards = [[np.frombuffer(text.encode(), np.uint8) for text in whole]]
    build_index(machine.folder / "index", shards, "<u1")
    found = machine.json("occurrences", "guesses.csv", "--round", "demo", "--index", "index")
    assert found["unit"] == "byte"
    assert found["groups"]["right"]["with_prefix"]["number"] == 40


def test_a_wrong_tokenizer_is_refused_or_noted(machine: Machine, demo_index: Path, demo_texts: list[str]) -> None:
    (machine.folder / "text.txt").write_text(demo_texts[0])
    larger = build_index(machine.folder / "larger", [[[1, 2, 40_000]]])
    command = ("occurrences", "text.txt", "--tokenizer", "demo")
    refused = machine.run(*command, "--index", str(larger), code=1).stderr
    assert "the index contains token 40,000, but the tokenizer has 384 tokens" in refused
    smaller = build_index(machine.folder / "smaller", [[[1, 2, 3]]], "<u1")
    refused = machine.run(*command, "--index", str(smaller), code=1).stderr
    assert "the tokenizer has 384 tokens, but the index stores ids below 255" in refused
    foreign = build_index(machine.folder / "foreign", [[[383, 382, 381, 383]]])
    noted = machine.run(*command, "--index", str(foreign)).stderr
    assert "no generation shares more than 4 tokens in a row with the index" in noted
    assert "no generation shares" not in machine.run(*command, "--index", str(demo_index)).stderr


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (("few.txt", "--tokenizer", "demo"), 1, "every generation is shorter than 50 tokens: the longest has "),
        (("few.txt",), 2, "the tokenizer of the index is not known. Name it with --tokenizer."),
        (("few.txt", "--tokenizer", "./absent"), 1, "no such directory: ./absent. Name one with tokenizer.json."),
        (("guesses.csv",), 2, "guesses.csv is a submission. Name its round with --round."),
        (("absent.jsonl", "--tokenizer", "demo"), 1, "no such file or directory: absent.jsonl."),
        (("empty.jsonl", "--tokenizer", "demo"), 1, "empty.jsonl contains no generation."),
        (("floats.npy",), 1, "floats.npy: expected integers of shape [tokens] or [rows, tokens], found float64"),
        (("large.npy",), 1, "large.npy contains the token 70,000, but the index stores ids below 65,535"),
        (("negative.npy",), 1, "negative.npy contains the token -1."),
        (("few.txt", "--tokenizer", "demo", "--out", "rows.xlsx"), 2, "rows.xlsx: unknown format."),
        (("few.txt", "--tokenizer", "demo", "--out", "few.txt"), 2, "few.txt: unknown format."),
        (("no-such-run",), 2, "unknown run 'no-such-run'"),
    ],
)
def test_invalid_inputs_are_refused(
    arguments: tuple[str, ...], code: int, what: str, machine: Machine, demo_index: Path
) -> None:
    (machine.folder / "few.txt").write_text("only a few words")
    (machine.folder / "guesses.csv").write_text("Example ID,Suffix Guess\n")
    (machine.folder / "empty.jsonl").write_text("")
    np.save(machine.folder / "floats.npy", np.zeros((2, 60)))
    np.save(machine.folder / "large.npy", np.full((2, 60), 70_000))
    np.save(machine.folder / "negative.npy", np.full((2, 60), -1))
    done = machine.run("occurrences", *arguments, "--index", str(demo_index), code=code)
    assert what in done.stderr
    assert done.stdout == ""


def test_a_damaged_index_is_refused(machine: Machine, demo_index: Path) -> None:
    shutil.copytree(demo_index, machine.folder / "index")
    (machine.folder / "index" / "table.1").write_bytes(b"\0" * 99)
    np.save(machine.folder / "rows.npy", np.ones((1, 60), np.uint16))
    refused = machine.run("occurrences", "rows.npy", "--index", "index", code=1).stderr
    assert "index/tokenized.1, table.1 and offset.1 do not belong together" in refused
    assert len(refused.splitlines()) == 1


def test_a_missing_package_is_named(machine: Machine, demo_index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "infini_gram", None)
    refused = machine.run("occurrences", "rows.npy", "--index", str(demo_index), code=1).stderr
    assert "pip install '.[infini-gram]'" in refused


def test_the_index_of_the_how_to_contains_the_demo_corpus(machine: Machine, demo_texts: list[str]) -> None:
    page = (ROOT / "docs" / "how-to" / "look-up-generations.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (machine.folder / "make_index.py").write_text(code)
    (commands,) = re.findall(r"```sh\n(python make_index.py\n.*?)```", page, re.DOTALL)
    environment = machine.env() | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-ec", commands], cwd=machine.folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (machine.folder / "texts.jsonl").write_text("".join(f"{json.dumps({'text': text})}\n" for text in demo_texts[:20]))
    found = machine.json("occurrences", "texts.jsonl", "--index", "index", "--tokenizer", "demo")
    assert found["index_documents"] == len(json.loads(CORPUS.read_text()))
    assert found["all"]["whole"]["number"] == 20


def test_progress_is_printed_with_an_eta(machine: Machine, demo_index: Path) -> None:
    np.save(machine.folder / "rows.npy", np.ones((3, 60), np.uint16))
    done = machine.run("occurrences", "rows.npy", "--index", str(demo_index))
    assert "look up generations: 1 of 3, ETA 0:" in done.stderr
