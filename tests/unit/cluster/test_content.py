"""Contents by hash: fetched once, checked, and never outside their directory."""

import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster.shipment import ContentStore
from harness.core.errors import HarnessError


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_content_is_fetched_once_even_by_many_at_the_same_time(tmp_path: Path) -> None:
    fetched = []
    data = b"weights" * 1000

    def fetch() -> Iterator[bytes]:
        fetched.append(1)
        yield data[:100]
        yield data[100:]

    store, paths = ContentStore(tmp_path), []
    threads = [threading.Thread(target=lambda: paths.append(store.file(_hash(data), fetch))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fetched) == 1 and {path.read_bytes() for path in paths} == {data} and len(paths) == 8


def test_a_damaged_content_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    store = ContentStore(tmp_path)
    with pytest.raises(HarnessError, match="damaged on its way"):
        store.file(_hash(b"right"), lambda: [b"wrong"])
    assert store.file(_hash(b"right"), lambda: [b"right"]).read_bytes() == b"right"


def test_a_tree_may_have_names_that_are_not_utf8(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    tree = ContentStore(tmp_path).tree({name: _hash(b"a")}, lambda sha256: [b"a"])
    assert [file.name for file in tree.iterdir()] == [name]


def test_a_tree_has_the_files_under_their_names(tmp_path: Path) -> None:
    contents = {_hash(data): data for data in (b"a", b"b")}
    files = {"x/one.txt": _hash(b"a"), "two.txt": _hash(b"b"), "x/y/three.txt": _hash(b"a")}
    store = ContentStore(tmp_path)
    tree = store.tree(files, lambda sha256: [contents[sha256]])
    assert {name: (tree / name).read_bytes() for name in files} == {
        "x/one.txt": b"a",
        "two.txt": b"b",
        "x/y/three.txt": b"a",
    }
    assert store.tree(dict(reversed(files.items())), lambda _: pytest.fail("fetched again")) == tree


@pytest.mark.parametrize("name", ["../outside", "/etc/outside", "a/../../outside"])
def test_a_name_outside_of_the_tree_is_refused(tmp_path: Path, name: str) -> None:
    store = ContentStore(tmp_path / "store")
    with pytest.raises(HarnessError, match="not a name inside"):
        store.tree({name: _hash(b"a")}, lambda _: [b"a"])
    assert not (tmp_path / "outside").exists()


def test_an_empty_directory_is_a_tree(tmp_path: Path) -> None:
    assert list(ContentStore(tmp_path).tree({}, lambda _: []).iterdir()) == []
