"""Compare the engine's own decoder with `generate` of `transformers`, for each architecture that the engine decodes.

`python -m tests.bench.architectures` prints the table of docs/development/benchmarks.md. The models are random: 4
layers of width 192 and as many tokens as GPT-2 has. Prefixes are random too. Draws of a random model hardly repeat,
so a Llama and a Pythia are also trained, for about a minute, on the prefixes and suffixes that are measured.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, PreTrainedModel
from transformers.models.auto import AutoModelForCausalLM

from harness.core.arrays import Tokens
from harness.core.policy import Policy
from harness.engine.target import Target
from harness.runs.machine import usable_cores
from tests.bench.measuring import in_turns, markdown_table, median_ratio
from tests.demo_target.training import descend, sampled_loss

LAYERS, WIDTH, HEADS, PREFIXES = 4, 192, 6, 32
VOCABULARY, LENGTH = 50_257, 50
TRIALS = {"1 trial": 1, "10 trials": 10, "trained, 100 trials": 100}
COLUMNS = tuple(TRIALS)
TRAINED = ("Llama", "Pythia (GPT-NeoX)")
_POLICY = Policy(top_k=10)
_STEPS, _RATE, _SAMPLED = 120, 3e-3, 1_024
"""Training steps, about a minute of two cores, the first learning rate, which falls to zero, and sampled tokens."""
_COMMON: dict[str, Any] = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
_GPT = {**_COMMON, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 128}
_WIDTH = {**_COMMON, "hidden_size": WIDTH, "intermediate_size": 4 * WIDTH, "max_position_embeddings": 128}
_PLAIN = {**_WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
_GATED = {**_PLAIN, "intermediate_size": 512, "num_key_value_heads": HEADS // 3}
_GEMMA = {**_GATED, "head_dim": WIDTH // HEADS, "query_pre_attn_scalar": WIDTH // HEADS}
_MOE = {**_GATED, "num_experts_per_tok": 2, "moe_intermediate_size": 256, "num_experts": 8, "num_local_experts": 8}
_NEO = {**_WIDTH, "num_layers": LAYERS, "num_heads": HEADS, "attention_types": [[["global", "local"], LAYERS // 2]]}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "GPT-Neo": ("gpt_neo", _NEO),
    "GPT-2": ("gpt2", _GPT),
    "GPT-J": ("gptj", {**_GPT, "rotary_dim": 16}),
    "OPT": ("opt", {**_PLAIN, "ffn_dim": 4 * WIDTH, "word_embed_proj_dim": WIDTH}),
    "Pythia (GPT-NeoX)": ("gpt_neox", _PLAIN),
    "Llama": ("llama", _GATED),
    "Mistral": ("mistral", _GATED),
    "Qwen-2": ("qwen2", _GATED),
    "OLMo-2": ("olmo2", _GATED),
    "OLMo-3": ("olmo3", _GATED),
    "Phi-3": ("phi3", _GATED),
    "SmolLM3": ("smollm3", _GATED),
    "Gemma": ("gemma", _GEMMA),
    "Gemma-2": ("gemma2", _GEMMA),
    "Gemma-3": ("gemma3_text", _GEMMA),
    "OLMoE": ("olmoe", {**_MOE, "intermediate_size": 256}),
    "Qwen3-MoE": ("qwen3_moe", _MOE),
    "Mixtral": ("mixtral", {**_MOE, "intermediate_size": 256}),
    "gpt-oss": ("gpt_oss", {**_MOE, "intermediate_size": 256, "head_dim": WIDTH // HEADS}),
}
"""The type and the configuration of a model of each architecture."""


def measure(*, turns: int = 3, prefixes: int = PREFIXES) -> dict[str, Any]:
    """Return the rates of sampling relative to `generate`, for each architecture, medians over turns."""
    torch.set_num_threads(usable_cores())
    rows = np.random.default_rng(0).integers(1, VOCABULARY, (prefixes, 2 * LENGTH))
    figures: dict[str, Any] = {}
    for name, (model_type, shape) in MODELS.items():
        print(f"  {name}", file=sys.stderr, flush=True)
        torch.manual_seed(0)
        configuration = AutoConfig.for_model(model_type, **shape, vocab_size=VOCABULARY)
        model = AutoModelForCausalLM.from_config(configuration)
        figures |= {f"{name}, {column}": ratio for column, ratio in _ratios(model, rows, COLUMNS[:2], turns).items()}
        if name in TRAINED:
            _train(model, rows)
            figures[f"{name}, {COLUMNS[2]}"] = _ratios(model, rows, COLUMNS[2:], turns)[COLUMNS[2]]
    return figures


def _train(model: PreTrainedModel, rows: Tokens) -> None:
    """Train on `rows` [examples, prefix and suffix] until the model knows most of them."""
    tokens = torch.as_tensor(rows.astype(np.int64))
    optimizer = torch.optim.AdamW(model.requires_grad_(True).parameters())
    descend(
        model,
        [optimizer],
        _STEPS,
        lambda step: _RATE * (1 - step / _STEPS),
        lambda step: sampled_loss(model, tokens, tokens, _SAMPLED),
    )


def _ratios(model: PreTrainedModel, rows: Tokens, columns: Sequence[str], turns: int) -> dict[str, float]:
    """Return how many times as many suffixes a second the engine draws, for each number of trials."""
    model.train(False).requires_grad_(False)
    prefixes = rows[:, :LENGTH]
    target = Target(model, prefix_length=LENGTH, suffix_length=LENGTH)
    assert target.runner.decoder is not None
    tokens = torch.as_tensor(prefixes.astype(np.int64))

    def generate(_: int) -> object:
        with torch.inference_mode():
            return model.generate(
                tokens,
                attention_mask=torch.ones_like(tokens),
                min_new_tokens=LENGTH,
                max_new_tokens=LENGTH,
                do_sample=True,
                top_k=10,
                pad_token_id=0,
            )

    def sampler(trials: int) -> Callable[[int], object]:
        return lambda turn: target.sample(prefixes, _POLICY, trials=trials, length=LENGTH)

    trials = {column: TRIALS[column] for column in columns}
    calls = {"generate": generate, **{column: sampler(count) for column, count in trials.items()}}
    in_turns(calls, 1)  # warms up
    taken = in_turns(calls, turns)
    return {column: count * median_ratio(taken["generate"], taken[column]) for column, count in trials.items()}


def table(figures: dict[str, Any]) -> str:
    """Return the ratios as a Markdown table with one row for each architecture."""
    names = dict.fromkeys(name.partition(",")[0] for name in figures)
    ratios = {name: f"{ratio:.1f}" for name, ratio in figures.items()}
    rows = [(name, *(ratios.get(f"{name}, {column}", "") for column in COLUMNS)) for name in names]
    return markdown_table(("architecture", *COLUMNS), rows)


if __name__ == "__main__":
    print(table(measure()))
