"""`harness new round`: a round from the demo's corpus, checked by brute force, a killed command, and bad input."""

import csv
import json
import re
import shlex
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from tokenizers import Tokenizer

from harness.core.files import file_sha256
from harness.demo import SEED, SIZES
from tests.demo_target.corpus import corpus, shuffled_copies
from tests.functional.machine import Machine, wait_until

TOKENIZER = SIZES[0].weights / "tokenizer.json"
SMALL = ("--target", "demo", "--train", "60", "--val", "30", "--test", "30")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Return the documents of the demo's corpus, with their copies, in the order of its training."""
    documents = corpus(SEED)
    return [documents[index].text for index in shuffled_copies(documents, SEED)]


def write_jsonl(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def make(machine: Machine, *arguments: object) -> dict[str, Any]:
    return machine.json("new", "round", *map(str, arguments))


Draw = Callable[..., dict[str, Any]]


@pytest.fixture
def draw(machine: Machine, texts: list[str]) -> Draw:
    """Draw a round from some documents into the directory `mine`, and return its data card."""

    def drawn(documents: int, *options: object) -> dict[str, Any]:
        source = write_jsonl(machine.folder / "demo.jsonl", texts[:documents])
        return make(machine, source, "--out", machine.folder / "mine", *SMALL, *options)

    return drawn


def pointers_in(folder: Path) -> list[dict[str, str]]:
    with (folder / "pointers.csv").open() as file:
        return list(csv.DictReader(file))


def rows_of(folder: Path, split: str) -> np.ndarray[Any, Any]:
    return np.concatenate([np.load(folder / f"{split}_{part}.npy") for part in ("prefix", "suffix")], axis=1)


def test_the_demos_corpus_by_brute_force(machine: Machine, texts: list[str], draw: Draw) -> None:
    texts = texts[:4_000]
    out, card = machine.folder / "mine", draw(4_000, "--strata", "1,2")
    tokens = [encoding.ids for encoding in Tokenizer.from_file(str(TOKENIZER)).encode_batch(texts)]
    assert card["corpus_documents"] == 4_000 and card["corpus_tokens"] == sum(map(len, tokens))
    continuations: dict[tuple[int, ...], Counter[tuple[int, ...]]] = {}
    chosen = {split: rows_of(out, split) for split in ("train", "val", "test")}
    prefixes = {tuple(row[:50]) for rows in chosen.values() for row in rows.tolist()}
    for document in tokens:
        for start in range(len(document) - 49):
            if (prefix := tuple(document[start : start + 50])) in prefixes:
                found = continuations.setdefault(prefix, Counter())
                found[tuple(document[start + 50 : start + 100])] += 1
    pointers = {(row["split"], int(row["row"])): row for row in pointers_in(out)}
    for split, rows in chosen.items():
        assert card["splits"][split]["examples"] == len(rows) == card["splits"][split]["wanted"]
        for number, row in enumerate(rows.tolist()):
            pointer = pointers[split, number]
            assert continuations[tuple(row[:50])] == {tuple(row[50:]): int(pointer["copies"])}
            line, start = int(pointer["document"].removeprefix("demo.jsonl:")) - 1, int(pointer["token"])
            assert tokens[line][start : start + 100] == row
    overlap = machine.json("data", "overlap", str(out / "mine-val.toml"))
    assert overlap["in_train"] == overlap["known_prefix"] == overlap["clustered"] == 0
    assert not list(out.glob(".tokens-*"))


def test_tokens_give_the_same_examples_as_their_texts(machine: Machine, texts: list[str]) -> None:
    """`tests/files/test_readers.py` compares the formats of texts."""
    texts, folder = texts[:800], machine.folder
    write_jsonl(folder / "a.jsonl", texts)
    encodings = Tokenizer.from_file(str(TOKENIZER)).encode_batch(texts)
    np.array([token for encoding in encodings for token in (*encoding.ids, 0)], np.uint16).tofile(folder / "b.bin")
    found = []
    for name in ("a.jsonl", "b.bin"):
        out = folder / f"out-{name}"
        card = make(machine, folder / name, "--out", out, *SMALL, "--name", "same")
        found.append(([rows_of(out, split).tolist() for split in ("train", "val", "test")], card["counts"]))
    assert found[0] == found[1]


@pytest.mark.slow
def test_extractable_examples_are_those_that_the_target_completes(machine: Machine, draw: Draw) -> None:
    out, card = machine.folder / "mine", draw(3_000, "--extractable", "--strata", "2")
    assert card["contexts"] == [50, 100, 200, 206] and len(card["target_sha256"]) == 64
    assert card["counts"]["removed, not extractable"] > 30
    contexts = {int(row["row"]): int(row["context"]) for row in pointers_in(out) if row["split"] == "val"}
    assert set(contexts.values()) <= {50, 100, 200, 206} and 50 in contexts.values()
    machine.run("run", "greedy", "--round", str(out / "mine-val.toml"))
    run = machine.newest()
    assert run["status"] == "finished" and run["round"] == "mine-val" and run["guesses"] == 30
    assert run["exact_at_1"] == pytest.approx(np.mean([context == 50 for context in contexts.values()]))


def test_answers_of_the_test_split_are_kept_apart(machine: Machine, draw: Draw) -> None:
    out, secret = machine.folder / "mine", machine.folder / "secret"
    card = draw(2_000, "--answers-out", secret)
    assert card["splits"]["test"]["examples"] == 30
    hashed = {"secret/test_suffix.npy", "secret/pointers.csv", "pointers.csv", "train_prefix.npy", "train_suffix.npy"}
    assert set(card["files"]) == hashed | {"val_prefix.npy", "val_suffix.npy", "test_prefix.npy"}
    for name, sha256 in card["files"].items():
        assert file_sha256((machine.folder if "/" in name else out) / name) == sha256
    assert {path.name for path in secret.iterdir()} == {"test_suffix.npy", "pointers.csv"}
    assert not (out / "test_suffix.npy").exists()
    assert {row["split"] for row in pointers_in(out)} == {"train", "val"}
    assert machine.json("show", str(out / "mine-test.toml"))["is_blind"]


def test_an_organizer_edits_the_files_that_have_no_hash(machine: Machine, draw: Draw) -> None:
    """The data card stays true if the rules and the page for the teams change."""
    out, card = machine.folder / "mine", draw(1_000)
    edited = {*card["rounds"], "TEAMS.md"}
    assert {path.name for path in out.iterdir()} == {*card["files"], *edited, "card.json", "README.md"}
    assert all(f"| {name} |" not in (out / "README.md").read_text() for name in edited)


@pytest.mark.parametrize(
    ("options", "closes"),
    [
        (("--title", "Our contest", "--closes", "2099-12-20"), "2099-12-20 AoE"),
        (("--title", 'Größe | "x"', "--closes", " 2099-12-20T18:00+01:00"), "2099-12-20 18:00:00 UTC+01:00"),
        (("--val", "0"), "the organizers announce it"),
        (("--test", "0", "--train", "0"), "the organizers announce it"),
    ],
)
def test_rounds_and_the_page_for_teams_have_title_and_deadline(
    machine: Machine, draw: Draw, options: tuple[str, ...], closes: str
) -> None:
    out, card = machine.folder / "mine", draw(1_000, *options)
    page = (out / "TEAMS.md").read_text()
    assert f"| closes | {closes} |" in page and page.endswith("again.\n") and "\n\n\n" not in page
    for name in card["rounds"]:
        shown = machine.json("show", str(out / name))
        assert ("--title" in options) == (shown["title"] == options[1])
        assert (shown["closes"] is None) == ("--closes" not in options)
        assert name in page
    assert ("fold0of5" in page) == ("train" in card["splits"])


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("--closes", value) for value in ("", "tomorrow", "2026-02-30", "2026-12-20 18:00")),
        *(("--title", value) for value in (" ", "two\nlines", "\x7f")),
    ],
)
def test_an_invalid_title_or_deadline_is_refused_before_the_corpus_is_read(
    machine: Machine, option: str, value: str
) -> None:
    out = machine.folder / "out"
    arguments = ("new", "round", str(machine.folder / "absent"), "--target", "demo", "--out", str(out))
    assert option in machine.run(*arguments, option, value, code=2).stderr
    assert not out.exists()


@pytest.mark.slow
def test_a_team_takes_part_with_the_commands_of_its_page(machine: Machine, draw: Draw) -> None:
    out, kept = machine.folder / "mine", machine.folder / "kept"
    draw(2_000, "--answers-out", kept)
    team = Machine(machine.folder / "team")
    shutil.copytree(out, team.folder, dirs_exist_ok=True)
    page = (out / "TEAMS.md").read_text()
    (toml,) = re.findall(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (team.folder / "team.toml").write_text(toml)
    (team.folder / "description.md").write_text("# It samples\n")
    for line in re.findall(r"^harness (.*)$", page, re.MULTILINE):
        team.run(*shlex.split(line))
    rounds = ("--round", str(out / "mine-test.toml"), "--answers", str(kept / "test_suffix.npy"))
    (entry,) = machine.json("bundle", "rank", str(team.folder), *rounds)["entries"]
    assert entry["team"] == "Our team" and entry["place"] == 1


@pytest.mark.slow
def test_a_killed_command_continues_with_the_same_files(machine: Machine, texts: list[str]) -> None:
    folder = machine.folder
    # Progress is stored after each million tokens.
    source = write_jsonl(folder / "demo.jsonl", texts[:22_000])
    arguments = ("new", "round", str(source), *SMALL, "--name", "same")
    killed = machine.start(*arguments, "--out", str(folder / "killed"))
    wait_until(lambda: list(folder.glob("killed/.tokens-*/state.json")))
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not (folder / "killed" / "card.json").exists()
    (state,) = folder.glob("killed/.tokens-*/state.json")
    assert 0 < json.loads(state.read_bytes())["pieces"] < len(texts)
    for name in ("killed", "whole"):
        machine.run(*arguments, "--out", str(folder / name))
    for path in (folder / "whole").iterdir():
        assert path.read_bytes() == (folder / "killed" / path.name).read_bytes(), path


def test_bad_input_is_one_sentence(machine: Machine, texts: list[str]) -> None:
    folder = machine.folder
    source = write_jsonl(folder / "demo.jsonl", texts[:500])
    (folder / "empty").mkdir()
    (folder / "empty.txt").write_text("")
    (folder / "latin.txt").write_bytes("größer".encode("latin-1"))
    (folder / "broken.json").write_text("{}")
    parquet.write_table(pyarrow.table({"body": ["text"]}), folder / "other.parquet")
    (folder / "damaged.parquet").write_bytes(b"PAR1 is not enough")
    out = ("--out", str(folder / "out"))
    (folder / "taken").mkdir()
    (folder / "taken" / "test_suffix.npy").write_bytes(b"of another round")
    for arguments, words, *codes in (
        ((folder / "none", *SMALL), "no such file or directory"),
        ((folder / "empty", *SMALL), "contains no text"),
        ((folder / "empty.txt", *SMALL), "contains no text"),
        ((folder / "latin.txt", *SMALL), "Skipped the rest of latin.txt: not UTF-8 text"),
        ((folder / "other.parquet", *SMALL), "Choose one with --field: body"),
        ((folder / "damaged.parquet", *SMALL), "damaged.parquet"),
        ((source, *SMALL, "--tokenizer", folder / "broken.json"), "not a tokenizer.json"),
        ((source, *SMALL, "--strata", "2,1"), "expected ascending numbers", 2),
        ((source, *SMALL, "--name", "a/b"), "--name", 2),
        ((source, *SMALL, "--strata", "500"), "most were removed: other number of copies"),
        ((source, *SMALL, "--answers-out", folder / "taken"), "test_suffix.npy exists already. Use --force"),
        ((source, *SMALL, "--answers-out", folder / "empty.txt" / "x"), "cannot"),
        ((source, "--target", "demo", "--val", "0", "--test", "0"), "nothing would be attacked", 2),
        ((folder, *SMALL), "inside the corpus"),
    ):
        done = machine.run("new", "round", "--quiet", *map(str, arguments), *out, code=codes[0] if codes else 1)
        assert done.stdout == "" and words in done.stderr and done.stderr.count("\n") == 1, done.stderr
    make(machine, source, *SMALL, *out)
    again = machine.run("new", "round", str(source), *SMALL, *out, code=1)
    assert "exists already. Use --force" in again.stderr
    assert (folder / "out" / "test_suffix.npy").exists()
    make(machine, source, "--target", "demo", "--train", "0", "--val", "9", "--test", "0", *out, "--force")
    assert {path.name for path in (folder / "out").glob("*.npy")} == {"val_prefix.npy", "val_suffix.npy"}
    assert {path.name for path in (folder / "out").glob("*.toml")} == {"out-val.toml"}


def test_files_of_the_user_are_kept(machine: Machine, texts: list[str]) -> None:
    source, project = write_jsonl(machine.folder / "demo.jsonl", texts[:500]), machine.folder / "project"
    project.mkdir()
    (project / "README.md").write_text("mine")
    done = machine.run("new", "round", str(source), *SMALL, "--out", str(project), code=1)
    assert "README.md exists already" in done.stderr
    assert [path.name for path in project.iterdir()] == ["README.md"]


def test_one_directory_named_twice_has_all_files(machine: Machine, draw: Draw) -> None:
    card = draw(2_000, "--out", "mine", "--answers-out", machine.folder / "mine")
    assert {row["split"] for row in pointers_in(machine.folder / "mine")} == {"train", "val", "test"}
    assert "test_suffix.npy" in card["files"]
    assert not machine.json("show", "mine/mine-test.toml")["is_blind"]


def test_a_relative_target_works_from_everywhere(machine: Machine, draw: Draw) -> None:
    (machine.folder / "weights").symlink_to(SIZES[0].weights)
    draw(500, "--target", "weights")
    assert machine.json("show", "mine/mine-val.toml")["target"] == str(SIZES[0].weights)


def test_token_files_beside_their_indices_and_with_one_name(machine: Machine, texts: list[str]) -> None:
    tokens = [encoding.ids for encoding in Tokenizer.from_file(str(TOKENIZER)).encode_batch(texts[:400])]
    for number in range(2):
        folder = machine.folder / "corpus" / str(number)
        folder.mkdir(parents=True)
        part = [token for document in tokens[number::2] for token in (*document, 0)]
        np.save(folder / "part.npy", np.array(part[:-1], np.uint16))
        (folder / "part.csv.gz").write_bytes(b"")
    card = make(machine, machine.folder / "corpus", *SMALL, "--out", machine.folder / "mine")
    assert card["corpus_documents"] == 400 and card["corpus_tokens"] == sum(map(len, tokens))
    assert card["notes"] == [f"Skipped {number}/part.csv.gz: it has no tokens." for number in range(2)]
    documents = {row["document"].partition(":")[0] for row in pointers_in(machine.folder / "mine")}
    assert documents == {"0/part.npy", "1/part.npy"}


def test_line_ends_are_kept_on_request(machine: Machine) -> None:
    texts = [f"Line {number} of {word}.\r\n" * 20 for number in range(50) for word in ("one", "two")]
    source = write_jsonl(machine.folder / "lines.jsonl", texts)
    lengths = ("--prefix-tokens", "5", "--suffix-tokens", "5", "--keep-line-ends")
    card = make(machine, source, *SMALL, *lengths, "--out", machine.folder / "mine")
    assert card["notes"] == ["Line ends CR LF or CR were kept in 1 file: lines.jsonl."]
    encodings = Tokenizer.from_file(str(TOKENIZER)).encode_batch(texts)
    assert card["corpus_tokens"] == sum(len(encoding.ids) for encoding in encodings)


def test_too_few_examples_are_reported(machine: Machine, texts: list[str]) -> None:
    source = write_jsonl(machine.folder / "demo.jsonl", texts[:40])
    done = machine.run("new", "round", str(source), *SMALL, "--out", str(machine.folder / "few"))
    assert "train: found" in done.stderr and "of 60 requested examples" in done.stderr
    assert "few: 40 documents" in done.stdout
