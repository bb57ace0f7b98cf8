"""Compare the engine's own decoder with `generate` of `transformers`, for each architecture that the engine decodes.

`python -m tests.bench.architectures` prints the table of docs/explanation/engine.md. The models are random: 4 layers
of width 192 and the vocabulary of the round, which is GPT-2's with the surrogate. Draws of a random model hardly
repeat, so a Llama and a Pythia are also trained, for about a minute, on the prefixes and suffixes that are measured.
"""

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, PreTrainedModel
from transformers.models.auto import AutoModelForCausalLM

from harness.core.arrays import Tokens
from harness.core.examples import load_answers, load_prefixes
from harness.core.policy import Policy
from harness.engine.target import Target
from harness.runs.machine import usable_cores
from tests.bench.inputs import exit_on_error, surrogate_or_demo
from tests.demo_target.training import sampled_loss

LAYERS, WIDTH, HEADS, PREFIXES = 4, 192, 6, 32
TRIALS = (1, 10)
TRAINED_TRIALS = 100
TRAINED = ("Llama", "Pythia (GPT-NeoX)")
_POLICY = Policy(top_k=10)
_STEPS, _RATE, _SAMPLED = 120, 3e-3, 1_024
"""Training steps, about a minute of two cores, the first learning rate, which falls to zero, and sampled tokens."""
_COMMON: dict[str, Any] = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
_GPT = {**_COMMON, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 128}
_PLAIN = {
    **_COMMON,
    "hidden_size": WIDTH,
    "intermediate_size": 4 * WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "max_position_embeddings": 128,
}
_GATED = {**_PLAIN, "intermediate_size": 512, "num_key_value_heads": HEADS // 3}


def models(vocabulary: int) -> dict[str, Any]:
    """Return the configuration of a model of each architecture."""
    neo = {**_PLAIN, "num_layers": LAYERS, "num_heads": HEADS, "attention_types": [[["global", "local"], LAYERS // 2]]}
    for name in ("num_hidden_layers", "num_attention_heads"):
        del neo[name]
    opt = {**_PLAIN, "ffn_dim": 4 * WIDTH, "word_embed_proj_dim": WIDTH}
    new = AutoConfig.for_model
    found = {
        "GPT-Neo": new("gpt_neo", **neo),
        "GPT-2": new("gpt2", **_GPT),
        "GPT-J": new("gptj", **_GPT, rotary_dim=16),
        "OPT": new("opt", **opt),
        "Pythia (GPT-NeoX)": new("gpt_neox", **_PLAIN),
        "Llama": new("llama", **_GATED),
        "Mistral": new("mistral", **_GATED),
        "Qwen-2": new("qwen2", **_GATED),
        "OLMo-2": new("olmo2", **_GATED),
    }
    for configuration in found.values():
        configuration.vocab_size = vocabulary
    return found


def measure(*, turns: int = 3, prefixes: int = PREFIXES) -> dict[str, Any]:
    """Return the rates of sampling relative to `generate`, for each architecture, medians over turns.

    Each turn measures all methods of one model, so that a ratio compares measurements that are close in time.
    """
    torch.set_num_threads(usable_cores())
    round_, _ = surrogate_or_demo()
    answers = load_answers(round_)
    assert answers is not None
    chosen, wanted = load_prefixes(round_)[:prefixes], answers[:prefixes]
    found: dict[str, Any] = {}
    for name, configuration in models(round_.vocabulary).items():
        print(f"  {name}", file=sys.stderr, flush=True)
        model = _new_model(configuration)
        for trials, ratio in _ratios(model, chosen, answers.shape[1], TRIALS, turns).items():
            found[f"{name}, {trials} {_trials(trials)}"] = ratio
        if name in TRAINED:
            _train(model, np.concatenate([chosen, wanted], axis=1))
            (ratio,) = _ratios(model, chosen, answers.shape[1], (TRAINED_TRIALS,), turns).values()
            found[f"{name}, trained, {TRAINED_TRIALS} trials"] = ratio
    return found


def _trials(count: int) -> str:
    return "trial" if count == 1 else "trials"


def _new_model(configuration: Any) -> PreTrainedModel:
    torch.manual_seed(0)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(configuration)  # type: ignore[no-untyped-call]
    return model


def _train(model: PreTrainedModel, rows: Tokens) -> None:
    """Train on `rows` [examples, prefix and suffix] until the model knows most of them."""
    tokens = torch.as_tensor(rows.astype(np.int64))
    optimizer = torch.optim.AdamW(model.requires_grad_(True).parameters())
    for step in range(_STEPS):
        optimizer.param_groups[0]["lr"] = _RATE * (1 - step / _STEPS)
        loss = sampled_loss(model, tokens, tokens, _SAMPLED)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def _ratios(
    model: PreTrainedModel, prefixes: Tokens, length: int, trials: tuple[int, ...], turns: int
) -> dict[int, float]:
    """Return how many times as many suffixes a second the engine draws, for each number of trials."""
    model.train(False).requires_grad_(False)
    target = Target(model, prefix_length=prefixes.shape[1], suffix_length=length)
    assert target.runner.decoder is not None
    tokens = torch.as_tensor(prefixes.astype(np.int64))

    def generate() -> object:
        with torch.inference_mode():
            return model.generate(  # type: ignore[operator]
                tokens,
                attention_mask=torch.ones_like(tokens),
                min_new_tokens=length,
                max_new_tokens=length,
                do_sample=True,
                top_k=10,
                pad_token_id=0,
            )

    samplers = {count: partial(target.sample, prefixes, _POLICY, trials=count, length=length) for count in trials}
    for warm in (generate, *samplers.values()):
        warm()
    found: dict[int, list[float]] = {count: [] for count in trials}
    for _ in range(turns):
        generated = _seconds(generate)
        for count, sample in samplers.items():
            found[count].append(count * generated / _seconds(sample))
    return {count: statistics.median(ratios) for count, ratios in found.items()}


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def table(found: dict[str, Any]) -> str:
    """Return the ratios as a Markdown table with one row for each architecture."""
    counts = ["1 trial", "10 trials", f"trained, {TRAINED_TRIALS} trials"]
    lines = [f"| architecture | {' | '.join(counts)} |", "|---" * (len(counts) + 1) + "|"]
    for name in dict.fromkeys(key.split(",")[0] for key in found):
        cells = [f"{found[key]:.1f}" if (key := f"{name}, {count}") in found else "" for count in counts]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    with exit_on_error():
        print(table(measure()))
