"""Weights in the files of a model that the loaded model does not use: harmless ones, and signs of another model."""

import re
from collections.abc import Collection
from pathlib import Path

from harness.core.errors import HarnessError
from harness.core.text import shorten

_BUFFERS = re.compile(
    r"(^|\.)(inv_freq|masked_bias|position_ids|embed_positions\.weights|attn\.bias|attention\.bias|num_batches_tracked)$"
)
"""Tables that models compute themselves and that older files store: angles, positions and causal masks."""
_OTHER_PARTS = re.compile(
    r"(^|\.)(vision|visual|vit|image|audio|speech|video|multi_?modal|mm_projector|perceiver|talker|token2wav|code2wav"
    r"|mtp|nextn|pooler|seq_relationship|v_head|value_head|score|classifier|qa_outputs|multiple_choice_head)",
)
"""Parts that no language model reads: towers and projectors of other media, heads of other tasks."""
_LANGUAGE_HEADS = re.compile(r"(^|\.)(lm_head|cls|predictions|generator_lm_head)\.")
_ADVICE = (
    (
        re.compile(r"lora_|\.base_layer\.|adapter|\.ia3_|^base_model\.model\."),
        "They are of an adapter that is not merged. Merge it into the base model, for example with merge_and_unload() "
        "of peft.",
    ),
    (
        re.compile(r"\.(qweight|qzeros|scales|g_idx|absmax|quant_map)|scale|quant"),
        "The weights are quantized, and config.json has no quantization_config. Use the model before its quantization.",
    ),
)


def require_used_weights(path: Path, kind: str, unused: Collection[str], *, has_language_head: bool = True) -> None:
    """Raise HarnessError unless the tensors of a folder that a model of class `kind` does not use are harmless.

    unused: their names, without those that the architecture itself lists. has_language_head: the model predicts tokens.
    """
    left = sorted(name for name in unused if not _BUFFERS.search(name) and not _OTHER_PARTS.search(name))
    if not has_language_head:
        left = [name for name in left if not _LANGUAGE_HEADS.search(name)]
    if left:
        advice = _advice(left) or "config.json describes another model than the weights. Download the folder again."
        raise HarnessError(
            f"the weights contain {len(left)} tensors that a {kind} does not use, such as {shorten(left[0])}: {path}. "
            f"{advice}"
        )


def missing_weights_error(path: Path, kind: str, missing: Collection[str], unused: Collection[str]) -> HarnessError:
    """Return the error for tensors that a model of class `kind` needs and that the files do not contain."""
    return HarnessError(
        f"the weights lack {len(missing)} tensors of a {kind}, such as {min(missing)}: {path}. "
        f"{_advice(unused) or 'Download the folder again.'}"
    )


def _advice(unused: Collection[str]) -> str:
    """Return what to do about tensors with such names, "" if the names do not tell."""
    return next((advice for names, advice in _ADVICE if any(names.search(name) for name in unused)), "")
