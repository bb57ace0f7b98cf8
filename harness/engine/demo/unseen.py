"""Text of the demo corpus's kinds that the demo target never saw: what it completes of it is no memory.

Documents are made as the corpus is, by another seed, and examples are cut out of them by the round's own rules.
"""

from pathlib import Path

from harness.engine.demo import SEED
from harness.engine.demo.corpus import corpus
from harness.engine.demo.examples import Examples, cut_examples

UNSEEN_SEED = SEED + 1


def unseen_examples(tokenizer_file: Path, wanted: int) -> Examples:
    """`wanted` examples from as many documents, in the tokens of `tokenizer_file`; the same ones each time.

    `documents` index the documents that were made, `repetitions` are 0. Raises ValueError where they do not suffice.
    """
    # Here: whoever wants no text of the demo loads no tokenizer.
    from tokenizers import Tokenizer

    seen = {document.text for document in corpus(SEED)}
    made = [document.text for document in corpus(UNSEEN_SEED, max(64, 5 * wanted // 4)) if document.text not in seen]
    texts = [encoding.ids for encoding in Tokenizer.from_file(str(tokenizer_file)).encode_batch(made)]
    return cut_examples(texts, [0] * len(texts), wanted=wanted, seed=UNSEEN_SEED)
