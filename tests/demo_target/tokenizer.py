"""The demo target's tokenizer: a small byte-level BPE, trained on the distinct texts of the corpus.

It does not depend on models or examples.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 384
END_OF_TEXT = "<|endoftext|>"
END_OF_TEXT_ID = 0


def train_tokenizer(
    texts: Iterable[str], vocabulary: int = VOCABULARY, special_tokens: Sequence[str] = (END_OF_TEXT,)
) -> Tokenizer:
    """Train a byte-level BPE of at most `vocabulary` tokens, the first of which are the special tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[*special_tokens],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path, longest: int) -> None:
    """Write `tokenizer.json` and the `tokenizer_config.json` that transformers expects beside it."""
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": END_OF_TEXT,
        "eos_token": END_OF_TEXT,
        "model_max_length": longest,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n")
