"""Text as the tokens of an index, and back."""

import numpy as np

from harness.corpora.encoders import TokenizerEncoder
from harness.demo import WEIGHTS


def test_a_character_at_a_border_is_decoded_whole_or_left_out() -> None:
    encoder = TokenizerEncoder(WEIGHTS / "tokenizer.json")
    ((_, tokens),) = encoder.encode([("", "a 😀 b 😀")])
    assert encoder.texts([tokens]) == ["a 😀 b 😀"]
    # The tokenizer has four tokens for the character, one for each of its bytes.
    inside = int(np.argmax([text.endswith("\ufffd") for text in encoder.texts([tokens[:end] for end in range(9)])]))
    assert inside > 0
    ((prefix, text),) = encoder.decode(tokens[None, :inside], tokens[None, inside:-1])
    assert (prefix, text) == ("a ", "😀 b ")
