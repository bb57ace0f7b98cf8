"""Create bundles: runs of the small round, each packaged once, and modified copies of their bundles."""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.runs.folder import RunFolder
from harness.submit.archive import archive_bytes
from harness.submit.manifest import MANIFEST
from tests.functional.machine import Machine

TEAM = 'name = "The Two"\n\n[[members]]\nname = "A. One"\naffiliation = "Somewhere"\n'
DESCRIPTION = "# What is new\n\nNothing at all.\n"
OWN_ENVIRONMENT = ("--own-environment",)
FAST = ("--set", "pause=0", "--set", "trials=1")
"""Settings that make the plugin `draws` fast."""


@dataclass(frozen=True)
class Packed:
    """A run and its bundle."""

    run: RunFolder
    zip: Path


@dataclass(frozen=True)
class Bundler:
    """A machine where bundles are created and verified. Bundles of equal runs are created once."""

    machine: Machine
    bundles: dict[tuple[str, ...], Packed] = field(default_factory=dict)

    def package(self, attack: str, *options: str, accept: tuple[str, ...] = (), code: int = 0) -> Packed:
        """Return the bundle of a run of the test plugin `attack`. `code` is the expected exit code of the run."""
        key = (attack, *options, *accept)
        if key not in self.bundles:
            summary = self.machine.attack(attack, *options, code=code)
            path = self.machine.folder / f"{attack}-{len(self.bundles)}.zip"
            accepted = [part for check in accept for part in ("--accept", check)]
            self.machine.run("bundle", "create", summary["id"], "--out", str(path), *accepted)
            self.bundles[key] = Packed(RunFolder(Path(summary["directory"])), path)
        return self.bundles[key]

    def verify(self, bundle: Path, *options: str, code: int = 0) -> dict[str, Any]:
        """Return the verdict on `bundle` for the small round, with this Python environment."""
        return self.machine.json("bundle", "verify", str(bundle), *self.round, *OWN_ENVIRONMENT, *options, code=code)

    @property
    def round(self) -> tuple[str, str]:
        return "--round", str(self.machine.folder / "round.toml")


def files_of(bundle: Path) -> dict[str, bytes]:
    """Return the content of every file of a bundle."""
    with zipfile.ZipFile(bundle) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def altered(bundle: Path, out: Path, changes: Mapping[str, bytes | None], **fields: Any) -> Path:
    """Write a copy of the bundle to `out` with changed files (None removes one) and a consistent manifest.

    fields: replaced fields of the manifest.
    """
    files = {name: content for name, content in (files_of(bundle) | dict(changes)).items() if content is not None}
    manifest = json.loads(files.pop(MANIFEST))
    manifest["files"] = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}
    files[MANIFEST] = json.dumps(manifest | fields).encode()
    return _write_uncompressed(out, files)


def with_run_sh(bundle: Path, out: Path, *lines: str) -> Path:
    """Write a copy of the bundle to `out` with another run.sh, in which `$here` is its directory."""
    script = "\n".join(["#!/usr/bin/env bash", 'here="$(dirname "$0")"', *lines]) + "\n"
    return altered(bundle, out, {"code/run.sh": script.encode()})


def unpacked(bundle: Path, folder: Path) -> Path:
    """Unpack a bundle into `folder`, and return its directory code/."""
    for name, content in files_of(bundle).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder / "code"


def altered_files(bundle: Path, out: Path, changes: Mapping[str, bytes]) -> Path:
    """Write a copy of the bundle to `out` with changed files and the old manifest."""
    return _write_uncompressed(out, files_of(bundle) | dict(changes))


def _write_uncompressed(out: Path, files: Mapping[str, bytes]) -> Path:
    """Write a zip. The compression of the wheel would take a tenth of a second."""
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return out


def altered_wheel(bundle: Path, changes: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the wheel of a bundle with changed files, by its name in the bundle."""
    ((name, content),) = [(name, content) for name, content in files_of(bundle).items() if name.endswith(".whl")]
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {inside: archive.read(inside) for inside in archive.namelist()}
    return {name: archive_bytes(files | dict(changes))}


def finding(verdict: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the last finding with this name."""
    found: dict[str, Any] = [one for one in verdict["findings"] if one["name"] == name][-1]
    return found


def reason(verdict: dict[str, Any]) -> tuple[str, str]:
    """Return the name and the sentence of the finding that refused the bundle."""
    (found,) = [one for one in verdict["findings"] if one["holds"] is False]
    return found["name"], found["sentence"]
