"""From the name of a target to a folder on this machine and the hash of what is in it. Loads no torch."""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.errors import HarnessError
from harness.core.files import CHUNK_BYTES, write_atomically
from harness.core.paths import cache_home, expand_home
from harness.core.rounds import Round
from harness.core.text import shorten
from harness.engine.demo import SIZES as DEMO_SIZES

OnProgress = Callable[[int, int], None]
"""Called with (bytes hashed, bytes in all)."""

_WANTED = ["*.safetensors", "*.safetensors.index.json", "*.json", "merges.txt", "vocab.txt", "*.model"]
_VOCABULARY = ("vocab_size",)
_CONTEXT = ("max_position_embeddings", "n_positions")
_HASHED_BESIDE_WEIGHTS = ("config.json", "tokenizer.json")


@dataclass(frozen=True)
class ResolvedTarget:
    """A target found on this machine.

    id, revision: as asked for; commit: what a hub's revision stood for, None for folders; path: a folder in Hugging
    Face layout; weights_sha256: of `*.safetensors`, config.json and tokenizer.json; bytes: their size together.
    """

    id: str
    revision: str
    commit: str | None
    path: Path
    weights_sha256: str
    bytes: int


def require_room(target: ResolvedTarget, round_: Round) -> None:
    """Raise HarnessError when config.json says that the target lacks tokens or context that the round needs.

    What it does not say is found out when the model is loaded.
    """
    vocabulary, context = _configured(target.path, _VOCABULARY), _configured(target.path, _CONTEXT)
    if vocabulary is not None and vocabulary < round_.vocabulary:
        raise HarnessError(
            f"{target.id} predicts {vocabulary:,} tokens and the round has {round_.vocabulary:,}; name another target."
        )
    wanted = round_.prefix_length + round_.suffix_length
    if context is not None and context < wanted:
        raise HarnessError(
            f"{target.id} attends to {context:,} tokens; the round's prefix and suffix take {wanted:,}: name another "
            "target."
        )


def require_no_further_tokens(target: ResolvedTarget, round_: Round) -> None:
    """Raise HarnessError when config.json says that the target predicts tokens that no suffix of the round may hold."""
    vocabulary = _configured(target.path, _VOCABULARY)
    if vocabulary is not None and vocabulary > round_.vocabulary:
        raise HarnessError(
            f"{target.id} predicts {vocabulary:,} tokens and the round has {round_.vocabulary:,}; name another target, "
            f"or, where its further ids are padding, a round of `vocabulary = {vocabulary}`."
        )


def _configured(path: Path, names: tuple[str, ...]) -> int | None:
    """What config.json says under the first of `names` that it has; None when it says no number."""
    try:
        config = json.loads((path / "config.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    found = [config[name] for name in names if isinstance(config, dict) and isinstance(config.get(name), int)]
    return found[0] if found else None


def resolve_target(
    id_: str, revision: str = "main", *, offline: bool | None = None, on_progress: OnProgress | None = None
) -> ResolvedTarget:
    """The target called `id_`: a shipped one, a local folder, or a model id on the Hugging Face hub at `revision`.

    Shipped are `demo` and its smaller sizes `demo-small` and `demo-tiny`. The hub's cache comes first; offline (None:
    as HF_HUB_OFFLINE says) it is all there is. Raises HarnessError when the target is neither here nor to be had.
    """
    commit = None
    shipped = {size.name: size.weights for size in DEMO_SIZES}
    if id_ in shipped:
        path = shipped[id_]
    elif (folder := expand_home(id_)).is_dir():
        path = folder.resolve()
    elif id_.startswith(("./", "../", "/", "~")):
        raise HarnessError(f"{id_}: no such folder, and a target is a folder with config.json and *.safetensors.")
    else:
        path = _hub_folder(id_, revision, offline)
        commit = path.name
    files = _identifying_files(path)
    sha256 = _combined_sha256(files, on_progress or (lambda done, total: None))
    return ResolvedTarget(id_, revision, commit, path, sha256, sum(file.stat().st_size for file in files))


def _identifying_files(path: Path) -> list[Path]:
    if not (path / "config.json").exists():
        raise HarnessError(f"{path}: not a model folder, it has no config.json.")
    weights = list(path.glob("*.safetensors"))
    if not weights:
        raise HarnessError(f"{path}: no *.safetensors here, and weights in other formats may run code when read.")
    beside = [path / name for name in _HASHED_BESIDE_WEIGHTS if (path / name).exists()]
    return sorted([*weights, *beside], key=lambda file: file.name)


def _combined_sha256(files: list[Path], on_progress: OnProgress) -> str:
    """SHA-256 over the lines that `sha256sum` prints for the files, in the order of their names.

    What a file hashed to is remembered for as long as its path, size and time of change stay the same.
    """
    memory = cache_home() / "hashes.json"
    known = _known_hashes(memory)
    total, done = sum(file.stat().st_size for file in files), 0
    lines, has_news = [], False
    for file in files:
        real = file.resolve()
        stat = real.stat()
        key = [stat.st_size, stat.st_mtime_ns]
        entry = known.get(str(real))
        if isinstance(entry, list) and entry[:2] == key and len(entry) == 3:
            sha256 = str(entry[2])
        else:
            sha256 = _sha256(real, lambda bytes_, done=done: on_progress(done + bytes_, total))  # type: ignore[misc]
            known[str(real)] = [*key, sha256]
            has_news = True
        done += stat.st_size
        on_progress(done, total)
        lines.append(f"{sha256}  {file.name}\n")
    if has_news:
        # A cache that cannot be written costs time, not the run.
        with contextlib.suppress(OSError):
            memory.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(memory, json.dumps(known))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _known_hashes(memory: Path) -> dict[str, Any]:
    try:
        known = json.loads(memory.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _sha256(path: Path, on_bytes: Callable[[int], None]) -> str:
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(16 * CHUNK_BYTES):
            digest.update(chunk)
            done += len(chunk)
            on_bytes(done)
    return digest.hexdigest()


def _hub_folder(id_: str, revision: str, offline: bool | None) -> Path:
    """The snapshot of a hub model in the hub's own cache, downloaded where it is not complete there."""
    # Its bars and warnings are for people at a prompt; it is imported here since few commands need it.
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    wanted: dict[str, Any] = {"allow_patterns": _WANTED, "ignore_patterns": ["*/*"]}
    with contextlib.suppress(LocalEntryNotFoundError, HFValidationError):
        path = Path(snapshot_download(id_, revision=revision, local_files_only=True, **wanted))
        if _is_complete(path):
            return path
    at = "" if revision == "main" else f" --revision {revision}"
    how = f"run `hf download {id_}{at}` on a machine with network and point HF_HOME at its cache"
    if constants.HF_HUB_OFFLINE if offline is None else offline:
        raise HarnessError(f"target {shorten(id_)!r} is not in the cache and the network is off: {how}.")
    try:
        return Path(snapshot_download(id_, revision=revision, **wanted))
    except HFValidationError:
        raise HarnessError(f"{shorten(id_)!r} is neither `demo`, nor a folder here, nor a model id.") from None
    except HfHubHTTPError as error:
        reason = shorten(str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__, 120)
        raise HarnessError(f"the hub does not give out target {shorten(id_)!r} at {revision!r} ({reason}).") from error
    except Exception as error:
        # No network has many shapes: timeouts, name resolution, proxies, a full disk.
        reason = shorten(" ".join(str(error).split()), 120)
        raise HarnessError(f"target {shorten(id_)!r} cannot be fetched ({reason}): {how}.") from error


def _is_complete(path: Path) -> bool:
    """Configuration and every weight file that the folder speaks of are there."""
    if not (path / "config.json").exists():
        return False
    index = path / "model.safetensors.index.json"
    if not index.exists():
        return any(path.glob("*.safetensors"))
    try:
        shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (OSError, ValueError, KeyError, AttributeError):
        return False
    return all((path / os.fspath(shard)).exists() for shard in shards)
