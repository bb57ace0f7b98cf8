import hashlib
import json
import os
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.core.rounds import Round
from harness.demo import REFERENCE, SIZES
from harness.engine import resolving
from harness.engine.resolving import (
    BLOCKS_KEYS,
    configured_number,
    require_capacity,
    require_round_vocabulary,
    resolve_target,
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path) -> Path:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def hub(monkeypatch, tmp_path) -> Path:
    """The folder of owner/model in an empty hub cache."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub" / "models--owner--model"


def _model(folder: Path, weights: bytes = b"weights") -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "tokenizer.json").write_text("[]")
    (folder / "README.md").write_text("not part of what is hashed")
    return folder


def _cached(hub: Path) -> Path:
    (hub / "refs").mkdir(parents=True)
    (hub / "refs" / "main").write_text(COMMIT)
    return _model(hub / "snapshots" / COMMIT)


def test_the_hash_is_that_of_the_output_of_sha256sum(tmp_path):
    folder = _model(tmp_path / "model")
    found = resolve_target(str(folder))
    lines = "".join(
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n"
        for name in ("config.json", "model.safetensors", "tokenizer.json")
    )
    assert found.weights_sha256 == hashlib.sha256(lines.encode()).hexdigest()
    assert (found.path, found.commit, found.bytes, found.revision) == (folder, None, 11, "main")


@pytest.mark.parametrize("size", [*SIZES, REFERENCE], ids=lambda size: size.name)
def test_each_demo_model_is_found_by_name(size):
    found = resolve_target(size.name)
    assert found.path == size.weights and found.commit is None


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_the_hash_changes_with_each_file(tmp_path, name):
    folder = _model(tmp_path / "model")
    before = resolve_target(str(folder)).weights_sha256
    (folder / name).write_bytes((folder / name).read_bytes() + b" ")
    assert resolve_target(str(folder)).weights_sha256 != before


def test_a_hash_is_cached_until_the_file_changes(tmp_path, monkeypatch, cache):
    folder = _model(tmp_path / "model", b"w" * 1000)
    calls = []
    first = resolve_target(str(folder), on_progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (1004, 1004) and calls == sorted(calls)
    whole = resolving._sha256
    hashed = []
    monkeypatch.setattr(resolving, "_sha256", lambda path, on_bytes: hashed.append(path.name) or whole(path, on_bytes))
    assert resolve_target(str(folder)) == first and hashed == []
    os.utime(folder / "model.safetensors", ns=(1, 1))
    assert resolve_target(str(folder)) == first and hashed == ["model.safetensors"]
    assert [path.name for path in cache.iterdir()] == ["hashes.json"]


@pytest.mark.parametrize("content", ["", "[1]", '{"x": 3}', "\x00"])
def test_a_damaged_hash_cache_is_rebuilt(tmp_path, cache, content):
    folder = _model(tmp_path / "model")
    wanted = resolve_target(str(folder))
    remembered = json.loads((cache / "hashes.json").read_text())
    (cache / "hashes.json").write_text(content or json.dumps(dict.fromkeys(remembered, 7)))
    assert resolve_target(str(folder)) == wanted
    assert json.loads((cache / "hashes.json").read_text()).items() >= remembered.items()


def test_an_unwritable_hash_cache_is_ignored(tmp_path, cache):
    cache.write_text("a file where the folder should be")
    assert resolve_target(str(_model(tmp_path / "model"))).bytes == 11


def test_a_cached_hub_model_is_found_offline_with_its_commit(hub):
    folder = _cached(hub)
    found = resolve_target("owner/model", offline=True)
    assert (found.commit, found.path, found.id) == (COMMIT, folder, "owner/model")
    assert resolve_target("owner/model", COMMIT, offline=True).path == folder


def test_offline_with_an_empty_cache_names_the_download_command(hub):
    with pytest.raises(
        HarnessError, match=r"'owner/model' is not in the cache.*`hf download owner/model`.*HF_HOME"
    ) as e:
        resolve_target("owner/model", offline=True)
    assert "\n" not in str(e.value)
    with pytest.raises(HarnessError, match="hf download owner/model --revision v2"):
        resolve_target("owner/model", "v2", offline=True)


def test_an_unfinished_download_is_not_used(hub):
    folder = _cached(hub)
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    shards = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    with pytest.raises(HarnessError, match="not in the cache"):
        resolve_target("owner/model", offline=True)
    (folder / "model-00002-of-00002.safetensors").write_bytes(b"more")
    assert resolve_target("owner/model", offline=True).bytes == 15


def test_an_unreachable_hub_is_an_error(hub, monkeypatch):
    def unreachable(*arguments, local_files_only=False, **others):
        from huggingface_hub.errors import LocalEntryNotFoundError

        raise LocalEntryNotFoundError("x") if local_files_only else OSError("Name or service\nnot known")

    monkeypatch.setattr("huggingface_hub.snapshot_download", unreachable)
    sentence = r"cannot be downloaded \(Name or service not known\)\. Run `hf download"
    with pytest.raises(HarnessError, match=sentence) as e:
        resolve_target("owner/model", offline=False)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("id_", ["./nowhere", "/no/where", "~/no-where-at-all", "../nowhere"])
def test_a_missing_folder_is_not_searched_on_the_hub(id_):
    with pytest.raises(HarnessError, match="no such directory or GGUF file"):
        resolve_target(id_, offline=True)


@pytest.mark.parametrize("id_", ["", "a b", "a/b/c", "de mo"])
def test_invalid_names_are_refused(hub, id_):
    with pytest.raises(HarnessError):
        resolve_target(id_)


def _round(vocabulary: int, length: int) -> Round:
    return Round.model_validate(
        {"name": "r", "title": "t", "prefix_file": "p.npy", "target": "t", "vocabulary": vocabulary}
        | {"prefix_length": length, "suffix_length": length}
    )


@pytest.mark.parametrize("name", ["max_position_embeddings", "n_positions"])
def test_the_capacity_is_read_from_the_configuration(tmp_path, name):
    folder = _model(tmp_path / "model")
    (folder / "config.json").write_text(json.dumps({"vocab_size": 61, name: 20}))
    target = resolve_target(str(folder))
    require_capacity(target, _round(61, 10))
    with pytest.raises(HarnessError, match="a context of 20 tokens and the round's prefix and suffix need 22"):
        require_capacity(target, _round(61, 11))
    with pytest.raises(HarnessError, match=r"predicts 61 tokens and the round has 62\. Choose another model"):
        require_capacity(target, _round(62, 10))


def test_a_vocabulary_may_be_padded_but_not_another(tmp_path):
    folder = _model(tmp_path / "model")
    (folder / "config.json").write_text(json.dumps({"vocab_size": 64}))
    target = resolve_target(str(folder))
    require_capacity(target, _round(61, 10))
    require_round_vocabulary(target, _round(64, 10))
    require_round_vocabulary(target, _round(63, 10))
    with pytest.raises(HarnessError, match=r"64 tokens and the round has 62, .* a round with `vocabulary = 64`"):
        require_round_vocabulary(target, _round(62, 10))


_UNIGRAM = {"model": {"vocab": [[f"t{number}", 0.0] for number in range(62)]}, "added_tokens": []}
_BPE = {
    "model": {"vocab": {f"t{number}": number for number in range(61)}},
    "added_tokens": [{"id": 0, "content": "t0"}, {"id": 61, "content": "new"}, {"id": 62, "content": "newer"}],
}


_PLAIN = {f"t{number}": number for number in range(62)}


@pytest.mark.parametrize(
    ("files", "refused", "sizes"),
    [
        ({"tokenizer.json": _BPE}, (60, 62), "61 or 63"),
        ({"tokenizer.json": _UNIGRAM}, (60, 61), "62"),
        ({"vocab.json": _PLAIN}, (60, 61), "62"),
        ({"vocab.json": _PLAIN, "added_tokens.json": {"new": 62}}, (60, 61), "62 or 63"),
        ({"tokenizer.json": {"model": {"vocab": {}}}}, (), ""),
    ],
)
def test_another_tokenizer_is_noticed_by_its_number_of_tokens(tmp_path, monkeypatch, files, refused, sizes):
    monkeypatch.setattr("harness.engine.resolving._MAX_PADDING", 0.1)  # 65 and 60 are closer than that
    folder = _model(tmp_path / "model")
    (folder / "config.json").write_text(json.dumps({"vocab_size": 65}))
    (folder / "tokenizer.json").unlink(missing_ok=True)
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    target = resolve_target(str(folder))
    for vocabulary in range(60, 66):
        if vocabulary in refused:
            said = f"has a tokenizer of {sizes} tokens and the round has {vocabulary}, .* `vocabulary = {sizes[-2:]}`"
            with pytest.raises(HarnessError, match=said):
                require_round_vocabulary(target, _round(vocabulary, 10))
        else:
            # A round with more tokens than the tokenizer counts the padding of a model.
            require_round_vocabulary(target, _round(vocabulary, 10))


def test_a_known_tokenizer_may_have_any_padding(tmp_path):
    folder = _model(tmp_path / "model")
    (folder / "config.json").write_text(json.dumps({"vocab_size": 100}))
    (folder / "tokenizer.json").write_text(json.dumps(_BPE))
    target = resolve_target(str(folder))
    require_round_vocabulary(target, _round(61, 10))
    with pytest.raises(HarnessError, match=r"predicts 100 tokens and the round has 64, .* `vocabulary = 100`"):
        require_round_vocabulary(target, _round(64, 10))


@pytest.mark.parametrize("content", ["{", "[]", '{"model": {}}', '{"model": {"vocab": [1]}}'])
def test_a_tokenizer_that_cannot_be_read_passes_the_check(tmp_path, content):
    folder = _model(tmp_path / "model")
    (folder / "config.json").write_text(json.dumps({"vocab_size": 61}))
    (folder / "tokenizer.json").write_text(content)
    require_round_vocabulary(resolve_target(str(folder)), _round(60, 10))


@pytest.mark.parametrize("content", ["", "[1]", '{"vocab_size": "many", "n_positions": null}'])
def test_a_configuration_without_numbers_passes_the_check(tmp_path, content):
    folder = _model(tmp_path / "model")
    (folder / "config.json").write_text(content)
    target = resolve_target(str(folder))
    require_capacity(target, _round(61, 10))
    require_round_vocabulary(target, _round(61, 10))


def test_a_folder_without_weights_is_refused(tmp_path):
    folder = _model(tmp_path / "model")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(HarnessError, match=r"no \*\.safetensors"):
        resolve_target(str(folder))
    (folder / "config.json").unlink()
    with pytest.raises(HarnessError, match=r"no config\.json"):
        resolve_target(str(folder))


@pytest.mark.parametrize("number", [-1, 0])
def test_a_number_that_is_not_positive_is_named_with_its_field(tmp_path: Path, number: int) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"num_layers": number}))
    with pytest.raises(HarnessError, match=rf"config\.json: num_layers is {number}, and must be at least 1\.$"):
        configured_number(tmp_path, BLOCKS_KEYS)


def test_only_the_files_that_are_loaded_are_hashed(tmp_path):
    alone = resolve_target(str(_model(tmp_path / "alone")))
    beside = _model(tmp_path / "beside")
    (beside / "consolidated.safetensors").write_bytes(b"the same weights again")
    assert resolve_target(str(beside)).weights_sha256 == alone.weights_sha256
    sharded = _model(tmp_path / "sharded")
    shard = (sharded / "model.safetensors").rename(sharded / "model-00001-of-00001.safetensors")
    index = sharded / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": shard.name}}))
    (sharded / "consolidated.safetensors").write_bytes(b"the same weights again")
    assert resolving.weight_files(sharded) == [shard]


@pytest.mark.parametrize("map_", ['{"a": "../b.safetensors"}', '{"a": "c.safetensors"}', "{}", "[]", '{"a": 3}'])
def test_an_index_that_names_no_files_is_refused(tmp_path, map_):
    folder = _model(tmp_path / "model")
    (folder / "model.safetensors").rename(tmp_path / "b.safetensors")
    (folder / "model.safetensors.index.json").write_text(f'{{"weight_map": {map_}}}')
    with pytest.raises(HarnessError, match=r"names .* Download the folder again"):
        resolve_target(str(folder))


def test_the_hub_is_asked_for_the_files_that_are_loaded(hub, monkeypatch, tmp_path):
    from huggingface_hub.errors import LocalEntryNotFoundError

    folder = _model(tmp_path / "snapshot")
    shard = (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": shard.name}}))
    patterns = []

    def download(*arguments, allow_patterns, local_files_only=False, **others):
        if local_files_only:
            raise LocalEntryNotFoundError("x")
        patterns.append(allow_patterns)
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    resolve_target("owner/model", offline=False)
    assert not any("safetensors" in name for name in patterns[0])
    weights = [name for name in patterns[1] if name.endswith(".safetensors")]
    assert weights == ["model.safetensors", shard.name]


@pytest.mark.parametrize("part", ["text_config", "decoder"])
def test_a_nested_configuration_is_read(tmp_path, part):
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": 9, part: {"vocab_size": 7}}))
    assert configured_number(tmp_path, ("vocab_size",)) == 7
    assert configured_number(tmp_path, BLOCKS_KEYS) is None
