"""Resolving the name of a target to a local folder and the hash of its files. Loads no torch."""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.core.errors import HarnessError, did_you_mean, missing_path
from harness.core.files import CHUNK_BYTES, file_version, require_content, write_atomically
from harness.core.inputs import files_in, read_bounded, read_bounded_text
from harness.core.paths import cache_home, expand_home
from harness.core.rounds import Round
from harness.core.spec import BUILT_IN_TARGETS, AdapterRecord
from harness.core.text import shorten
from harness.demo import REFERENCE as DEMO_REFERENCE
from harness.demo import SIZES as DEMO_SIZES
from harness.engine.adapter import ADAPTER_CONFIG, ADAPTER_WEIGHTS, read_adapter

OnProgress = Callable[[int, int], None]
"""Called with (bytes hashed, total bytes)."""

_TEXT_FILES = ["*.json", "merges.txt", "vocab.txt", "*.model"]
_WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_MAX_JSON_BYTES, _MAX_CONFIG_BYTES = 64 << 20, 8 << 20
_READ_WHOLE = (*_TEXT_FILES, "*.tiktoken", "*.jinja")
_CONFIGURATIONS = ("*config.json", "special_tokens_map.json", "added_tokens.json", "*.jinja")
"""The files of a model that libraries read whole, and those that are small."""
_TEXT_CONFIGS = ("text_config", "decoder", "generator")
"""The parts of config.json that describe the language model within a larger model, as in `transformers`."""
VOCABULARY_KEYS = ("vocab_size",)
CONTEXT_KEYS = ("max_position_embeddings", "n_positions")
BLOCKS_KEYS = ("num_hidden_layers", "num_layers", "n_layer")
_MAX_PADDING = 0.02
"""Ids beyond the vocabulary, as a part of it, that are taken for padding. GPT-J has 0.3 % more, and Phi 1.9 %."""
_HASHED_BESIDE_WEIGHTS = ("config.json", "tokenizer.json")


@dataclass(frozen=True)
class ResolvedTarget:
    """A target on this machine.

    id, revision: as requested.
    commit: the hub commit of the revision, None for folders.
    path: a folder in Hugging Face layout.
    weights_sha256: the hash of the weight files that are loaded, config.json and tokenizer.json.
    bytes: the total size of these files.
    source_sha256: the hash of the GGUF file that the folder was converted from, None for other folders.
    adapter: the adapter that is merged into the model in `path`, whose files are hashed too. `id` is the adapter's.
    """

    id: str
    revision: str
    commit: str | None
    path: Path
    weights_sha256: str
    bytes: int
    source_sha256: str | None = None
    adapter: AdapterRecord | None = None


def require_capacity(target: ResolvedTarget, round_: Round) -> None:
    """Raise HarnessError if config.json shows that the target lacks tokens or context that the round needs.

    Limits that config.json does not state are checked when the model is loaded.
    """
    vocabulary, context = configured_number(target.path, VOCABULARY_KEYS), configured_number(target.path, CONTEXT_KEYS)
    if vocabulary is not None and vocabulary < round_.vocabulary:
        raise HarnessError(
            f"{target.id} predicts {vocabulary:,} tokens and the round has {round_.vocabulary:,}. Choose another model."
        )
    length = round_.prefix_length + round_.suffix_length
    if context is not None and context < length:
        raise HarnessError(
            f"{target.id} has a context of {context:,} tokens and the round's prefix and suffix need {length:,}. "
            "Choose another model."
        )


def require_round_vocabulary(target: ResolvedTarget, round_: Round) -> None:
    """Raise HarnessError if the numbers of tokens show that the target and the round have different tokenizers.

    The round has as many tokens as the tokenizer, with or without the tokens that were added to it, or as the model
    predicts. If the tokenizer is unknown, a few more tokens are padding. Padding gets no probability.
    """
    vocabulary = configured_number(target.path, VOCABULARY_KEYS)
    if vocabulary is None or vocabulary == round_.vocabulary:
        return
    sizes = _tokenizer_sizes(target.path)
    largest = max(sizes, default=0)
    if round_.vocabulary in sizes:
        return
    if round_.vocabulary < largest:
        has, fitting = f"has a tokenizer of {' or '.join(f'{size:,}' for size in sizes)} tokens", largest
    elif vocabulary > (1 + _MAX_PADDING) * round_.vocabulary:
        has, fitting = f"predicts {vocabulary:,} tokens", vocabulary
    else:
        return
    raise HarnessError(
        f"{target.id} {has} and the round has {round_.vocabulary:,}, so its tokenizer is another one. Choose another "
        f"model or a round with `vocabulary = {fitting}`."
    )


def _tokenizer_sizes(path: Path) -> list[int]:
    """Return the number of tokens of a target's tokenizer, without and with added tokens; empty if it is unknown."""
    with contextlib.suppress(HarnessError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        if (path / "tokenizer.json").exists():
            tokenizer = _read_json(path / "tokenizer.json")
            learned = {entry if isinstance(entry, str) else entry[0] for entry in tokenizer["model"]["vocab"]}
            added = {token["content"] for token in tokenizer.get("added_tokens", ())}
        else:
            learned = set(_read_json(path / "vocab.json"))
            file = path / "added_tokens.json"
            added = set(_read_json(file)) if file.exists() else set()
        return sorted({len(learned), len(learned | added)})
    return []


def _read_json(file: Path) -> Any:
    return json.loads(read_bounded(file, limit=_MAX_JSON_BYTES))


def configured_number(path: Path, names: tuple[str, ...]) -> int | None:
    """Return the number in config.json under the first of `names` that it has, or None if there is none.

    The configuration of the language model within a larger model comes first. Raises HarnessError, which names the
    field, if the number is not positive.
    """
    try:
        config = _read_json(path / "config.json")
    except (HarnessError, ValueError, RecursionError):
        return None
    if not isinstance(config, dict):
        return None
    for part in (*(config.get(name) for name in _TEXT_CONFIGS), config):
        for name in names:
            number = part.get(name) if isinstance(part, dict) else None
            if isinstance(number, int):
                if number < 1:
                    raise HarnessError(f"{path / 'config.json'}: {name} is {number}, and must be at least 1.")
                return number
    return None


def has_chat_template(path: Path) -> bool:
    """Return True if the tokenizer of the folder `path` has a chat template, as that of an instruct model has."""
    with contextlib.suppress(HarnessError, ValueError, RecursionError, TypeError):
        return (path / "chat_template.jinja").exists() or "chat_template" in _read_json(path / "tokenizer_config.json")
    return False


def resolve_target(
    id_: str,
    revision: str = "main",
    *,
    offline: bool | None = None,
    on_progress: OnProgress | None = None,
    needs_weights: bool = True,
) -> ResolvedTarget:
    """Resolve the target `id_`: a built-in target, a local folder, or a model id on the Hugging Face hub at `revision`.

    The built-in targets are `demo`, its smaller sizes `demo-small` and `demo-tiny`, and the reference model
    `demo-reference`. The hub's cache is searched first.
    offline: use nothing else, by default the value of HF_HUB_OFFLINE.
    needs_weights: False if the tokenizer and the configuration are enough; weights are then neither downloaded nor
    hashed.
    Raises HarnessError if the target is neither here nor available for download, or if its directory contains something
    that `files_in` refuses.
    """
    commit = None
    built_in = {size.name: size.weights for size in (*DEMO_SIZES, DEMO_REFERENCE)}
    if id_ in built_in:
        path = built_in[id_]
    elif (folder := expand_home(id_)).is_dir():
        path = folder.resolve()
    elif id_.startswith(("./", "../", "/", "~")) or id_.endswith(".gguf"):
        fault = "neither a directory nor a GGUF file" if folder.exists() else "no such directory or GGUF file"
        content = "config.json and *.safetensors" if needs_weights else "tokenizer.json"
        raise HarnessError(f"{fault}: {id_}. Name a directory with {content}.")
    else:
        path = _hub_folder(id_, revision, offline, needs_weights=needs_weights)
        commit = path.name
    _require_small(path, files_in(path))  # which refuses links that leave the directory, and what is not a file
    weights = weight_files(path) if needs_weights else []
    if not weights and not (path / "tokenizer.json").exists():
        raise HarnessError(f"no tokenizer.json in {path}. Name a directory or a hub id that has one.")
    configuration = [path / name for name in _HASHED_BESIDE_WEIGHTS if (path / name).exists()]
    files = sorted([*weights, *configuration], key=lambda file: file.name)
    for file in files:
        require_content(file)
    sha256 = _combined_sha256(files, on_progress or (lambda done, total: None))
    return ResolvedTarget(id_, revision, commit, path, sha256, sum(file.stat().st_size for file in files))


def adapter_folder(id_: str) -> Path | None:
    """Return the directory `id_` if it contains an adapter, else None. Raises HarnessError if it cannot be merged."""
    folder = expand_home(id_).resolve()
    if id_ in BUILT_IN_TARGETS or not (folder / ADAPTER_CONFIG).exists():
        return None
    files_in(folder)  # which refuses links that leave the directory, and what is not a file
    read_adapter(folder)
    return folder


def resolve_adapter(id_: str, folder: Path, base: ResolvedTarget) -> ResolvedTarget:
    """Return the target that the adapter in `folder` makes of a base."""
    files = [folder / ADAPTER_CONFIG, folder / ADAPTER_WEIGHTS]
    require_content(files[1])
    sha256 = _combined_sha256(files, lambda done, total: None)
    return replace(
        base,
        id=id_,
        weights_sha256=hashlib.sha256(f"{base.weights_sha256} {sha256}".encode()).hexdigest(),
        bytes=base.bytes + sum(file.stat().st_size for file in files),
        adapter=AdapterRecord(path=folder, base=base.id, base_sha256=base.weights_sha256),
    )


def _require_small(path: Path, files: list[Path]) -> None:
    """Raise HarnessError if a file that a library reads whole is large. Weights and files in other folders may be."""
    for file in files:
        is_small = any(map(file.match, _CONFIGURATIONS))
        limit = _MAX_CONFIG_BYTES if is_small else _MAX_JSON_BYTES
        is_read = file.parent == path and (is_small or any(map(file.match, _READ_WHOLE)))
        if is_read and file.stat().st_size > limit:
            raise HarnessError(f"{file}: larger than {limit:,} bytes. Download the model again.")


def weight_files(path: Path) -> list[Path]:
    """Return the files whose weights are loaded: model.safetensors, else the files that its index names.

    Raises HarnessError if the folder contains no model, or an adapter, which is not one.
    """
    if not path.is_dir():
        raise missing_path(path, "directory", "A target is a directory with config.json and *.safetensors.")
    if (path / ADAPTER_CONFIG).exists():
        raise HarnessError(
            f"{path} contains an adapter ({ADAPTER_CONFIG}), which is not a whole model. Name its directory with "
            "--target, and the model that it was trained on with --base."
        )
    if not (path / "config.json").exists():
        raise HarnessError(f"no config.json in {path}. Name the directory of a model, with *.safetensors.")
    if (path / _WEIGHTS).exists():
        return [path / _WEIGHTS]
    if (path / _INDEX).exists():
        return _existing_shards(path)
    if misnamed := sorted(path.glob("*.safetensors")):
        raise HarnessError(f"{path} contains {misnamed[0].name}, and neither {_WEIGHTS} nor {_INDEX}. Rename the file.")
    raise HarnessError(f"no *.safetensors in {path}. Weights in other formats may run code and are not read.")


def _existing_shards(path: Path) -> list[Path]:
    """Return the weight files that the index of a folder names. Raises HarnessError unless all of them exist."""
    shards = _named_shards(path)
    wrong = [shard for shard in shards if Path(shard).name != shard or not (path / shard).is_file()]
    if not shards or wrong:
        fault = f"names {shorten(wrong[0])}, which is not a file next to it" if wrong else "names no weight files"
        raise HarnessError(f"{path / _INDEX} {fault}. Download the folder again.")
    return [path / shard for shard in shards]


def cached_sha256(file: Path, on_progress: OnProgress) -> str:
    """Return the SHA-256 of a file, which is cached until its path or its `file_version` changes."""
    return _file_hashes([file], on_progress)[0]


def _combined_sha256(files: list[Path], on_progress: OnProgress) -> str:
    """Return the SHA-256 of the lines that `sha256sum` prints for the files, in the order of their names."""
    hashes = zip(_file_hashes(files, on_progress), files, strict=True)
    return hashlib.sha256("".join(f"{sha256}  {file.name}\n" for sha256, file in hashes).encode()).hexdigest()


def _file_hashes(files: list[Path], on_progress: OnProgress) -> list[str]:
    cache = cache_home() / "hashes.json"
    hashes = _cached_hashes(cache)
    total, done = sum(file.stat().st_size for file in files), 0
    all_hashes, is_changed = [], False
    for file in files:
        real = file.resolve()
        version = list(file_version(real))
        entry = hashes.get(str(real))
        if isinstance(entry, list) and entry[:-1] == version:
            sha256 = str(entry[-1])
        else:
            sha256 = _sha256(real, lambda bytes_, done=done: on_progress(done + bytes_, total))  # type: ignore[misc]
            hashes[str(real)] = [*version, sha256]
            is_changed = True
        done += real.stat().st_size
        on_progress(done, total)
        all_hashes.append(sha256)
    if is_changed:
        # A cache that cannot be written costs time, but must not end the run.
        with contextlib.suppress(OSError):
            cache.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(cache, json.dumps(hashes))
    return all_hashes


def _cached_hashes(cache: Path) -> dict[str, Any]:
    try:
        hashes = json.loads(cache.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return hashes if isinstance(hashes, dict) else {}


def _sha256(path: Path, on_bytes: Callable[[int], None]) -> str:
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(16 * CHUNK_BYTES):
            digest.update(chunk)
            done += len(chunk)
            on_bytes(done)
    return digest.hexdigest()


def _hub_folder(id_: str, revision: str, offline: bool | None, *, needs_weights: bool) -> Path:
    """Return the snapshot of a hub model in the hub's cache, and download it if it is not complete there."""
    # huggingface_hub is imported here because few commands need it.
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    def download(names: list[str], **options: Any) -> Path:
        snapshot = snapshot_download(id_, revision=revision, allow_patterns=names, ignore_patterns=["*/*"], **options)
        return Path(snapshot)

    with contextlib.suppress(LocalEntryNotFoundError, HFValidationError):
        path = download(_TEXT_FILES, local_files_only=True)
        if _is_complete(path) if needs_weights else (path / "tokenizer.json").exists():
            return path
    at = "" if revision == "main" else f" --revision {revision}"
    hint = did_you_mean(id_, BUILT_IN_TARGETS)
    advice = f"D{hint[1:]} Else run" if hint else "Run"
    advice += f" `hf download {id_}{at}` on a machine with network access and set HF_HOME to its cache."
    if constants.HF_HUB_OFFLINE if offline is None else offline:
        raise HarnessError(f"target {shorten(id_)!r} is not in the cache and the network is off. {advice}")
    try:
        path = download(_TEXT_FILES)
        # Repositories may hold the same weights in further files, which are not loaded.
        return download([*_TEXT_FILES, _WEIGHTS, *_named_shards(path)]) if needs_weights else path
    except HFValidationError:
        raise HarnessError(
            f"unknown target: {shorten(id_)!r}. Use `demo`, a directory, or a model id of the Hugging Face hub."
        ) from None
    except HfHubHTTPError as error:
        reason = shorten(str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__, 120)
        raise HarnessError(
            f"the hub refused target {shorten(id_)!r} at revision {revision!r} ({reason}). Check the id, the "
            "revision and your access rights."
        ) from error
    except Exception as error:
        # A failed download has many causes: timeouts, name resolution, proxies, a full disk.
        reason = shorten(" ".join(str(error).split()), 120)
        raise HarnessError(f"target {shorten(id_)!r} cannot be downloaded ({reason}). {advice}") from error


def _is_complete(path: Path) -> bool:
    """Return True if the configuration and every weight file that is loaded exist."""
    return (path / "config.json").exists() and (
        (path / _WEIGHTS).exists()
        or (bool(shards := _named_shards(path)) and all((path / shard).exists() for shard in shards))
    )


def _named_shards(path: Path) -> list[str]:
    """Return the names of the weight files in the index of a folder, empty if there is none that can be read.

    Raises HarnessError if the index is not a regular file of at most 64 MiB: a link may lead to a device.
    """
    if not (path / _INDEX).exists():
        return []
    text = read_bounded_text(path / _INDEX, limit=_MAX_JSON_BYTES)
    try:
        shards = json.loads(text)["weight_map"].values()
        return sorted({os.fspath(shard) for shard in shards})
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []
