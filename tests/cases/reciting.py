"""A model that recites its texts without training, because its next token is a function of the last one.

Greedy decoding after any word of a paragraph returns the rest of the paragraph word for word. All texts are made of
syllables. Tests of wrong "No evidence" use it: the right rate is known to be 100 %.
"""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tokenizers.normalizers import Normalizer

PARAGRAPHS = 12
PARAGRAPH_WORDS = 80
_HEADS = ("ba", "de", "fi", "go", "hu", "ka", "le", "mi", "no", "pu", "ra", "se")
_MIDDLES = ("ne", "tu", "lo", "ni", "ro")
_ACCENTED_MIDDLES = ("né", "tü", "lo", "ñi", "rô")
_TAILS = (*(f"{head}n" for head in _HEADS), "tin", "von", "wan", "xen")
_HIDDEN = 1024
_LOGIT = 12.0


class Reciting(NamedTuple):
    """The directory of a reciting model, and the paragraphs that it recites."""

    model: Path
    paragraphs: list[str]

    def write_corpus(self, path: Path) -> Path:
        """Write the paragraphs as a text file with an empty line between them, and return its path."""
        path.write_text("\n\n".join(self.paragraphs) + "\n", encoding="utf-8")
        return path


def syllable_paragraphs(*, accents: bool = False, seed: int = 0) -> list[str]:
    """Return 12 paragraphs of 80 words, each of which occurs once."""
    middles = _ACCENTED_MIDDLES if accents else _MIDDLES
    words = ["".join(parts) for parts in itertools.product(_HEADS, middles, _TAILS)]
    words += [word + "ta" for word in words]
    words = Random(seed).sample(words, PARAGRAPHS * PARAGRAPH_WORDS)
    return [" ".join(words[at : at + PARAGRAPH_WORDS]) for at in range(0, len(words), PARAGRAPH_WORDS)]


def make_reciting(folder: Path, paragraphs: Sequence[str], *, normalizer: "Normalizer | None" = None) -> Reciting:
    """Write a model that recites paragraphs, such as `syllable_paragraphs`, to `folder`.

    normalizer: that of its tokenizer, which must not change the paragraphs except for their spaces.
    """
    import torch
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM

    words = [word for paragraph in paragraphs for word in paragraph.split()]
    vocabulary = {"<|end|>": 0, "<unk>": 1} | {f"▁{word}": place for place, word in enumerate(words, start=2)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.add_special_tokens([AddedToken("<|end|>", special=True), AddedToken("<unk>", special=True)])
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(vocabulary),
            hidden_size=_HIDDEN,
            intermediate_size=8,
            num_hidden_layers=1,
            num_attention_heads=16,
            num_key_value_heads=16,
            max_position_embeddings=512,
            tie_word_embeddings=False,
            bos_token_id=0,
            eos_token_id=0,
        )
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.model.norm.weight.fill_(1)
        for layer in model.model.layers:
            layer.input_layernorm.weight.fill_(1)
            layer.post_attention_layernorm.weight.fill_(1)
        model.model.embed_tokens.weight[: len(vocabulary), : len(vocabulary)] = torch.eye(len(vocabulary))
        for paragraph in paragraphs:
            ids = [vocabulary[f"▁{word}"] for word in paragraph.split()]
            for before, after in itertools.pairwise([*ids, 0]):
                model.lm_head.weight[after, before] = _LOGIT / _HIDDEN**0.5
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return Reciting(folder, list(paragraphs))
