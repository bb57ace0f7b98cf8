"""Find the attacks in their directories and entry points, without importing any of them."""

import hashlib
import importlib.metadata
from collections.abc import Iterator
from dataclasses import dataclass, fields
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from harness.core import paths
from harness.core.errors import HarnessError, missing_path, unknown_name
from harness.core.files import file_errors, read_start
from harness.core.text import display_name
from harness.plugins.declarations import Declaration, declaration_in, missing_distribution

NAMED_FOLDER = "--attacks "
"""The beginning of the origin of an attack in a directory that the user named."""
ENTRY_POINT_GROUP = "harness.attacks"
BUILT_IN = "built-in"
"""The origin of an attack that is part of the package."""
MAX_SOURCE_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class AttackFile(Declaration):
    """An attack as its source declares it. If `error` is set, only name, path and origin are known.

    name: the declared name, or that of the file.
    """

    path: Path
    """File of the attack."""
    origin: str
    """Place where it was found: `--attacks DIR`, `./attacks`, `built-in` or `entry point DISTRIBUTION`."""
    sha256: str = ""
    """SHA-256 of the file. Empty if it could not be read."""
    error: str | None = None
    """Reason that the attack cannot be used. Null if it can."""

    @property
    def declared(self) -> dict[str, Any]:
        """The values that the class declares, by name."""
        return {field.name: getattr(self, field.name) for field in fields(Declaration)}

    @property
    def shown_name(self) -> str:
        """The name for people, which marks a control."""
        return display_name(self.name, is_control=self.control)


def find_attacks(extra: Path | None = None) -> tuple[AttackFile, ...]:
    """Return all attacks, sorted by name. Broken ones have an error.

    The search goes through the directory `extra`, ./attacks, the built-in attacks and entry points. The first attack of
    a name wins. If two files of one directory have the same name, the second is an error. Raises HarnessError if
    `extra` does not exist or a directory cannot be read.
    """
    if extra is not None and not extra.is_dir():
        raise missing_path(extra, "directory of --attacks")
    attacks: dict[str, AttackFile] = {}
    duplicates: list[AttackFile] = []
    for attack in (*_attacks_in_directories(extra), *_attacks_from_entry_points()):
        first = attacks.setdefault(attack.name, attack)
        if first is not attack and first.path != attack.path and first.path.parent == attack.path.parent:
            error = f"{first.path.name} already uses the name {attack.name}. Choose another name."
            duplicates.append(_broken(attack.path, attack.origin, error, name=attack.name, digest=attack.sha256))
    return tuple(sorted((*attacks.values(), *duplicates), key=lambda attack: (attack.name, attack.error is not None)))


def attack_named(name: str, extra: Path | None = None) -> AttackFile:
    """Return the attack with this name. Raises HarnessError if there is none, or with its error if it is broken."""
    attacks = find_attacks(extra)
    for attack in attacks:
        if attack.name == name:
            if attack.error is not None:
                raise HarnessError(attack.error)
            return attack
    raise unknown_name("attack", name, {attack.name for attack in attacks}, see="harness list attacks")


def attack_folders(extra: Path | None) -> dict[Path, str]:
    """Return the directories of attacks that exist, in search order, each with its name for people."""
    origins: dict[Path, str] = {}
    candidates = ((extra, f"{NAMED_FOLDER}{extra}"), (Path("attacks"), "./attacks"), (built_in_folder(), BUILT_IN))
    for folder, origin in candidates:
        if folder is not None and folder.is_dir():
            origins.setdefault(folder.resolve(), origin)
    return origins


def _attacks_in_directories(extra: Path | None) -> Iterator[AttackFile]:
    built_in = built_in_folder()
    for folder, origin in attack_folders(extra).items():
        with file_errors(folder):
            files = sorted(path for path in folder.glob("*.py") if path.is_file() and not path.name.startswith("_"))
        for file in files:
            yield _attack_in(file, BUILT_IN if folder == built_in else origin)


def built_in_folder() -> Path | None:
    """Return the directory of the built-in attacks: inside the package of a wheel, or next to it in a clone."""
    inside, checkout = paths.PACKAGE / "attacks", paths.PACKAGE.parent / "attacks"
    if inside.is_dir():
        return inside.resolve()
    # A directory `attacks` in site-packages belongs to another package.
    is_checkout = checkout.is_dir() and (paths.PACKAGE.parent / "pyproject.toml").is_file()
    return checkout.resolve() if is_checkout else None


def _attacks_from_entry_points() -> Iterator[AttackFile]:
    for entry in sorted(importlib.metadata.entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name):
        origin = f"entry point {entry.dist.name if entry.dist is not None else entry.value}"
        file = _module_file(entry)
        if file is None:
            error = f"{origin}: no source file found for {entry.value}. Reinstall the package."
            yield AttackFile(name=entry.name, path=Path(entry.value), origin=origin, error=error)
        else:
            yield _attack_in(file, origin)


def _module_file(entry: importlib.metadata.EntryPoint) -> Path | None:
    """Return the source file of the module that `entry` names, from its distribution or from the module search path."""
    module = entry.value.partition(":")[0].partition("[")[0].strip()
    stem = module.replace(".", "/")
    if entry.dist is not None:
        for file in entry.dist.files or ():
            if file.as_posix() in (f"{stem}.py", f"{stem}/__init__.py"):
                return Path(str(entry.dist.locate_file(file))).resolve()
    # An editable install lists no sources. find_spec(module) would import the parent packages; this does not.
    search_path, origin = None, None
    for part in module.split("."):
        spec = PathFinder.find_spec(part, search_path)
        if spec is None:
            return None
        search_path, origin = list(spec.submodule_search_locations or ()), spec.origin if spec.has_location else None
    return None if origin is None else Path(origin).resolve()


def _attack_in(file: Path, origin: str) -> AttackFile:
    try:
        source = read_start(file, MAX_SOURCE_BYTES + 1)
    except OSError as error:
        return _broken(file, origin, f"cannot be read ({error.strerror}).")
    except HarnessError as error:
        return _broken(file, origin, str(error))
    if len(source) > MAX_SOURCE_BYTES:
        return _broken(file, origin, "larger than 1 MiB. Move data out of the source.")
    digest = hashlib.sha256(source).hexdigest()
    try:
        declared = declaration_in(source)
    except HarnessError as error:
        return _broken(file, origin, str(error), digest=digest)
    missing = missing_distribution(declared.requires)
    problem = (
        None if missing is None else f"{file}: requires {missing}, which is not installed. Install it, or remove it."
    )
    return AttackFile(path=file, origin=origin, sha256=digest, error=problem, **vars(declared))


def _broken(file: Path, origin: str, error: str, *, name: str | None = None, digest: str = "") -> AttackFile:
    return AttackFile(name=name or file.stem, path=file, origin=origin, sha256=digest, error=f"{file}: {error}")
