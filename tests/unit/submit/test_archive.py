"""Zips: equal content gives equal bytes, a stranger's zip unpacks as it says or not at all, and our wheel installs."""

import base64
import csv
import hashlib
import importlib.metadata
import io
import os
import stat
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core import paths
from harness.core.errors import HarnessError
from harness.submit import archive as archives
from harness.submit import wheel
from harness.submit.archive import archive_bytes, unpack
from harness.submit.wheel import harness_wheel, installed_lock
from tests.unit.submit.zips import overlapping, raw_entry, replaced, with_field, zip_of

FILES = {"code/run.sh": b"exit 0\n", "team.toml": b'[[members]]\nname = "A"\n', "MANIFEST.json": b"{}" * 5000}
# Offsets of fields in an entry of the central directory.
FLAGS, METHOD, FILE_SIZE = 8, 10, 24
UNSAFE_NAMES = (
    *("../evil", "../../evil", "a/../../evil", "a/..", "..", "/evil", "//evil", "/", "./evil", "a/./evil", "a//b"),
    *("..\\evil", "a\\b", "C:\\evil", "C:evil", "\\\\host\\share\\evil", "a:stream", "evil\x00.txt", "a\nb", "a\x1bb"),
    *("a\x7fb", "what?", "a*", "a|b", "<a>", 'a"b', "x" * 256, "a/" * 200 + "b"),
)
DEVICES = {"symlink": 0o120777, "character": 0o020666, "block": 0o060666, "fifo": 0o010666, "socket": 0o140666}
TWICE = (("a", "a"), ("a", "A"), ("straße", "STRASSE"), ("d/a", "D/A"), ("a", "a/"))
OTHER_NAME = "is not a name that every program reads alike"
BOMB = "times, as in a zip bomb"
CONTROL_TEXT = "harness/demo/unseen.npz"
"""Generated paragraphs that the demo target was not trained on: the control of `audit sequence`, no answers."""
Make = Callable[[Path], Path]
"""Writes a hostile zip to a path, and returns the path."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "a" / "b" / "place"
    folder.mkdir(parents=True)
    return folder


def _refused(archive: Path, place: Path, words: str) -> None:
    with pytest.raises(HarnessError, match=words) as refusal:
        unpack(archive, place)
    assert str(archive) in str(refusal.value) and str(refusal.value).endswith(".")
    assert set(_everything_below(place.parents[2])) <= {archive, *place.parents, place}


def _everything_below(folder: Path) -> list[Path]:
    return list(folder.rglob("*"))


def test_unpacking_restores_the_files(tmp_path: Path, place: Path) -> None:
    (archive := tmp_path / "x.zip").write_bytes(archive_bytes(FILES))
    assert unpack(archive, place) == sorted(FILES)
    assert {name: (place / name).read_bytes() for name in FILES} == FILES


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}(/[a-z]{1,8}\.x){0,2}", fullmatch=True), st.binary(max_size=200)))
@settings(deadline=None, max_examples=30)
def test_the_order_of_files_does_not_change_the_bytes(files: dict[str, bytes]) -> None:
    backwards = dict(reversed(list(files.items())))
    assert archive_bytes(files) == archive_bytes(backwards)


def test_every_entry_has_the_same_time_and_mode() -> None:
    with zipfile.ZipFile(io.BytesIO(archive_bytes(FILES))) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {stat.S_IMODE(entry.external_attr >> 16) for entry in archive.infolist()} == {0o644}
        assert archive.namelist() == sorted(FILES)


def _of(*entries: tuple[str | zipfile.ZipInfo, bytes], **options: int) -> Make:
    return lambda path: zip_of(path, *entries, **options)


def _field(name: str, offset: int, value: bytes) -> Make:
    return lambda path: with_field(zip_of(path, (name, b"x")), name, offset=offset, value=value)


def _without_encoding(name: str) -> Make:
    def make(path: Path) -> Path:
        content = with_field(zip_of(path, (raw_entry(name), b"x")), name, offset=FLAGS, value=b"\0\0").read_bytes()
        path.write_bytes(content[:6] + b"\0\0" + content[8:])  # also in front of the file's content
        return path

    return make


def _with_second_name(path: Path) -> Path:
    entry = raw_entry("shown")
    field = b"\x01" + zlib.crc32(b"shown").to_bytes(4, "little") + b"other"
    entry.extra = b"\x75\x70" + len(field).to_bytes(2, "little") + field
    return zip_of(path, (entry, b"x"))


def _behind_a_script(path: Path) -> Path:
    path.write_bytes(b"#!/bin/sh\n" + zip_of(path, ("a", b"x")).read_bytes())
    return path


def _with_comment(path: Path) -> Path:
    with zipfile.ZipFile(zip_of(path, ("a", b"x")), "a") as opened:
        opened.comment = b"another list"
    return path


def _with_huge_directory(path: Path) -> Path:
    whole = zip_of(path, ("a", b"x")).read_bytes()
    start, end = whole.index(b"PK\x01\x02"), whole.index(b"PK\x05\x06")
    listed = whole[start:end] * 400_000
    tail = bytearray(whole[end:])
    tail[12:16] = len(listed).to_bytes(4, "little")
    path.write_bytes(whole[:start] + listed + bytes(tail))
    return path


HOSTILE: dict[str, tuple[Make, str]] = {
    **{
        name[:20]: (
            _of(("good", b"good"), (raw_entry(name), b"evil")),
            "leads out of the target folder|is not a plain file name",
        )
        for name in UNSAFE_NAMES
    },
    **{
        kind: (_of(("good", b"good"), (raw_entry("link", mode=mode), b"/etc/passwd")), "'link' is a link or a device")
        for kind, mode in DEVICES.items()
    },
    **{"=".join(names): (_of(*((raw_entry(name), b"") for name in names)), "occurs twice") for names in TWICE},
    **{f"{name} without its encoding": (_without_encoding(name), OTHER_NAME) for name in ("ünï", "日本")},
    "second name in a field": (_with_second_name, OTHER_NAME),
    "data before it": (_behind_a_script, "contains data that belongs to no file"),
    "comment": (_with_comment, "contains data that belongs to no file"),
    "file below a file": (_of(("a", b"1"), ("A/b", b"2")), "'a/b' lies below a file"),
    "encrypted": (_field("secret", FLAGS, b"\x01\x00"), "'secret' is encrypted"),
    "lzma": (_of(("a", b"x"), method=zipfile.ZIP_LZMA), "unsupported compression method"),
    "bzip2": (_of(("a", b"x"), method=zipfile.ZIP_BZIP2), "unsupported compression method"),
    "unknown method": (_field("a", METHOD, b"\x63\x00"), "unsupported compression method"),
    "overlapping entries": (lambda path: overlapping(path, 900, os.urandom(50_000)), BOMB),
    "large file": (lambda path: zip_of(path, ("a", bytes(64 << 20))), BOMB),
    "many files": (lambda path: zip_of(path, *((f"f{number}", bytes(1 << 20)) for number in range(60))), BOMB),
    "huge directory": (_with_huge_directory, "central directory is too large"),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(("make", "words"), HOSTILE.values(), ids=[ascii(name) for name in HOSTILE])
def test_a_hostile_archive_is_refused_and_leaves_nothing(make: Make, words: str, tmp_path: Path, place: Path) -> None:
    _refused(make(tmp_path / "x.zip"), place, words)


DAMAGED: dict[str, tuple[Make, str]] = {
    "shorter than declared": (
        lambda path: with_field(
            zip_of(path, ("a", bytes(range(256)) * 8)), "a", offset=FILE_SIZE, value=b"\xff\x0f\0\0"
        ),
        "'a' is shorter than declared",
    ),
    "longer than declared": (
        lambda path: with_field(zip_of(path, ("a", b"abcdefgh")), "a", offset=FILE_SIZE, value=b"\x03\0\0\0"),
        "not a valid zip file",
    ),
    "wrong checksum": (
        lambda path: replaced(zip_of(path, ("a", b"right"), method=zipfile.ZIP_STORED), b"right", b"wrong"),
        r"not a valid zip file \(Bad CRC",
    ),
}


@pytest.mark.parametrize(("make", "words"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_archive_is_refused(make: Make, words: str, tmp_path: Path, place: Path) -> None:
    with pytest.raises(HarnessError, match=words):
        unpack(make(tmp_path / "x.zip"), place)


@pytest.mark.parametrize("name", ["..／evil", "․․/evil", "ﬀ/..︰", "e\u0301vil", "~/evil", "-rf", "a b", "ünï/cödé"])
def test_unusual_but_safe_names_are_unpacked(name: str, tmp_path: Path, place: Path) -> None:
    archive = zip_of(tmp_path / "x.zip", (raw_entry(name), b"x"))
    unpack(archive, place)
    assert [path for path in _everything_below(tmp_path) if path.is_file() and path != archive] == [place / name]


@pytest.mark.parametrize("mode", [0o104755, 0o100000, 0o100777, 0])
def test_file_modes_in_the_archive_are_ignored(mode: int, tmp_path: Path, place: Path) -> None:
    unpack(zip_of(tmp_path / "x.zip", (raw_entry("file", mode=mode), b"x")), place)
    assert stat.S_IMODE((place / "file").stat().st_mode) & 0o7111 == 0


def test_directory_entries_are_allowed(tmp_path: Path, place: Path) -> None:
    archive = zip_of(tmp_path / "x.zip", (raw_entry("d/", mode=0o40755), b""), ("d/a", b"1"))
    assert unpack(archive, place) == ["d/a"]


def test_archives_above_the_limits_are_refused(tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = zip_of(tmp_path / "x.zip", *((f"f{number}", b"x" * 100) for number in range(9)))
    with monkeypatch.context() as patch:
        patch.setattr(archives, "_MAX_FILES", 8)
        _refused(archive, place, "9 entries, at most 8")
    monkeypatch.setattr(archives, "_MAX_BYTES", 899)
    _refused(archive, place, "900 uncompressed bytes, at most 899")
    monkeypatch.setattr(archives, "_MAX_BYTES", 900)
    assert len(unpack(archive, place)) == 9


def test_truncated_and_other_files_are_refused(tmp_path: Path, place: Path) -> None:
    whole = archive_bytes(FILES)
    archive = tmp_path / "x.zip"
    for content in (b"", b"PK", b"%PDF-1.7", whole[: len(whole) // 2], whole[:-1], whole[100:], bytes(1000)):
        archive.write_bytes(content)
        with pytest.raises(HarnessError, match=r"x\.zip: "):
            unpack(archive, place)


def test_a_missing_archive_and_a_folder_are_errors(tmp_path: Path, place: Path) -> None:
    with pytest.raises(HarnessError, match="No such file"):
        unpack(tmp_path / "absent.zip", place)
    with pytest.raises(HarnessError, match="Is a directory"):
        unpack(tmp_path, place)


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_a_corrupted_archive_never_escapes_the_folder(data: st.DataObject) -> None:
    content = bytearray(archive_bytes(FILES | {"d/e": bytes(300)}))
    for _ in range(data.draw(st.integers(1, 6))):
        # Most of what decides lies in the headers at the end.
        at = data.draw(st.integers(-min(len(content), 300), -1) | st.integers(0, len(content) - 1))
        content[at] = data.draw(st.sampled_from([0, 1, 46, 47, 92, 0x50, 0x7F, 0xFF]) | st.integers(0, 255))
    cut = data.draw(st.just(len(content)) | st.integers(0, len(content)))
    _unpacks_inside_or_is_refused(bytes(content[:cut]))


def _unpacks_inside_or_is_refused(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        (place := home / "deep" / "place").mkdir(parents=True)
        (archive := home / "x.zip").write_bytes(content)
        try:
            names = unpack(archive, place)
            assert all((place / name).is_file() for name in names)
        except HarnessError as error:
            assert str(error).endswith(".") and "\n" not in str(error)
        outside = {path for path in home.rglob("*") if place not in path.parents}
        assert outside == {archive, place, place.parent}
        assert not any(path.is_symlink() for path in home.rglob("*"))


@pytest.fixture(scope="module")
def built() -> tuple[str, bytes]:
    return harness_wheel()


@pytest.fixture(scope="module")
def files(built: tuple[str, bytes]) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(built[1])) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_contains_every_module_and_attack(files: dict[str, bytes]) -> None:
    for path in paths.PACKAGE.rglob("*.py"):
        assert files[f"harness/{path.relative_to(paths.PACKAGE).as_posix()}"] == path.read_bytes()
    assert {"harness/attacks/greedy.py", "harness/requirements.lock", "harness/rounds/demo.toml"} <= set(files)
    assert files["harness/requirements.lock"].decode() == installed_lock()


def test_the_wheel_contains_no_answers(files: dict[str, bytes]) -> None:
    answers = [file for place in paths.BUILT_IN_ANSWERS for file in (place, *place.rglob("*")) if file.is_file()]
    arrays = [file for file in answers if file.suffix != ".toml"]
    assert len(arrays) > len(paths.BUILT_IN_ANSWERS)
    assert not [
        name for name in files if (name.endswith((".npy", ".npz")) and name != CONTROL_TEXT) or "__pycache__" in name
    ]
    hashes = {hashlib.sha256(content).hexdigest() for content in files.values()}
    assert not [path for path in arrays if hashlib.sha256(path.read_bytes()).hexdigest() in hashes]


def test_the_record_has_hash_and_size_of_each_file(files: dict[str, bytes]) -> None:
    (name,) = [name for name in files if name.endswith(".dist-info/RECORD")]
    rows = {row[0]: row[1:] for row in csv.reader(files[name].decode().splitlines())}
    assert rows.pop(name) == ["", ""] and set(rows) == set(files) - {name}
    for file, (digest, size) in rows.items():
        wanted = base64.urlsafe_b64encode(hashlib.sha256(files[file]).digest()).rstrip(b"=").decode()
        assert (digest, int(size)) == (f"sha256={wanted}", len(files[file]))


def test_an_installation_without_metadata_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # The class is that of another package if a test of this process has imported `importlib_metadata`, as MLflow does.
    found = type(importlib.metadata.distribution("extraction-harness"))
    monkeypatch.setattr(found, "read_text", lambda self, name: None)
    with pytest.raises(HarnessError, match="METADATA of its installation is missing"):
        harness_wheel()


@pytest.mark.slow
def test_pip_installs_the_wheel_and_it_is_imported(built: tuple[str, bytes], tmp_path: Path) -> None:
    (tmp_path / built[0]).write_bytes(built[1])
    site = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(site)]
    done = subprocess.run([*command, str(tmp_path / built[0])], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HARNESS_")}
    listing = subprocess.run(
        [sys.executable, "-m", "harness", "list", "attacks", "--json"],
        env=environment | {"PYTHONPATH": str(site), "HARNESS_HOME": str(tmp_path), "HARNESS_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert listing.returncode == 0, listing.stderr
    assert '"greedy"' in listing.stdout and str(paths.PACKAGE) not in listing.stdout


def test_times_and_modes_do_not_change_the_wheel(
    built: tuple[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    copy = tmp_path / "harness"
    shutil.copytree(paths.PACKAGE, copy, copy_function=shutil.copyfile)
    shutil.copytree(paths.PACKAGE.parent / "attacks", tmp_path / "attacks", copy_function=shutil.copyfile)
    shutil.copy(paths.PACKAGE.parent / "requirements.lock", tmp_path)
    for number, path in enumerate(sorted(copy.rglob("*"), reverse=True)):
        os.utime(path, (number, number))
    (copy / "core" / "arrays.py").chmod(0o700)
    (copy / "__pycache__").mkdir(exist_ok=True)
    (copy / "__pycache__" / "x.cpython-311.pyc").write_bytes(b"x")
    answers = tuple(copy / place.relative_to(paths.PACKAGE) for place in paths.BUILT_IN_ANSWERS)
    monkeypatch.setattr(paths, "PACKAGE", copy)
    monkeypatch.setattr(paths, "BUILT_IN_ANSWERS", answers)
    monkeypatch.setattr(wheel, "built_in_folder", lambda: tmp_path / "attacks")
    assert harness_wheel() == built
