"""Real infini-gram indexes of small corpora, compared with a search without an index, and damaged ones."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from harness.core.errors import HarnessError
from harness.corpora.index_client import InfiniGramIndex
from harness.corpora.index_files import index_files
from harness.corpora.occurrences import occurrences_of
from tests.functional.corpus_index import across_documents, build_index, longest_of, places_of, windows_of


def small_corpus(shards: int = 2, tokens: int = 12) -> list[list[np.ndarray[Any, Any]]]:
    """Return documents of few different tokens, some of which share long passages."""
    generator = np.random.default_rng(3)
    documents = [generator.integers(0, tokens, generator.integers(8, 60)) for _ in range(24)]
    documents += [np.concatenate([document[:20], generator.integers(0, tokens, 9)]) for document in documents[:6]]
    return [documents[shard::shards] for shard in range(shards)]


@pytest.mark.parametrize(("dtype", "offset"), [("<u1", 200), ("<u2", 300), ("<u4", 70_000)])
def test_counts_places_and_spans_are_those_of_a_plain_search(dtype: str, offset: int, tmp_path: Path) -> None:
    # `table` in the name of a directory: the engine would take all of its files for tables.
    shards = [[document + offset for document in documents] for documents in small_corpus()]
    folder = build_index(tmp_path / "table" / "index", shards, dtype)
    generator = np.random.default_rng(5)
    queries = [generator.integers(0, 12, length) + offset for length in (1, 2, 3, 4, 30)]
    queries += [np.array(across_documents(shards)), shards[1][3][2:40], shards[0][0], shards[0][0][:1]]
    queries += [np.concatenate([shards[0][2][5:30], shards[1][1][:25]]), np.array([5])]
    files = index_files(folder)
    assert (files.width, files.documents) == (np.dtype(dtype).itemsize, 30)
    assert files.tokens == sum(len(document) for documents in shards for document in documents)
    assert files.largest_token() == 11 + offset
    counts = []
    with InfiniGramIndex(files) as index:
        for tokens in queries:
            places = places_of(shards, tokens)
            counts.append(len(places))
            assert index.count(tokens) == len(places)
            assert sorted(index.find(tokens, 1 << 20)) == places
            assert len(index.find(tokens, 2)) == min(2, len(places))
            found = occurrences_of(index, tokens, min_tokens=6)
            assert found.longest == longest_of(shards, tokens)
            assert found.windows == windows_of(shards, tokens, 6)
    assert max(counts) > 50
    assert 0 in counts


def test_shards_are_numbered_by_their_files(tmp_path: Path) -> None:
    shards = [[[number, 90, 91, 92]] for number in range(12)]
    with InfiniGramIndex(index_files(build_index(tmp_path / "index", shards))) as index:
        for number in range(12):
            assert index.find(np.array([number, 90]), 5) == places_of(shards, [number, 90])


def test_a_token_that_does_not_fit_the_index_is_refused(tmp_path: Path) -> None:
    with InfiniGramIndex(index_files(build_index(tmp_path / "index", small_corpus()))) as index:
        for token in (65_535, 70_000):
            with pytest.raises(HarnessError, match=rf"token {token:,} is too large .* ids below 65,535: "):
                index.count(np.array([1, token]))
        assert index.count(np.array([65_534])) == 0


def cut(file: str, size: int) -> Callable[[Path], None]:
    return lambda folder: (folder / file).write_bytes((folder / file).read_bytes()[:size]) and None


def reversed_table(folder: Path) -> None:
    entries = np.fromfile(folder / "table.0", "<u2")
    entries[::-1].tofile(folder / "table.0")


def table_beyond_the_text(folder: Path) -> None:
    np.full_like(np.fromfile(folder / "table.0", "<u2"), 60_000).tofile(folder / "table.0")


def moved_documents(folder: Path) -> None:
    starts = np.fromfile(folder / "offset.0", "<u8")
    (starts + 2 * (starts > 0)).tofile(folder / "offset.0")


def empty_directory(folder: Path) -> None:
    for file in folder.glob("*.[0-9]"):
        file.unlink()


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (empty_directory, "not an infini-gram index: "),
        (lambda folder: (folder / "offset.1").unlink(), r"offset.1 is missing in "),
        (cut("offset.0", 0), r"offset.0 is empty\."),
        (cut("offset.0", 12), r"offset.0 was cut off"),
        (cut("table.0", 100), "do not belong together"),
        (cut("tokenized.0", 100), "do not belong together"),
        (reversed_table, "do not belong together"),
        (table_beyond_the_text, "do not belong together"),
        (moved_documents, "do not belong together"),
    ],
)
def test_damaged_files_are_refused_before_the_engine_opens_them(
    damage: Callable[[Path], None], what: str, tmp_path: Path
) -> None:
    folder = build_index(tmp_path / "index", small_corpus())
    index_files(folder)
    damage(folder)
    with pytest.raises(HarnessError, match=what):
        index_files(folder)


def test_shards_of_different_token_sizes_are_refused(tmp_path: Path) -> None:
    folder = build_index(tmp_path / "index", small_corpus(shards=1))
    for file in build_index(tmp_path / "other", small_corpus(shards=1), "<u1").glob("*.0"):
        file.rename(folder / f"{file.stem}.1")
    with pytest.raises(HarnessError, match="tokens of different sizes"):
        index_files(folder)


def test_an_engine_that_dies_is_an_error(tmp_path: Path) -> None:
    folder = build_index(tmp_path / "index", small_corpus())
    before = set(psutil.Process().children())
    with InfiniGramIndex(index_files(folder)) as index:
        (engine,) = set(psutil.Process().children()) - before
        assert index.count(np.array([1])) > 0
        engine.kill()
        with pytest.raises(HarnessError, match=rf"engine failed \(SIGKILL\): {folder}\."):
            index.count(np.array([1]))


def test_the_engine_ends_with_the_index(tmp_path: Path) -> None:
    before = set(psutil.Process().children())
    with InfiniGramIndex(index_files(build_index(tmp_path / "index", small_corpus()))):
        (engine,) = set(psutil.Process().children()) - before
    assert not engine.is_running()


def test_an_open_index_has_no_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = index_files(build_index(tmp_path / "index", small_corpus()))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    with InfiniGramIndex(files) as index:
        # A killed command deletes nothing.
        assert list((tmp_path / "temporary").iterdir()) == []
        assert index.count(np.array([1])) > 0


def test_a_file_that_disappears_before_the_engine_opens_it_is_an_error(tmp_path: Path) -> None:
    folder = build_index(tmp_path / "index", small_corpus())
    files = index_files(folder)
    (folder / "table.1").unlink()
    with pytest.raises(HarnessError, match=r"the infini-gram engine failed \(.*table.*\): "), InfiniGramIndex(files):
        pass
