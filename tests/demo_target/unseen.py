"""Text of the same kinds as the demo corpus that the demo target never saw, so it cannot have memorized it.

Documents are created like the corpus with another seed, and examples follow the round's own rules.
"""

from pathlib import Path

from harness.engine.demo import SEED
from tests.demo_target.corpus import corpus
from tests.demo_target.examples import Examples, cut_examples

UNSEEN_SEED = SEED + 1


def unseen_examples(tokenizer_file: Path, wanted: int) -> Examples:
    """Return `wanted` examples from as many documents, in the tokens of `tokenizer_file`, the same ones each time.

    `documents` are indices of the created documents and `repetitions` are 0. Raises ValueError if there are too few.
    """
    # Imported here because other uses of the demo package need no tokenizer.
    from tokenizers import Tokenizer

    seen = {document.text for document in corpus(SEED)}
    made = [document.text for document in corpus(UNSEEN_SEED, max(64, 5 * wanted // 4)) if document.text not in seen]
    texts = [encoding.ids for encoding in Tokenizer.from_file(str(tokenizer_file)).encode_batch(made)]
    return cut_examples(texts, [0] * len(texts), wanted=wanted, seed=UNSEEN_SEED)
