"""One draw for each of several prompts, which may differ in length and share their passes without padding or masks.

A batch begins with as many tokens as its shortest prompt has, and then takes one step for each further token. At these
steps a longer prompt takes its own next token, and a complete one takes the token that the policy selects. So each
prompt has the states that it has alone, whichever way its model is decoded.
"""

from collections.abc import Sequence

import numpy as np
import torch

from harness.core.arrays import Ints, Tokens
from harness.core.policy import Policy
from harness.engine.branches import Placement, Predictor
from harness.engine.memory import require_finite
from harness.engine.sampling import select_tokens
from harness.engine.tree import OnStep, prefix_groups, prefix_keys, step_name, to_device, to_host, uniforms

STEP_ROWS = 16
"""A step of decoding costs as much as so many rows of it: all weights are read once, and then each row is computed."""
_KEPT = 0.875
"""Rows that are done leave a batch when at most this part of it is left: the models' own code copies what it keeps."""


def complete_prompts(
    predictor: Predictor,
    prompts: Sequence[Tokens],
    lengths: Ints,
    *,
    policy: Policy,
    seed: int,
    rows_at_once: int,
    on_step: OnStep,
) -> tuple[list[Ints], int]:
    """Return `lengths` [prompts] tokens after each of `prompts`, and the number of next-token distributions computed.

    They are draw 0 of each prompt, as in `sample_paths`. Prompts of similar length share a batch.
    """
    sizes = np.array([len(prompt) for prompt in prompts])
    beginnings = np.stack([prompt[: sizes.min()] for prompt in prompts])
    order = np.lexsort((sizes, *predictor.has_bos(beginnings).T))
    completions = [np.empty(0, np.int64)] * len(prompts)
    evaluations = 0
    for part in prefix_groups(predictor, beginnings[order], rows_at_once):
        # Rows that are done first come last, so that the others keep their places.
        rows = sorted(order[part], key=lambda row: -(sizes + lengths)[row])
        size, end = sizes[rows], (sizes + lengths)[rows]
        first, last = int(size.min()), int(end.max())
        own_step = np.arange(last) - size[:, None]  # [rows, last], negative within the prompt
        keys = np.concatenate([prefix_keys(prompts[row][None]) for row in rows])
        drawn = uniforms(seed, keys[:, None], 0, np.maximum(own_step, 0))
        uniform = torch.as_tensor(drawn, device=predictor.device)  # [rows, last]
        known = [np.pad(prompts[row], (0, last - sizes[row])) for row in rows]
        tokens = to_device(predictor, np.stack(known))  # [rows, last], complete up to the current position
        logprobs = torch.zeros(tokens.shape, device=predictor.device)
        numbers = torch.arange(len(rows), device=predictor.device)
        states, branches = predictor.begin(tokens[:, :first], room=last - first - 1, keep=1, is_shared=False)
        states = states[:, 0]
        work = np.cumsum(STEP_ROWS + (end[:, None] > np.arange(first, last)).sum(axis=0))  # after each step
        for position in range(first, last):
            # The temperature depends on the step only while it decays.
            step = np.where(position < end, np.minimum(own_step[:, position], policy.decay_tokens), -1)
            for number in np.unique(step[step >= 0]):
                taking = torch.as_tensor(np.flatnonzero(step == number), device=predictor.device)
                evaluations += len(taking)
                tokens[taking, position], logprobs[taking, position], _ = select_tokens(
                    predictor,
                    states[taking],
                    numbers[: len(taking)],
                    uniform[taking, position],
                    policy.at(int(number)),
                    tokens[taking, :position] if policy.repetition_penalty != 1 else None,
                )
            done = part.start + len(rows) * work[position - first] / work[-1]
            on_step(done / len(prompts), step_name(len(prompts), position - first, last - first))
            if position + 1 < last:
                left = int(np.count_nonzero(end > position + 1))
                left = left if left <= _KEPT * len(states) else len(states)
                placement = Placement(numbers[:left], numbers[:left], numbers[:0], max_branches=1)
                states = predictor.advance(branches, tokens[:left, position], placement)
        require_finite(to_host(logprobs), predictor.dtype)
        whole = tokens.cpu().numpy()
        for place, row in enumerate(rows):
            completions[row] = whole[place, size[place] : end[place]]
    return completions, evaluations
