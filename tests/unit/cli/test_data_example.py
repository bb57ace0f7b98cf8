"""`harness data example` writes the texts of the tutorials."""

import json
from pathlib import Path

import pytest

from harness.core import paths
from harness.data.example import FILES
from harness.demo import CORPUS, WEIGHTS
from harness.engine.resolving import resolve_target
from tests.tools.demo_texts import unseen_text
from tests.unit.cli.command_line import CommandLine


def records(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_example_data_are_the_texts_of_the_demo(harness: CommandLine, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "example"
    done = harness("data", "example", str(folder))
    assert (done.code, done.err) == (0, "")
    assert [line.split("  ")[0] for line in done.out.splitlines()] == [f"{folder}/{name}" for name in FILES]
    assert {path.name for path in folder.iterdir()} == {name.rstrip("/") for name in FILES}
    texts = json.loads(CORPUS.read_bytes())
    corpus = records(folder / "corpus.jsonl")
    assert [record["text"] for record in corpus] == texts
    assert {record["copies"] for record in corpus} == set(range(1, 65))
    unseen = [str(record["text"]) for record in records(folder / "unseen.jsonl")]
    assert len(unseen) == 1_000 and "\n\n".join(unseen[:9]) == unseen_text(9)
    book = (folder / "book.txt").read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    assert book == [text for text in texts if "\n" not in text][:100]
    control = (folder / "unseen.txt").read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    assert control == [text for text in unseen if "\n" not in text][:60]


def test_the_unlearned_target_is_another_one_than_the_demo(harness: CommandLine, tmp_path: Path) -> None:
    harness("data", "example", str(tmp_path))
    before, after = (resolve_target(str(path)) for path in (WEIGHTS, tmp_path / "unlearned"))
    assert before.weights_sha256 != after.weights_sha256 and before.bytes == after.bytes


def test_files_with_other_content_are_not_replaced(harness: CommandLine, tmp_path: Path) -> None:
    assert harness("data", "example", str(tmp_path)).code == 0
    file = tmp_path / "book.txt"
    content = file.read_bytes()
    time = (tmp_path / "corpus.jsonl").stat().st_mtime_ns
    file.write_text("mine")
    done = harness("data", "example", str(tmp_path))
    assert (done.code, done.out) == (1, "") and file.read_text() == "mine"
    assert done.err == f"harness: {file} exists with other content. Choose another directory, or use --force.\n"
    assert harness("data", "example", str(tmp_path), "--force").code == 0
    assert file.read_bytes() == content and (tmp_path / "corpus.jsonl").stat().st_mtime_ns == time


def test_a_package_without_the_example_data_names_the_file(
    harness: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.data.example.EXAMPLE", tmp_path / "absent")
    done = harness("data", "example", str(tmp_path / "example"))
    assert done.code == 1 and "absent/copies.npy" in done.err and done.err.count("\n") == 1
    assert paths.EXAMPLE_DATA in paths.BUILT_IN_ANSWERS
