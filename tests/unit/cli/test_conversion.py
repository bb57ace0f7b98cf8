"""A GGUF file as a target: converted once, in a process of its own, and then a directory like any other."""

import hashlib
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.cli import conversion
from harness.cli.conversion import find_gguf
from harness.cli.resolving import current_weights, find_target
from harness.core.errors import HarnessError
from harness.core.files import remove_tree
from harness.core.spec import TargetRecord
from harness.engine.resolving import ResolvedTarget
from harness.submit.execution import StepResult
from tests.tools.gguf_files import write_gguf


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty directory of conversions."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "converted"


def _no_conversion(*arguments: object, **options: object) -> StepResult:
    raise AssertionError("converted again")


def test_a_file_is_converted_once_and_again_if_its_conversion_is_damaged(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_gguf(tmp_path / "m.gguf")
    first = find_target(str(file))
    assert first.id == str(file) and first.path.parent == home
    assert first.source_sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert sorted(entry.name for entry in home.iterdir()) == sorted([first.path.name, "lock"])
    with monkeypatch.context() as patch:
        patch.setattr(conversion, "run_step", _no_conversion)
        assert find_target(str(file)) == first
        # The only GGUF file of a directory is the target that it leads to.
        assert find_target(str(tmp_path)) == ResolvedTarget(**vars(first) | {"id": str(tmp_path)})
    weights = first.path / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + b"\0" + b"\0")
    assert find_target(str(file)) == first
    assert weights.read_bytes() == content


@pytest.mark.slow
def test_a_run_is_resumed_after_the_cache_was_emptied(home: Path, tmp_path: Path) -> None:
    target = find_target(str(write_gguf(tmp_path / "m.gguf")))
    record = TargetRecord(**vars(target), device="cpu", dtype="auto", threads=1)
    remove_tree(home)
    assert current_weights(SimpleNamespace(targets=[record])) == (target.weights_sha256,)
    (tmp_path / "m.gguf").unlink()
    remove_tree(home)
    assert current_weights(SimpleNamespace(targets=[record])) == (None,)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda file: file.write_bytes(b"GGUF"), "not a complete GGUF file"),
        (lambda file: write_gguf(file, architecture="bert"), "transformers .* cannot read it"),
    ],
)
def test_a_failure_is_one_sentence_and_leaves_nothing(home: Path, tmp_path: Path, change, sentence: str) -> None:
    file = tmp_path / "m.gguf"
    change(file)
    with pytest.raises(HarnessError, match=f"m.gguf: {sentence}"):
        find_target(str(file))
    assert [entry.name for entry in home.iterdir()] == ["lock"]


@pytest.mark.slow
@pytest.mark.parametrize("event", ["killed", "interrupted", "too slow"])
def test_an_end_in_the_middle_leaves_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, event: str
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    run_step = conversion.run_step
    file = write_gguf(tmp_path / "m.gguf")
    if event == "killed":
        monkeypatch.setattr(conversion.sys, "executable", shutil.which("false"))
    elif event == "too slow":
        monkeypatch.setattr(conversion, "_SECONDS", 0.1)
    else:
        monkeypatch.setattr(
            conversion, "run_step", lambda *a, **options: run_step(*a, **options | {"on_wait": interrupt})
        )
    with pytest.raises(KeyboardInterrupt if event == "interrupted" else HarnessError) as caught:
        find_target(str(file))
    assert event == "interrupted" or "m.gguf: the conversion failed" in str(caught.value)
    assert [entry.name for entry in home.iterdir()] == ["lock"]


def test_what_a_killed_command_left_is_deleted(home: Path, tmp_path: Path) -> None:
    (home / ".work-abc" / "scratch").mkdir(parents=True)
    with conversion._sole_conversion(home) as work:
        assert [entry.name for entry in home.iterdir() if entry.name != "lock"] == [work.name]


def test_the_extra_is_named_if_it_is_missing(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_gguf(tmp_path / "m.gguf")
    monkeypatch.setattr("harness.core.extras.EXTRAS", {"torch": (), "gguf": ("no_such_module",)})
    with pytest.raises(HarnessError, match=r"m\.gguf needs it\. .* pip install -e '\.\[gguf\]'"):
        find_target(str(file))


def test_a_file_is_found_by_suffix_or_content(tmp_path: Path) -> None:
    assert find_gguf(str(tmp_path)) is None
    for name in ("sha256-0123", "m-00001-of-00002.gguf", "m-00002-of-00002.gguf"):
        (tmp_path / name).write_bytes(b"GGUF")
        assert find_gguf(str(tmp_path / name)) == tmp_path / name
    with pytest.raises(HarnessError, match=r"contains 2 GGUF files, such as m-00001-of-00002\.gguf\. Name one"):
        find_gguf(str(tmp_path))
    (tmp_path / "config.json").touch()
    assert find_gguf(str(tmp_path)) is None
    os.mkfifo(tmp_path / "pipe.gguf")
    for name in ("pipe.gguf", "none.gguf"):
        with pytest.raises(HarnessError, match=r"(neither a directory nor a|no such directory or) GGUF file: "):
            find_target(str(tmp_path / name))
