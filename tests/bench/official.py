"""The arithmetic of the challenge's own baseline script, which the benchmarks measure against.

It follows baseline/simple_baseline.py in github.com/google-research/lm-extraction-benchmark: `generate` with its
defaults and top-k 10, then a second forward pass over prefix and suffix with labels, and the losses of its logits. No
attack uses it.
"""

import numpy as np
import torch
import torch.nn.functional as F
from transformers import PreTrainedModel

from harness.core.arrays import Floats, Ints, Tokens
from harness.engine.target import Target

BATCH = 32


def official(target: Target, prefixes: Tokens, length: int) -> int:
    """Generate a suffix for each of `prefixes` [prefixes, prefix length], and return their number."""
    return len(official_suffixes(target.model, prefixes, length=length)[0])


def official_suffixes(model: PreTrainedModel, prefixes: Tokens, *, length: int) -> tuple[Ints, Floats]:
    """Return one suffix for each of `prefixes` [prefixes, prefix length], and its mean loss over the official window.

    Returns [prefixes, length] int64 and [prefixes] float64.
    """
    suffixes, losses = [], []
    for first in range(0, len(prefixes), BATCH):
        tokens = torch.as_tensor(prefixes[first : first + BATCH].astype(np.int64), device=model.device)
        whole = tokens.shape[1] + length
        with torch.no_grad():
            # The script lets generate() infer the mask, which costs the same and prints a warning.
            generated = model.generate(  # type: ignore[operator]
                tokens,
                attention_mask=torch.ones_like(tokens),
                max_length=whole,
                do_sample=True,
                top_k=10,
                top_p=1,
                pad_token_id=0,
            )
            # If every suffix of a batch has ended early, the rest is padding.
            generated = F.pad(generated, (0, whole - generated.shape[1]))
        losses.append(official_losses(model, generated, length=length))
        suffixes.append(generated[:, -length:].cpu().numpy())
    return np.concatenate(suffixes), np.concatenate(losses)


def official_losses(model: PreTrainedModel, tokens: torch.Tensor, *, length: int) -> Floats:
    """Return the mean loss of each row of `tokens` [rows, prefix and suffix] over the official window, [rows] float64.

    This is the script's second forward pass, for one batch. The arguments are those of `official_suffixes`.
    """
    with torch.no_grad():
        # The script copies all logits to the CPU.
        logits, tokens = model(tokens, labels=tokens).logits.cpu(), tokens.cpu()
        logits = logits[:, :-1].reshape(-1, logits.shape[-1]).float()
        loss = F.cross_entropy(logits, tokens[:, 1:].flatten(), reduction="none")
        loss = loss.reshape(len(tokens), -1)[:, -length - 1 : -1].mean(1)
    return loss.cpu().numpy().astype(np.float64)
