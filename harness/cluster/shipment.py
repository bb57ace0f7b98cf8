"""Shipments to a node: a run or the request of a worker, and files named by the hash of their content."""

import contextlib
import functools
import hashlib
import os
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from pydantic import BaseModel

from harness.core.errors import HarnessError
from harness.core.examples import load_prefixes, load_training
from harness.core.files import (
    atomic_file,
    file_errors,
    file_sha256,
    file_version,
    remove_tree,
    sync_folder,
    sync_tree,
    try_lock,
)
from harness.core.inputs import files_in
from harness.core.requests import write_inputs
from harness.core.spec import TargetConfig
from harness.runs.folder import RunFolder
from harness.runs.specs import AttackSpec
from harness.sweeps.running import PlannedRun

_MAX_TRANSFER_SECONDS = 86_400.0
ModelType = TypeVar("ModelType", bound=TargetConfig)

Chunks = Iterable[bytes]
FileSet = Mapping[str, Mapping[str, str]]
"""The files that a job reads, in parts: for each part, the SHA-256 of each content by relative name.

The parts are `code` and `inputs`, the run's directories of these names, `target` and `reference`, the models,
`adapter:target` and `adapter:reference`, their adapters, `path:NAME` for a path parameter, and `record`, the store of a
run that was begun elsewhere. A single file has the name "".
"""
CHUNK_BYTES = 32 << 20


class ContentStore:
    """A directory of files that are named by the SHA-256 of their content, and of directories made of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def file(self, sha256: str, fetch: Callable[[], Chunks]) -> Path:
        """Return the file with this content; `fetch` returns the content if it is absent.

        Of several processes that need the same content, one fetches it. Raises HarnessError if what was fetched has
        another hash.
        """
        path = self._folder / "files" / sha256
        if path.is_file():
            return path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = try_lock(path.with_suffix(".lock"), patience=_MAX_TRANSFER_SECONDS)
        if lock is None:
            raise HarnessError(f"{path}: another process has been fetching it for a day. Stop that process.")
        with lock:
            if not path.is_file():
                digest = hashlib.sha256()
                with atomic_file(path) as file:
                    for chunk in fetch():
                        digest.update(chunk)
                        file.write(chunk)
                    if digest.hexdigest() != sha256:
                        raise HarnessError(
                            f"{path}: the content was damaged on its way (its hash differs). Resume the sweep."
                        )
        return path

    def tree(self, files: Mapping[str, str], fetch: Callable[[str], Chunks]) -> Path:
        """Return a directory with `files`, by relative name the hash of each; `fetch` returns the content of a hash.

        Raises HarnessError if a name leads out of the directory.
        """
        listing = "".join(f"{sha256}  {name}\n" for name, sha256 in sorted(files.items()))
        path = self._folder / "trees" / hashlib.sha256(os.fsencode(listing)).hexdigest()
        if path.is_dir():
            return path
        partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        try:
            partial.mkdir(parents=True)
            for name, sha256 in files.items():
                place = PurePosixPath(name)
                if place.is_absolute() or ".." in place.parts:
                    raise HarnessError(f"{name}: not a name inside the directory.")
                (partial / place).parent.mkdir(parents=True, exist_ok=True)
                os.link(self.file(sha256, functools.partial(fetch, sha256)), partial / place)
            sync_tree(partial)
            partial.rename(path)
            sync_folder(path.parent)
        except OSError:
            # Another process may have been faster.
            if not path.is_dir():
                raise
        finally:
            with contextlib.suppress(OSError):
                remove_tree(partial)
        return path

    def located(self, files: FileSet, fetch: Callable[[str], Chunks]) -> dict[str, Path]:
        """Return the file or the directory of each part of a file set. Raises HarnessError as `tree` does."""
        return {
            name: self.file(part[""], functools.partial(fetch, part[""])) if "" in part else self.tree(part, fetch)
            for name, part in files.items()
        }


class Shipment(BaseModel, frozen=True, extra="forbid"):
    """A run as a node receives it: the spec that the driver planned, without answers, and the files.

    The paths in the spec do not exist on the node.
    """

    spec: AttackSpec
    files: dict[str, dict[str, str]]

    @property
    def contents(self) -> set[str]:
        """The hash of every content that the run needs."""
        return {sha256 for part in self.files.values() for sha256 in part.values()}


def chunks_of(file: Path) -> Iterator[bytes]:
    """Yield the content of a file in parts of at most CHUNK_BYTES."""
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk


class Packer:
    """Makes shipments, and remembers the hashes of files that many runs need."""

    def __init__(self) -> None:
        self._hashes: dict[tuple[Path, tuple[int, ...]], str] = {}
        self._inputs: dict[str, dict[str, str]] = {}
        self.contents: dict[str, Path] = {}
        """A file with each content of all shipments so far, by SHA-256."""

    def shipment(self, planned: PlannedRun) -> Shipment:
        """Return the shipment of a run. Raises HarnessError if a file cannot be read."""
        spec = planned.spec
        with file_errors():
            parts = {
                "code": {spec.attack.file: self._add_file(planned.attack.path)},
                "inputs": self._worker_inputs(spec),
                "record": self._record(RunFolder.of(spec.id)),
            }
            return Shipment(spec=without_answers(spec), files=self.with_named_files(spec, parts))

    def with_named_files(self, spec: AttackSpec, parts: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        """Return `parts`, and the files of models and path parameters. Raises HarnessError if one has the answers."""
        files = parts | {role: self.files_below(model.path) for role, model in spec.models_by_role.items()}
        adapters = {role: model.adapter for role, model in spec.models_by_role.items() if model.adapter}
        files |= {f"adapter:{role}": self.files_below(adapter.path) for role, adapter in adapters.items()}
        files |= {f"path:{name}": self.files_below(record.path) for name, record in spec.paths.items()}
        answers = spec.round.file_with_answers
        if answers is not None and any(spec.data_sha256.get(str(answers)) in part.values() for part in files.values()):
            raise HarnessError(
                f"{answers}: the round's answers are among the files of the target or of a parameter, and are not sent "
                "to a node. Move them elsewhere."
            )
        return files

    def _record(self, folder: RunFolder) -> dict[str, str]:
        """Return the files of the store of a run that exists here. Raises HarnessError if it is alive."""
        if not folder.spec_file.is_file():
            return {}
        if folder.is_alive:
            raise HarnessError(f"{folder.id} is running on this machine. Stop it, then resume the sweep.")
        return {file.name: self._add_file(file) for file in (folder.store, folder.write_ahead_log) if file.is_file()}

    def files_below(self, path: Path) -> dict[str, str]:
        """Return the files below a directory, or a single file as "", and add them to the contents."""
        if path.is_file():
            return {"": self._add_file(path)}
        return {file.relative_to(path).as_posix(): self._add_file(file) for file in files_in(path)}

    def _add_file(self, path: Path) -> str:
        key = path, file_version(path)
        if key not in self._hashes:
            self._hashes[key] = file_sha256(path)
        sha256 = self._hashes[key]
        self.contents.setdefault(sha256, path)
        return sha256

    def _worker_inputs(self, spec: AttackSpec) -> dict[str, str]:
        """Return the files that the supervisor would write for the worker, which hold no answer."""
        key = f"{spec.round.model_dump_json()} {spec.examples} {sorted(spec.data_sha256.items())}"
        if key not in self._inputs:
            folder = Path(self._inputs_folder.name) / str(len(self._inputs))
            folder.mkdir()
            prefixes = load_prefixes(spec.round)[: spec.examples]
            write_inputs(folder, prefixes=prefixes, training=load_training(spec.round))
            self._inputs[key] = self.files_below(folder)
        return self._inputs[key]

    @functools.cached_property
    def _inputs_folder(self) -> "tempfile.TemporaryDirectory[str]":
        """The directory of the inputs of workers, which is deleted with this object."""
        return tempfile.TemporaryDirectory()


def without_answers(spec: AttackSpec) -> AttackSpec:
    """Return a spec whose round names no file: it is blind, and its inputs are read from the directory of the run."""
    absent = dict.fromkeys(
        ("answer_file", "preprefix_file", "train_prefix_file", "train_suffix_file", "train_preprefix_file")
    )
    round_ = spec.round.model_copy(
        update=absent | {"fold": None, "source": None, "answer_rows": None, "train_rows": None}
    )
    return spec.model_copy(update={"round": round_, "data_sha256": {}})


def model_on_node(model: ModelType, role: str, located: Mapping[str, Path], **place: Any) -> ModelType:
    """Return a model with the directories of a node, by part of the shipment, and its place there."""
    adapter = model.adapter and model.adapter.model_copy(update={"path": located[f"adapter:{role}"]})
    return model.model_copy(update={"path": located[role], "adapter": adapter, **place})


def bound_to_node(shipped: AttackSpec, located: Mapping[str, Path], *, device: str) -> AttackSpec:
    """Return the spec with the paths of a node, by part of the shipment, and with the device that the node gives it."""
    models = {
        role: model_on_node(model, role, located, device=device) for role, model in shipped.models_by_role.items()
    }
    paths = {
        name: record.model_copy(update={"path": located[f"path:{name}"]}) for name, record in shipped.paths.items()
    }
    return shipped.model_copy(
        update={
            **models,
            "paths": paths,
            "params": shipped.params | {name: str(record.path) for name, record in paths.items()},
            # The node divides its processors and GPUs among runs itself. A GPU is given to one run at a time.
            "shares_device": device == "cpu",
        }
    )
