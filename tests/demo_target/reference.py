"""The texts of the demo's reference model: the same kinds of documents as the corpus, created with another seed.

None of them is in the corpus or among the unseen texts, so the model knows the kinds of text and none of the answers.
"""

from harness.demo import SEED
from tests.demo_target.corpus import corpus
from tests.demo_target.unseen import UNSEEN_SEED

REFERENCE_SEED = SEED + 2
REFERENCE_STEPS = 1_200


def reference_texts(wanted: int) -> list[str]:
    """Return at most `wanted` distinct texts. The result is deterministic."""
    others = {document.text for seed in (SEED, UNSEEN_SEED) for document in corpus(seed)}
    texts = dict.fromkeys(document.text for document in corpus(REFERENCE_SEED, wanted))
    return [text for text in texts if text not in others]
