"""Directories of models and adapters that a stranger made: links, devices, pipes, and the round's answers in files."""

import json
import os
import re
import shutil
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from harness.cli.resolving import find_target
from harness.core import paths
from harness.core.errors import HarnessError
from harness.core.files import remove_tree
from harness.core.inputs import cached_files, content_sha256, files_in
from harness.corpora.documents import visible_files
from harness.demo import SIZES
from harness.engine.loading import load_target
from harness.engine.resolving import resolve_target
from tests.functional.machine import Machine, write_tiny_demo
from tests.tools.adapters import CONFIG, write_adapter
from tests.tools.gguf_files import write_gguf

TINY = SIZES[-1].weights
INDEX = "model.safetensors.index.json"


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Path]:
    """A copy of the smallest demo target."""
    yield shutil.copytree(TINY, tmp_path / "models" / "copy")
    remove_tree(tmp_path / "models")


def _replace(file: Path, create: Callable[[Path], object]) -> None:
    file.unlink(missing_ok=True)
    create(file)


NO_FILES: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "endless device": lambda file: file.symlink_to("/dev/zero"),
    "terminal": lambda file: file.symlink_to("/dev/tty"),
    "link to /etc/passwd": lambda file: file.symlink_to("/etc/passwd"),
    "link to a link": lambda file: file.symlink_to(_linked(file.parent.parent / "hop", Path("/etc/passwd"))),
    "link to /proc": lambda file: file.symlink_to("/proc/self/environ"),
    "link upwards": lambda file: file.symlink_to("../../.."),
    "link to itself": lambda file: file.symlink_to(file.name),
}


def _linked(link: Path, target: Path) -> Path:
    link.symlink_to(target)
    return link


@pytest.mark.parametrize("name", ["model.safetensors", INDEX, "config.json", "tokenizer.json"])
@pytest.mark.parametrize("kind", NO_FILES)
def test_a_model_consists_of_regular_files(model: Path, kind: str, name: str) -> None:
    _replace(model / name, NO_FILES[kind])
    if name == INDEX:
        (model / "model.safetensors").unlink()
    with pytest.raises(HarnessError, match=r"is a link that lea(ves its directory|ds to itself)|not a regular file"):
        resolve_target(str(model))


def test_a_socket_and_a_deep_tree_in_a_model_are_one_sentence_or_nothing(model: Path) -> None:
    folder = model
    for _ in range(1100):
        folder = folder / "d"
        try:
            folder.mkdir()
        except OSError:
            break  # the path is as long as the system allows
    assert resolve_target(str(model)).path == model
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(model)
        try:
            server.bind("s")
        finally:
            os.chdir(here)
    with pytest.raises(HarnessError, match="s is not a regular file"):
        resolve_target(str(model))


def test_links_inside_a_directory_and_into_the_cache_of_its_model_are_followed(tmp_path: Path) -> None:
    cache = tmp_path / "models--a--b"
    snapshot, blobs = cache / "snapshots" / "commit", cache / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    (blobs / "hash").write_text("weights")
    (snapshot / "model.safetensors").symlink_to("../../blobs/hash")
    (snapshot / "again").symlink_to("model.safetensors")
    (snapshot / "gone").symlink_to("../../blobs/none")
    assert files_in(snapshot) == [snapshot / "again", snapshot / "model.safetensors"]
    assert set(cached_files(snapshot)) == {blobs / "hash"}
    (snapshot / "other").symlink_to("../../../models--other--b/blobs/hash")
    with pytest.raises(HarnessError, match="other is a link that leaves its directory"):
        files_in(snapshot)


@pytest.mark.parametrize("place", ["blobs", "snapshots", "model"])
def test_a_cache_that_consists_of_links_shows_nothing_outside_of_it(tmp_path: Path, place: str) -> None:
    """A stranger's directory may have the layout of the hub's cache, with a link in place of one of its directories."""
    private, cache = tmp_path / "private", tmp_path / "downloads" / "models--a--b"
    (private / "snapshots" / "commit").mkdir(parents=True)
    (private / "key").write_text("key")
    for name in ("blobs", "snapshots/commit"):
        (cache / name).mkdir(parents=True)
    snapshot = cache / "snapshots" / "commit"
    if place == "blobs":
        (cache / "blobs").rmdir()
        (cache / "blobs").symlink_to(private)
        (snapshot / "model.safetensors").symlink_to("../../blobs/key")
    elif place == "snapshots":
        (cache / "blobs" / "inner").symlink_to(private)
        (snapshot / "model.safetensors").symlink_to("../../blobs/inner/key")
    else:
        (cache / "blobs" / "hash").symlink_to(private / "key")
        (snapshot / "model.safetensors").symlink_to("../../blobs/hash")
    assert cached_files(snapshot) == []
    with pytest.raises(HarnessError, match="is a link that leaves its directory"):
        files_in(snapshot)


@pytest.mark.parametrize("read", [lambda folder: list(visible_files(folder)), files_in, content_sha256])
def test_a_directory_contains_no_files_of_other_directories(read: Callable[[Path], object], tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.txt").write_text("text")
    (folder / "b.txt").symlink_to("a.txt")
    assert read(folder) in ([folder / "a.txt", folder / "b.txt"], content_sha256(folder))
    (folder / "c.txt").symlink_to("/etc/hostname")
    with pytest.raises(HarnessError, match=r"c\.txt is a link that leaves its directory"):
        read(folder)


def _gguf(fields: bytes = b"", *, tensors: int = 0, number: int = 1, rest: bytes = b"") -> bytes:
    """Return the start of a GGUF file with `number` fields and `tensors` tensors."""
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, number) + fields + rest


KEY = struct.pack("<Q", 1) + b"k"
HOSTILE_GGUF = {
    "2^60 tensors": _gguf(tensors=1 << 60, number=0, rest=bytes(1 << 16)),
    "a text of 2^62 bytes": _gguf(KEY + struct.pack("<IQ", 8, 1 << 62)),
    "an array of 2^60 numbers": _gguf(KEY + struct.pack("<IIQ", 9, 0, 1 << 60)),
    "arrays in arrays": _gguf(KEY + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 100_000),
}


@pytest.mark.slow
@pytest.mark.hostile("exhausts memory with a GGUF file")
@pytest.mark.parametrize("content", HOSTILE_GGUF)
def test_a_hostile_gguf_file_is_one_sentence(machine: Machine, content: str) -> None:
    pytest.importorskip("gguf")
    file = machine.folder / "m.gguf"
    file.write_bytes(HOSTILE_GGUF[content])
    refused = machine.run("run", "greedy", "--round", "demo", "--target", str(file), code=1)
    assert "m.gguf: not a complete GGUF file (" in refused.stderr and "Traceback" not in refused.stderr
    assert not machine.folders()


@pytest.mark.slow
@pytest.mark.hostile("asks for a model of 4 billion blocks with a GGUF file")
@pytest.mark.parametrize(
    ("field", "sentence"),
    [("block_count", "contains only 20 tensors of a model"), ("embedding_length", "cannot read it")],
)
def test_a_gguf_file_of_an_enormous_model_is_one_sentence(machine: Machine, field: str, sentence: str) -> None:
    pytest.importorskip("gguf")
    file = write_gguf(machine.folder / "m.gguf", fields={f"llama.{field}": (1 << 32) - 64})
    refused = machine.run("run", "greedy", "--round", "demo", "--target", str(file), code=1)
    assert sentence in refused.stderr and "Traceback" not in refused.stderr


@pytest.mark.parametrize("option", ["--target", "--reference"])
@pytest.mark.parametrize("how", ["copy", "hard link", "link"])
def test_a_model_with_the_answers_is_refused(machine: Machine, model: Path, how: str, option: str) -> None:
    round_file = write_tiny_demo(machine.folder)
    answers = machine.folder / "suffix.npy"
    shutil.copyfile(paths.BUILT_IN_ROUNDS / "demo" / "suffix.npy", answers)
    place = model / "training.bin"
    {"copy": shutil.copyfile, "hard link": os.link, "link": os.symlink}[how](answers, place)
    refused = machine.run("run", "two_step", "--round", str(round_file), option, str(model), code=1)
    assert "contains the round's answers" in refused.stderr or "is a link that leaves its directory" in refused.stderr
    assert not machine.folders()


def test_a_parameter_with_the_texts_of_the_demo_is_refused(machine: Machine) -> None:
    corpus = machine.folder / "texts.json"
    shutil.copyfile(paths.BUILT_IN_CORPUS, corpus)
    refused = machine.run("run", "replay", "--round", "demo", "--set", f"source={corpus}", code=1)
    assert "contains the round's answers" in refused.stderr


@pytest.mark.parametrize("where", ["--target", "--reference", "--set"])
def test_a_command_says_in_one_sentence_what_a_link_leads_to(machine: Machine, model: Path, where: str) -> None:
    (model / "notes.txt").symlink_to("/etc/passwd")
    round_file = str(write_tiny_demo(machine.folder))
    run = {
        "--target": ("greedy", "--target", str(model)),
        "--reference": ("two_step", "--reference", str(model)),
        "--set": ("replay", "--set", f"source={model}"),
    }[where]
    refused = machine.run("run", *run, "--round", round_file, code=1)
    assert "notes.txt is a link that leaves its directory, to /etc/passwd" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_what_a_worker_could_read_is_recorded(machine: Machine, model: Path) -> None:
    round_file = str(write_tiny_demo(machine.folder))
    options = ("--round", round_file, "--target", str(model), "--limit", "4", "--device", "cpu")
    summary = machine.json("run", "greedy", *options)
    assert str(model) in summary["in_force"]["readable"]


def test_every_way_to_name_a_model_refuses_a_pipe(machine: Machine, model: Path) -> None:
    _replace(model / "model.safetensors", os.mkfifo)
    texts = machine.folder / "texts"
    texts.mkdir()
    (texts / "a.txt").write_text(" ".join(["word"] * 200))
    np.save(machine.folder / "pairs.npy", np.zeros((2, 20), np.uint16))
    for command in (
        ("audit", "sequence", str(texts), "--target", str(model)),
        ("audit", "book", str(texts), "--target", str(model)),
        ("doctor", "--bench", "--target", str(model)),
        ("new", "round", str(texts), "--target", str(model), "--out", str(machine.folder / "made")),
    ):
        refused = machine.run(*command, code=1)
        assert "model.safetensors is not a regular file" in refused.stderr, command


def _safetensors(header: dict[str, object], size: int | None = None) -> bytes:
    text = json.dumps(header).encode()
    return (len(text) if size is None else size).to_bytes(8, "little") + text + bytes(64)


def _layer(name: str, **fields: object) -> bytes:
    """Return a file with the two matrices of one layer."""
    tensor = {"dtype": "F32", "shape": [4, 2], **fields}
    names = [f"base_model.model.{name}.lora_{half}.weight" for half in "AB"]
    return _safetensors({name: {"data_offsets": [32 * n, 32 * n + 32], **tensor} for n, name in enumerate(names)})


_NAME = re.escape("is not a linear layer of the base model")
HOSTILE_ADAPTERS: dict[str, tuple[str, bytes, str]] = {
    "large": ("config", json.dumps({**CONFIG, "x": "x" * (1 << 20)}).encode(), "larger than 1,048,576 bytes"),
    "deep": ("config", b'{"peft_type": "LORA", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "recursion|JSON"),
    "a list": ("config", b"[]", "adapter_config.json: "),
    "two methods": ("config", b'{"peft_type": "IA3", "peft_type": "LORA"}', "peft_type.* occurs twice"),
    "no number": ("config", b'{"peft_type": "LORA", "lora_alpha": NaN}', "adapter_config.json: "),
    "slow": ("config", json.dumps({**CONFIG, "alpha_pattern": {"(.*)*x": 1}}).encode(), "alpha_pattern is"),
    "a header beyond the file": ("weights", _safetensors({}, 1 << 40), "not a safetensors file"),
    "a header of no JSON": ("weights", (8).to_bytes(8, "little") + b"\x00" * 8, "not a safetensors file"),
    "data beyond the file": ("weights", _layer("x", data_offsets=[0, 1 << 50]), "not a safetensors file"),
    "a shape beyond its data": ("weights", _layer("x", shape=[1 << 40, 2]), "not a safetensors file"),
    "a path": ("weights", _layer("../../../etc/passwd"), _NAME),
    "an attribute": ("weights", _layer("transformer.h.0.attn.__class__"), _NAME),
    "a long name": ("weights", _layer("x" * 100_000), _NAME),
}


@pytest.mark.hostile("gives a damaged or lying file of an adapter")
@pytest.mark.parametrize("kind", HOSTILE_ADAPTERS)
def test_a_lying_adapter_is_refused_in_a_sentence(tmp_path: Path, kind: str) -> None:
    part, content, sentence = HOSTILE_ADAPTERS[kind]
    adapter = tmp_path / "adapter"
    write_adapter(adapter, TINY)
    (adapter / {"config": "adapter_config.json", "weights": "adapter_model.safetensors"}[part]).write_bytes(content)
    with pytest.raises(HarnessError, match=sentence) as refused:
        target = find_target(str(adapter), base="demo-tiny")
        load_target(target.path, adapter=target.adapter, device="cpu", threads=1)
    assert len(str(refused.value)) < 1_000


@pytest.mark.hostile("names a file or a download as the base of an adapter")
def test_nothing_that_an_adapter_says_is_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for ever
    adapter, said = tmp_path / "adapter", []
    write_adapter(adapter, TINY, base_model_name_or_path=str(tmp_path / "pipe"), revision="x", auto_mapping={"a": "b"})
    target = find_target(str(adapter), base="demo-tiny", offline=True)
    load_target(target.path, adapter=target.adapter, device="cpu", threads=1, warn=said.append)
    assert f"adapter says that it is an adapter of {tmp_path / 'pipe'}, and was merged into demo-tiny." in said
    for kind in NO_FILES:
        for name in ("adapter_config.json", "adapter_model.safetensors"):
            copy = shutil.copytree(adapter, tmp_path / "copies" / kind.replace("/", "") / name / "adapter")
            _replace(copy / name, NO_FILES[kind])
            with pytest.raises(HarnessError, match=r"is a link that lea(ves its directory|ds to itself)|regular file"):
                find_target(str(copy), base="demo-tiny")
