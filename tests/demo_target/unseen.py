"""Text like the demo corpus that is not in the demo target's training data, so the target cannot have memorized it.

Documents are created like the corpus with another seed, and examples follow the round's own rules.
"""

from pathlib import Path

from harness.demo import SEED
from tests.demo_target.corpus import corpus
from tests.demo_target.examples import Examples, cut_examples

UNSEEN_SEED = SEED + 1


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
