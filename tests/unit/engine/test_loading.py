import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models

from harness.core.errors import HarnessError
from harness.core.policy import Policy, PrefixView
from harness.engine import loading, memory
from harness.engine.loading import load_target
from harness.engine.target import Target
from tests.tools.devices import only_on_gpu
from tests.unit.engine.conftest import load_on, with_first_token


@pytest.fixture
def copied(folders, tmp_path) -> Path:
    """A copy of the GPT-Neo folder that a test may damage."""
    return Path(shutil.copytree(folders["neo"], tmp_path / "model"))


def _rewrite(folder: Path, change) -> None:
    file = folder / "model.safetensors"
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file, metadata={"format": "pt"})


def test_a_loaded_target_knows_its_shape_device_and_dtype(device, folders):
    target = load_target(folders["neo"], device=device.type, dtype="float32", threads=1)
    assert isinstance(target, Target)
    assert (target.vocabulary, target.context_length, target.tokenizer_file) == (61, 64, None)
    assert (target.record["dtype"], target.record["device"], target.record["threads"]) == ("float32", str(device), 1)
    assert target.record["torch"] == torch.__version__
    json.dumps(target.record)
    assert not target.model.training


@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16])
def test_a_cpu_computes_in_float32_by_default(copied, stored):
    _rewrite(copied, lambda tensors: tensors.update({name: tensor.to(stored) for name, tensor in tensors.items()}))
    assert load_target(copied, device="cpu").dtype is torch.float32
    assert load_target(copied, device="cpu", dtype="bfloat16").dtype is torch.bfloat16


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_sixteen_bit_weights_are_scored_in_float32(device, folders, prefixes, dtype):
    target = load_target(folders["neo"], device=str(device), dtype=dtype)
    found = target.sample(prefixes, trials=3, length=4)
    scored = target.score(prefixes[found.row], found.suffixes)
    assert abs(found.token_logprobs - scored.token_logprobs).max() < 0.15
    assert (scored.token_logprobs <= 1e-6).all()


def test_the_head_is_split_only_if_it_gives_the_models_logits(targets):
    assert targets["neo"].runner.head is not None and targets["plain"].runner.head is not None
    assert targets["cohere2"].runner.head is None
    assert targets["cohere2"].runner.positions_at_once(10**9) == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_head_is_split_in_16_bits_too(device, folders, dtype):
    runners = {name: load_target(folder, device=str(device), dtype=dtype).runner for name, folder in folders.items()}
    assert runners["neo"].head is not None and runners["plain"].head is not None
    assert runners["neo"].decoder is not None and runners["cohere2"].head is None


@pytest.mark.parametrize(
    ("stored", "capability", "chosen"),
    [
        ("F32", (9, 0), torch.bfloat16),
        ("BF16", (8, 0), torch.bfloat16),
        ("F16", (9, 0), torch.float16),
        ("F32", (7, 5), torch.float16),
        ("BF16", (7, 5), torch.float32),
    ],
)
def test_a_gpu_computes_in_16_bits_by_default(folders, monkeypatch, stored, capability, chosen):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(loading, "_stored_dtype", lambda path: stored)
    assert loading._torch_dtype("auto", folders["neo"], torch.device("cuda")) is chosen


def test_a_tokenizer_file_beside_the_weights_is_found(copied):
    Tokenizer(models.WordLevel({"a": 1}, unk_token="a")).save(str(copied / "tokenizer.json"))
    target = load_target(copied, device="cpu")
    assert target.tokenizer_file == copied / "tokenizer.json" and target.bos_token is None


@pytest.mark.parametrize("name", ["neo", "llama", "plain", "cohere2"])
def test_the_target_sees_the_first_token_of_its_tokenizer(device, folders, tmp_path, prefixes, name):
    folder = with_first_token(folders[name], tmp_path / "model", "[B] $A [E]", direction="left", length=16, pad_id=7)
    target, plain = load_on(device, folder), load_on(device, folders[name])
    assert target.record["bos_token"] == 5 and plain.record["bos_token"] is None
    longer = np.column_stack([np.full(len(prefixes), 5), prefixes])
    policy = Policy(top_k=10)
    found, wanted = (
        each.sample(rows, policy, trials=3, length=6) for each, rows in ((target, prefixes), (plain, longer))
    )
    # Draws depend on the prefix, so the log-probabilities are compared.
    scored, expected = target.score(prefixes[found.row], found.suffixes), plain.score(longer[found.row], found.suffixes)
    assert np.allclose(found.token_logprobs, expected.token_logprobs, atol=1e-4)
    assert np.allclose(scored.token_logprobs, expected.token_logprobs, atol=1e-4)
    assert np.allclose(found.last_prefix_logprob, wanted.last_prefix_logprob, atol=1e-4)
    prompt = PrefixView(prompt=np.random.default_rng(1).normal(size=(2, 32)))
    shown = target.viewed([prompt]).sample(prefixes, Policy(top_k=1), length=4)
    width = np.asarray(plain.model.get_input_embeddings()(torch.tensor([5], device=device)).detach().cpu())
    both = PrefixView(prompt=np.concatenate([width, prompt.prompt]))
    assert np.array_equal(shown.suffixes, plain.viewed([both]).sample(prefixes, Policy(top_k=1), length=4).suffixes)
    with pytest.raises(HarnessError, match=r"12 \+ 52 tokens after the first token"):
        target.sample(prefixes, length=52)


@pytest.mark.parametrize("name", ["neo", "cohere2"])
def test_prefixes_that_begin_with_the_first_token_have_it_once(folders, tmp_path, prefixes, name):
    folder = with_first_token(folders[name], tmp_path / "model")
    target, plain = load_on("cpu", folder), load_on("cpu", folders[name])
    given = np.where(np.arange(len(prefixes))[:, None] % 3 == 0, prefixes, 7)
    given[:, 0] = np.where(np.arange(len(given)) % 2, 5, 8)
    suffixes = prefixes[:, :6]
    expected = np.empty((len(given), 6))
    for has, seen in ((True, given), (False, np.column_stack([np.full(len(given), 5), given]))):
        rows = (given[:, 0] == 5) == has
        expected[rows] = plain.score(seen[rows], suffixes[rows]).token_logprobs
    assert np.allclose(target.score(given, suffixes).token_logprobs, expected, atol=1e-4)
    for found in (target.sample(given, length=6, trials=2), target.search(given, width=2, length=6)):
        again = np.empty((len(found.row), 6))
        for has, seen in ((True, given), (False, np.column_stack([np.full(len(given), 5), given]))):
            rows = (given[found.row, 0] == 5) == has
            again[rows] = plain.score(seen[found.row][rows], found.suffixes[rows]).token_logprobs
        assert np.allclose(found.token_logprobs, again, atol=1e-4)
    prompt = PrefixView(prompt=np.random.default_rng(1).normal(size=(2, 32)))
    begun = given[given[:, 0] == 5]
    assert np.allclose(
        target.score(begun, suffixes[: len(begun)], prompt).token_logprobs,
        target.score(begun[:, 1:], suffixes[: len(begun)], prompt).token_logprobs,
        atol=1e-4,
    )


def test_a_first_token_that_the_model_lacks_is_an_error(folders, tmp_path):
    with pytest.raises(HarnessError, match="begins every text with token 61, and the model has 61"):
        load_target(with_first_token(folders["neo"], tmp_path / "model", token=61), device="cpu")


def test_a_tokenizer_that_cannot_be_read_is_an_error(copied):
    (copied / "tokenizer.json").write_text("{}")
    with pytest.raises(HarnessError, match=r"not a tokenizer\.json"):
        load_target(copied, device="cpu")


@pytest.mark.parametrize("name", ["neo", "llama", "plain", "cohere2"])
def test_ids_beyond_the_vocabulary_get_no_probability(device, folders, prefixes, name):
    padded = load_target(folders[name], device=str(device), dtype="float32", threads=1, vocabulary=60)
    some = np.minimum(prefixes, 59)
    assert padded.record["vocabulary"] == 60
    drawn = padded.sample(some, trials=40, length=4)
    assert drawn.suffixes.max() < 60
    # The other ids share the probability of the ids that are left out.
    whole = load_on(device, folders[name])
    found, all_ = (target.score(some, drawn.suffixes[: len(some)]).token_logprobs for target in (padded, whole))
    assert (found >= all_ - 1e-5).all() and found.sum() > all_.sum()
    sums = [np.exp(padded.score(some[:1], np.array([[token]])).token_logprobs[0, 0]) for token in range(60)]
    assert sum(sums) == pytest.approx(1, abs=1e-4)


def test_the_default_number_of_rows_grows_with_the_memory(folders, monkeypatch):
    sizes = {}
    for free in (0, 10**6, 3 * 10**7, 10**12):
        monkeypatch.setattr(memory, "free_bytes", lambda device, free=free: free)
        sizes[free] = load_target(folders["neo"], device="cpu").rows_at_once
    assert sizes[0] == 1 and sizes[10**12] == 8192
    assert list(sizes.values()) == sorted(sizes.values())
    assert 1 < sizes[10**6] < sizes[3 * 10**7]


def test_free_memory_is_a_plausible_number(device):
    assert 1 << 20 < memory.free_bytes(device) < 1 << 50


def _is_refused(folder: Path, sentence: str, **arguments) -> None:
    with pytest.raises(HarnessError, match=sentence) as caught:
        load_target(folder, **{"device": "cpu", **arguments})
    assert "\n" not in str(caught.value)


def test_folders_without_a_model_are_refused(tmp_path):
    _is_refused(tmp_path / "nowhere", "no such directory: .*nowhere")
    _is_refused(tmp_path, "no config.json")
    (tmp_path / "config.json").write_text("{}")
    _is_refused(tmp_path, "no \\*.safetensors")
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 100)
    _is_refused(tmp_path, "cannot be loaded as a causal language model")


def test_pickled_weights_are_not_read(copied):
    torch.save(load_file(copied / "model.safetensors"), copied / "pytorch_model.bin")
    (copied / "model.safetensors").unlink()
    _is_refused(copied, "no \\*.safetensors")


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 64, b"{}" * 50])
def test_a_damaged_weight_file_is_refused(copied, content):
    (copied / "model.safetensors").write_bytes(content)
    _is_refused(copied, "cannot be loaded")


@pytest.mark.parametrize(
    ("name", "row", "value", "sentence"),
    [
        ("h.1.mlp.c_fc.bias", ..., float("nan"), r"h\.1\.mlp\.c_fc\.bias contain NaN"),
        ("wpe.weight", 40, float("inf"), r"wpe\.weight contain infinity in float32"),
        ("wte.weight", ..., 3e38, "returns NaN in"),
        ("wte.weight", 50, 1e38, "returns infinity in float32"),
    ],
)
def test_weights_that_are_or_give_no_finite_numbers_are_refused(copied, name, row, value, sentence):
    _rewrite(copied, lambda tensors: tensors[f"transformer.{name}"].__setitem__(row, value))
    _is_refused(copied, sentence)


def test_weights_that_overflow_a_dtype_are_refused(copied):
    _rewrite(copied, lambda tensors: tensors["transformer.wpe.weight"].__setitem__(40, 7e4))
    assert load_target(copied, device="cpu").dtype is torch.float32
    _is_refused(copied, r"wpe\.weight contain infinity in float16", dtype="float16")


def test_missing_weights_are_refused(copied):
    _rewrite(copied, lambda tensors: tensors.pop("transformer.h.1.mlp.c_fc.bias"))
    _is_refused(copied, r"lack 1 tensors of a GPTNeoForCausalLM, such as transformer\.h\.1\.mlp\.c_fc\.bias")


def test_code_in_the_folder_is_not_run(copied):
    configuration = json.loads((copied / "config.json").read_text())
    configuration |= {"model_type": "own", "auto_map": {"AutoConfig": "own.C", "AutoModelForCausalLM": "own.M"}}
    (copied / "config.json").write_text(json.dumps(configuration))
    (copied / "own.py").write_text(f"open({str(copied / 'ran')!r}, 'w')")
    _is_refused(copied, "cannot be loaded")
    assert not (copied / "ran").exists()


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory."), MemoryError("std::bad_alloc")], ids=["device", "host"]
)
def test_out_of_memory_while_loading_is_an_error(device, folders, fail_passes, error):
    fail_passes(lambda rows: True, error)
    _is_refused(folders["neo"], f"out of memory on {device} while loading: .* Free memory", device=str(device))


def test_unknown_devices_and_dtypes_are_refused(folders, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    _is_refused(folders["neo"], "device cuda is not available: torch .* found no CUDA GPU", device="cuda")
    _is_refused(folders["neo"], "unknown device: 'abacus'", device="abacus")
    _is_refused(folders["neo"], "unknown device: 'mps'", device="mps")
    _is_refused(folders["neo"], "unknown device: 'cuda:x'", device="cuda:x")
    _is_refused(folders["neo"], "rows_at_once is 0", rows_at_once=0)
    _is_refused(folders["neo"], "unknown dtype: 'int3'", dtype="int3")


def test_lengths_and_vocabulary_are_checked_against_the_round(neo):
    neo.require(prefix_length=32, suffix_length=32, vocabulary=61)
    with pytest.raises(HarnessError, match="predicts 61 tokens and the round has 62"):
        neo.require(prefix_length=32, suffix_length=32, vocabulary=62)
    with pytest.raises(HarnessError, match="predicts 61 tokens and the round has 50"):
        neo.require(prefix_length=32, suffix_length=32, vocabulary=50)
    with pytest.raises(HarnessError, match="context of 64 tokens is shorter than prefix and suffix, 50 \\+ 50"):
        neo.require(prefix_length=50, suffix_length=50)


@only_on_gpu
def test_a_device_beyond_the_last_gpu_is_refused(device, folders):
    _is_refused(folders["neo"], r"device cuda:99 is not available: torch found \d+ GPUs", device="cuda:99")


@only_on_gpu
@pytest.mark.parametrize("stored", [torch.float32, torch.float16, torch.bfloat16])
def test_a_loaded_target_has_the_default_dtype_of_its_gpu(device, copied, stored):
    _rewrite(copied, lambda tensors: tensors.update({name: tensor.to(stored) for name, tensor in tensors.items()}))
    target = load_target(copied)
    assert target.device == device and target.dtype is loading._torch_dtype("auto", copied, device)
