"""CTranslate2 as a peer of the engine: its installation, the conversion of a GPT-Neo, and sampling.

CTranslate2 does not know GPT-Neo. A GPT-Neo whose tokens stay within the window of its local layers equals a GPT-2,
which CTranslate2 does know.
"""

import functools
import importlib
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel, GPTNeoForCausalLM

from harness.core.arrays import Tokens
from harness.core.errors import HarnessError
from tests.bench.measuring import timed

COMPUTE_TYPES = ("float32", "int8")
_BATCHES = (8, 16, 32)
"""The batch sizes that are tried, in prefixes. Repeating a prefix for each trial is slower than `num_hypotheses`."""
_LARGEST_DIFFERENCE = 1e-3

Sampler = Callable[[Tokens, int], int]
"""Maps prefixes [prefixes, prefix length] and a number of trials to the number of suffixes that it has drawn."""


def as_gpt2(neo: GPTNeoForCausalLM, positions: int) -> GPT2LMHeadModel:
    """Return a GPT-2 for `positions` tokens with the weights of a GPT-Neo.

    The logits of both are equal up to the window of the local layers. After that, GPT-2 still attends to all tokens.
    """
    shape = neo.config
    config = GPT2Config(
        vocab_size=shape.vocab_size,
        n_positions=positions,
        n_embd=shape.hidden_size,
        n_layer=shape.num_layers,
        n_head=shape.num_heads,
        n_inner=shape.intermediate_size,
        activation_function=shape.activation_function,
        layer_norm_epsilon=shape.layer_norm_epsilon,
        bos_token_id=shape.bos_token_id,
        eos_token_id=shape.eos_token_id,
    )
    gpt2 = GPT2LMHeadModel(config).to(neo.dtype).train(False).requires_grad_(False)
    weights = neo.state_dict()
    # GPT-2 divides the products of queries and keys by the root of the head's width. GPT-Neo does not.
    root = math.sqrt(shape.hidden_size // shape.num_heads)
    converted = {name: weights[name] for name in weights if name.startswith(("transformer.wte", "transformer.ln_f"))}
    converted["transformer.wpe.weight"] = weights["transformer.wpe.weight"][:positions]
    converted["lm_head.weight"] = weights["lm_head.weight"]
    for layer in range(shape.num_layers):
        block = f"transformer.h.{layer}."
        query, key, value = (weights[f"{block}attn.attention.{name}_proj.weight"] for name in "qkv")
        # Conv1D stores its weights as [inputs, outputs], Linear as [outputs, inputs].
        converted[f"{block}attn.c_attn.weight"] = torch.cat([query * root, key, value]).T
        converted[f"{block}attn.c_attn.bias"] = torch.zeros(3 * shape.hidden_size)
        converted[f"{block}attn.c_proj.weight"] = weights[f"{block}attn.attention.out_proj.weight"].T
        converted[f"{block}attn.c_proj.bias"] = weights[f"{block}attn.attention.out_proj.bias"]
        for name in ("mlp.c_fc", "mlp.c_proj"):
            converted[f"{block}{name}.weight"] = weights[f"{block}{name}.weight"].T
            converted[f"{block}{name}.bias"] = weights[f"{block}{name}.bias"]
        for name in ("ln_1.weight", "ln_1.bias", "ln_2.weight", "ln_2.bias"):
            converted[block + name] = weights[block + name]
    gpt2.load_state_dict(converted)
    return gpt2


def largest_difference(neo: GPTNeoForCausalLM, gpt2: GPT2LMHeadModel, tokens: Tokens) -> float:
    """Return the largest difference of the two models' logits for `tokens` [rows, length]."""
    given = torch.as_tensor(tokens.astype("int64"))
    with torch.inference_mode():
        return float((neo(given).logits - gpt2(given).logits).abs().max())


def install(folder: Path) -> Any:
    """Install CTranslate2 in `folder` and return the module. Raises HarnessError if it cannot be installed."""
    # Its dependencies, NumPy and PyYAML, are also those of transformers.
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), "ctranslate2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise HarnessError(f"CTranslate2 cannot be installed: {lines[-1]}")
    sys.path.append(str(folder))
    try:
        importlib.import_module("ctranslate2.converters.transformers")
        return importlib.import_module("ctranslate2")
    except ImportError as error:
        raise HarnessError(f"CTranslate2 cannot be imported: {error}.") from error


def ctranslate2_samplers(gpt2: GPT2LMHeadModel, prefixes: Tokens, threads: int, folder: Path) -> dict[str, Sampler]:
    """Install CTranslate2 in `folder`, convert the model, and return a sampler for each compute type of this CPU.

    A sampler chooses its batches when it is called with a number of trials for the first time. Raises HarnessError if
    CTranslate2 cannot be installed or computes other log-probabilities than the model.
    """
    module = install(folder / "packages")
    gpt2.save_pretrained(folder / "gpt2")
    supported = module.get_supported_compute_types("cpu")
    samplers = {}
    for compute_type in COMPUTE_TYPES:
        if compute_type not in supported:
            continue
        converted = folder / compute_type
        _converter(module, folder / "gpt2", gpt2.config.vocab_size).convert(str(converted), quantization=compute_type)
        # Either the threads share one batch, or each has a batch of its own.
        generators = [
            module.Generator(str(converted), compute_type=compute_type, inter_threads=inter, intra_threads=intra)
            for inter, intra in {(1, threads), (threads, 1)}
        ]
        if compute_type == "float32":
            _check_logprobs(generators[0], gpt2, prefixes)
        samplers[compute_type] = _sampler(generators, gpt2.config.n_positions - prefixes.shape[1])
    return samplers


def _converter(module: Any, path: Path, vocabulary: int) -> Any:
    """Return a converter of the model in `path` that names each token by its id."""
    names = {str(token): token for token in range(vocabulary)}
    tokenizer = SimpleNamespace(get_vocab=lambda: names, bos_token="0", eos_token="0", unk_token="0")
    converter = module.converters.TransformersConverter(str(path))
    converter.load_tokenizer = lambda *arguments, **options: tokenizer
    return converter


def _check_logprobs(generator: Any, gpt2: GPT2LMHeadModel, prefixes: Tokens) -> None:
    found = torch.tensor([score.log_probs for score in generator.score_batch(_names(prefixes))])
    given = torch.as_tensor(prefixes.astype("int64"))
    with torch.inference_mode():
        logprobs = gpt2(given).logits[:, :-1].log_softmax(-1).gather(2, given[:, 1:, None]).squeeze(2)
    difference = float((found - logprobs).abs().max())
    if not difference < _LARGEST_DIFFERENCE:
        raise HarnessError(f"CTranslate2 computes other log-probabilities than the model: up to {difference:.2g} nats.")


def _sampler(generators: list[Any], length: int) -> Sampler:
    """Return a sampler of suffixes of `length` tokens with the fastest of the generators and batch sizes."""
    ways = [functools.partial(_draw, generator, batch, length) for generator in generators for batch in _BATCHES]
    fastest: dict[int, Sampler] = {}

    def sample(prefixes: Tokens, trials: int) -> int:
        if trials not in fastest:
            fastest[trials] = min(ways, key=lambda way: timed(lambda: way(prefixes, trials)).seconds)
        return fastest[trials](prefixes, trials)

    return sample


def _draw(generator: Any, batch: int, length: int, prefixes: Tokens, trials: int) -> int:
    results = generator.generate_batch(
        _names(prefixes),
        max_batch_size=batch,
        num_hypotheses=trials,
        sampling_topk=10,
        # No suffix ends early: the end token is excluded up to the minimum length.
        min_length=length,
        max_length=length,
        include_prompt_in_result=False,
        return_scores=True,
    )
    suffixes = [suffix for result in results for suffix in result.sequences_ids]
    assert all(len(suffix) == length for suffix in suffixes)
    return len(suffixes)


def _names(prefixes: Tokens) -> list[list[str]]:
    return [[str(token) for token in prefix] for prefix in prefixes.tolist()]
