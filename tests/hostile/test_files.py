"""Commands refuse a stranger's files in a sentence: within bounded memory, and without waiting for a named pipe."""

import json
import os
import resource
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.demo import SIZES
from tests.functional.bundler import FAST, OWN_ENVIRONMENT, Bundler, Packed, altered
from tests.functional.machine import Machine
from tests.tools.tiers import first_is_fast

pytestmark = pytest.mark.slow
MEMORY_BYTES = 12 << 30
"""The address space of a command: enough for the libraries that it loads, and less than a machine's memory."""
SECONDS = 120
LONGEST_OUTPUT = 4_000
HASH = f" --hash=sha256:{'0' * 64}"


def _limit_memory() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _outcome(machine: Machine, *arguments: str) -> tuple[int, str]:
    """Run a command with little memory, and return its exit code and its output. It must end soon and say little."""
    quiet = Machine(machine.folder, machine.environment | {"RUST_BACKTRACE": "0"})
    process = quiet.start(*arguments, preexec_fn=_limit_memory)
    try:
        out, err = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    said = out + err
    assert process.returncode >= 0, f"killed by signal {-process.returncode}: {said[-500:]}"
    assert "Traceback" not in said and "internal error" not in said, said
    assert len(said) < LONGEST_OUTPUT
    return process.returncode, said


def _refusal(machine: Machine, *arguments: str) -> str:
    """Return the sentence with which a command refuses its input."""
    code, said = _outcome(machine, *arguments)
    assert code in (1, 2) and said.splitlines()[-1].startswith(("harness: ", "error: ")), (code, said)
    return said


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A copy of the smallest demo target."""
    return shutil.copytree(SIZES[-1].weights, tmp_path / "model")


def _link_to_zeros(file: Path) -> None:
    file.symlink_to("/dev/zero")


def _link_to_itself(file: Path) -> None:
    file.symlink_to(file.name)


def _loop_of_two(file: Path) -> None:
    file.symlink_to(f"{file.name}.other")
    Path(f"{file}.other").symlink_to(file.name)


NO_FILES: dict[str, Callable[[Path], None]] = {
    "named pipe": os.mkfifo,
    "endless device": _link_to_zeros,
    "link to itself": _link_to_itself,
    "loop of two links": _loop_of_two,
}


@pytest.mark.hostile("gives a device, a pipe or a link loop as a file of a model")
@pytest.mark.parametrize("name", ["model.safetensors.index.json", "config.json", "tokenizer.json", "x"])
@pytest.mark.parametrize("kind", first_is_fast(NO_FILES))
def test_a_file_of_a_model_that_is_none_is_named(machine: Machine, model: Path, kind: str, name: str) -> None:
    (model / name).unlink(missing_ok=True)
    NO_FILES[kind](model / name)
    if name.endswith(".index.json"):
        (model / "model.safetensors").unlink()
    said = _refusal(machine, "run", "greedy", "--round", "demo", "--target", str(model), "--limit", "5")
    assert name in said or str(model) in said


_MULTIPLYING = {"type": "Replace", "pattern": {"Regex": ""}, "content": "x" * 1_000}


@pytest.mark.hostile("multiplies text with a tokenizer")
@pytest.mark.parametrize("part", ["normalizer", "decoder"])
@pytest.mark.parametrize("steps", [1, 6])
def test_a_tokenizer_that_multiplies_text_is_refused(machine: Machine, model: Path, part: str, steps: int) -> None:
    content = json.loads((model / "tokenizer.json").read_text())
    kind, name = ("Sequence", "normalizers" if part == "normalizer" else "decoders")
    change = {part: {"type": kind, name: [_MULTIPLYING] * steps}}
    (model / "tokenizer.json").write_text(json.dumps(content | change))
    (machine.folder / "pairs.jsonl").write_text(json.dumps({"prefix": "a b c " * 9, "suffix": "d e f " * 9}) + "\n")
    options = ("--prefix-tokens", "4", "--suffix-tokens", "4", "--target", str(model))
    assert "refused tokenizer" in _refusal(machine, "audit", "leakage", "pairs.jsonl", *options)


@pytest.mark.hostile("gives a device, a pipe or a link loop as a corpus")
@pytest.mark.parametrize("kind", first_is_fast(NO_FILES))
@pytest.mark.parametrize("audit", ["sequence", "leakage", "membership"])
def test_a_corpus_that_is_no_file_is_refused(machine: Machine, model: Path, kind: str, audit: str) -> None:
    NO_FILES[kind](machine.folder / "x.jsonl")
    _refusal(machine, "audit", audit, "x.jsonl", "--target", str(model))


LINES = {
    "blanks": f"a==1 ;{' ' * 50_000}x",
    "comments": f"a==1 {'#' * 60_000}",
    "tabs": f"a==1{chr(9) * 50_000}; x",
    "continuations": f"a==1{HASH} \\\n" * 30_000,
    "brackets": f"a==1 ; {'(' * 20_000}",
}


@pytest.fixture
def packed(bundler: Bundler) -> Packed:
    return bundler.package("draws", *FAST)


@pytest.mark.hostile("hangs the verification of bundles with a lock")
@pytest.mark.parametrize("name", first_is_fast(LINES, fast=2))
def test_a_lock_hangs_neither_a_verdict_nor_the_leaderboard(
    bundler: Bundler, packed: Packed, tmp_path: Path, name: str
) -> None:
    (entries := tmp_path / "entries").mkdir()
    changes = {"code/requirements.txt": f"{LINES[name]}\n".encode()}
    bundle = altered(packed.zip, entries / "a-hostile.zip", changes)
    code, said = _outcome(bundler.machine, "bundle", "verify", str(bundle), *bundler.round, *OWN_ENVIRONMENT)
    assert code == 1 and "requirements.txt" in said
    shutil.copy(packed.zip, entries / "b-good.zip")
    command = ("bundle", "rank", str(entries), *bundler.round, "--verify", *OWN_ENVIRONMENT)
    board = {entry["bundle"]: entry for entry in bundler.machine.json(*command)["entries"]}
    assert board["b-good.zip"]["verified"] == "reproduced" and board["a-hostile.zip"]["unranked"]


@pytest.mark.hostile("prints a name or a version of 500 characters with a lock")
@pytest.mark.parametrize("pin", [f"a=={'1.' * 250}1", f"{'a' * 500}==1"])
def test_a_long_pin_is_shortened(bundler: Bundler, packed: Packed, tmp_path: Path, pin: str) -> None:
    bundle = altered(packed.zip, tmp_path / "x.zip", {"code/requirements.txt": f"{pin}{HASH}\n".encode()})
    said = bundler.machine.run("bundle", "verify", str(bundle), *bundler.round, *OWN_ENVIRONMENT, code=1).stderr
    assert "this environment differs from the bundle's lock" in said and len(said) < 600
