"""Text like the demo corpus, created with other seeds, that the demo target has not read.

The demo's reference model reads other ones, so it knows the kinds of text and none of the answers.
"""

from pathlib import Path

from harness.demo import SEED
from tests.demo_target.corpus import corpus
from tests.demo_target.examples import Examples, cut_examples

UNSEEN_SEED, REFERENCE_SEED = SEED + 1, SEED + 2
REFERENCE_STEPS = 1_200


def unseen_examples(tokenizer_file: Path, wanted: int) -> Examples:
    """Return `wanted` examples from as many documents, encoded with `tokenizer_file`. The result is deterministic.

    `documents` are indices into the created documents and `repetitions` are 0. Raises ValueError if there are too few.
    """
    # Imported here because other uses of the demo package need no tokenizer.
    from tokenizers import Tokenizer

    seen = {document.text for document in corpus(SEED)}
    texts = [document.text for document in corpus(UNSEEN_SEED, max(64, 5 * wanted // 4)) if document.text not in seen]
    tokens = [encoding.ids for encoding in Tokenizer.from_file(str(tokenizer_file)).encode_batch(texts)]
    return cut_examples(tokens, [0] * len(tokens), wanted=wanted, seed=UNSEEN_SEED)


def reference_texts(wanted: int) -> list[str]:
    """Return at most `wanted` distinct texts for the reference model: none of the corpus, none of the unseen ones."""
    others = {document.text for seed in (SEED, UNSEEN_SEED) for document in corpus(seed)}
    texts = dict.fromkeys(document.text for document in corpus(REFERENCE_SEED, wanted))
    return [text for text in texts if text not in others]
