"""Which attacks there are and where each was found, without importing any of them."""

import hashlib
import importlib.metadata
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.machinery import PathFinder
from pathlib import Path

from harness.core import paths
from harness.core.errors import HarnessError, unknown_name
from harness.core.text import display_name
from harness.plugins.declarations import declaration_in, missing_distribution

ENTRY_POINT_GROUP = "harness.attacks"
MAX_SOURCE_BYTES = 1 << 20


@dataclass(frozen=True)
class AttackFile:
    """An attack as its source declares it; what does not hold is said in `error`, and then only where it lies is known.

    origin: `--attacks DIR`, `./attacks`, `shipped` or `entry point DISTRIBUTION`; sha256: of the source, '' when it was
    not read; name: the declared one, else the file's.
    """

    name: str
    path: Path
    origin: str
    sha256: str = ""
    summary: str = ""
    reference: str = ""
    control: bool = False
    uses_target: bool = True
    guesses_per_example: int = 1
    requires: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    network: str = "none"
    error: str | None = None

    @property
    def shown_name(self) -> str:
        """The name, and whether it is a control's."""
        return display_name(self.name, is_control=self.control)


def find_attacks(extra: Path | None = None) -> tuple[AttackFile, ...]:
    """Every attack, broken ones with their error; of one name the first place wins.

    The places: the folder `extra`, ./attacks, the shipped ones, entry points. Two files in one folder that share a name
    are both listed, the second as an error. Raises HarnessError when `extra` is no folder or a folder cannot be read.
    """
    if extra is not None and not extra.is_dir():
        raise HarnessError(f"--attacks {extra}: no such folder.")
    found: dict[str, AttackFile] = {}
    doubles: list[AttackFile] = []
    for attack in (*_in_folders(extra), *_from_entry_points()):
        first = found.setdefault(attack.name, attack)
        if first is not attack and first.path != attack.path and first.path.parent == attack.path.parent:
            error = f"{attack.path}: the name {attack.name} is taken by {first.path.name} beside it."
            doubles.append(AttackFile(attack.name, attack.path, attack.origin, attack.sha256, error=error))
    return tuple(sorted((*found.values(), *doubles), key=lambda attack: (attack.name, attack.error is not None)))


def attack_named(name: str, extra: Path | None = None) -> AttackFile:
    """The attack that `name` runs.

    Raises HarnessError when there is none (the nearest names are suggested), or it is broken (its error).
    """
    found = find_attacks(extra)
    for attack in found:
        if attack.name == name:
            if attack.error is not None:
                raise HarnessError(attack.error)
            return attack
    raise unknown_name("attack", name, {attack.name for attack in found}, see="harness attacks")


def attack_folders(extra: Path | None) -> dict[Path, str]:
    """The folders of attacks that there are now, in the order of their search, each with what it is called."""
    origins: dict[Path, str] = {}
    places = ((extra, f"--attacks {extra}"), (Path("attacks"), "./attacks"), (shipped_folder(), "shipped"))
    for folder, origin in places:
        if folder is not None and folder.is_dir():
            origins.setdefault(folder.resolve(), origin)
    return origins


def _in_folders(extra: Path | None) -> Iterator[AttackFile]:
    shipped = shipped_folder()
    for folder, origin in attack_folders(extra).items():
        try:
            files = sorted(path for path in folder.glob("*.py") if path.is_file() and not path.name.startswith("_"))
        except OSError as error:
            raise HarnessError(f"{folder}: cannot be listed ({error.strerror}).") from None
        for file in files:
            yield _attack_in(file, "shipped" if folder == shipped else origin)


def shipped_folder() -> Path | None:
    """Inside the package where a wheel put it, else beside it in a source checkout."""
    inside, beside = paths.PACKAGE / "attacks", paths.PACKAGE.parent / "attacks"
    if inside.is_dir():
        return inside.resolve()
    # A folder `attacks` in site-packages would be someone else's.
    is_checkout = beside.is_dir() and (paths.PACKAGE.parent / "pyproject.toml").is_file()
    return beside.resolve() if is_checkout else None


def _from_entry_points() -> Iterator[AttackFile]:
    for entry in sorted(importlib.metadata.entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name):
        origin = f"entry point {entry.dist.name if entry.dist is not None else entry.value}"
        file = _module_file(entry)
        if file is None:
            error = f"{origin}: no file was found for {entry.value}."
            yield AttackFile(entry.name, Path(entry.value), origin, error=error)
        else:
            yield _attack_in(file, origin)


def _module_file(entry: importlib.metadata.EntryPoint) -> Path | None:
    """The source of the module that `entry` names, by the distribution's list of files, else by the search path."""
    module = entry.value.partition(":")[0].partition("[")[0].strip()
    stem = module.replace(".", "/")
    if entry.dist is not None:
        for file in entry.dist.files or ():
            if file.as_posix() in (f"{stem}.py", f"{stem}/__init__.py"):
                return Path(str(entry.dist.locate_file(file))).resolve()
    # An editable install lists no sources. Finding part after part imports no package, as find_spec(module) would.
    places, origin = None, None
    for part in module.split("."):
        spec = PathFinder.find_spec(part, places)
        if spec is None:
            return None
        places, origin = list(spec.submodule_search_locations or ()), spec.origin if spec.has_location else None
    return None if origin is None else Path(origin).resolve()


def _attack_in(file: Path, origin: str) -> AttackFile:
    try:
        with file.open("rb") as opened:
            source = opened.read(MAX_SOURCE_BYTES + 1)
    except OSError as error:
        return AttackFile(file.stem, file, origin, error=f"{file}: cannot be read ({error.strerror}).")
    if len(source) > MAX_SOURCE_BYTES:
        return AttackFile(file.stem, file, origin, error=f"{file}: larger than 1 MiB, which no attack's source is.")
    digest = hashlib.sha256(source).hexdigest()
    try:
        declared = declaration_in(source)
    except HarnessError as error:
        return AttackFile(file.stem, file, origin, digest, error=f"{file}: {error}")
    missing = missing_distribution(declared.requires)
    needs = f"{file}: needs {missing}, which is not installed: pip install {missing}" if missing is not None else None
    return AttackFile(path=file, origin=origin, sha256=digest, error=needs, **asdict(declared))
