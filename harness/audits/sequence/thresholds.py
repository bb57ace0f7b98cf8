"""The four word-level thresholds of black-box sequence extraction as published.

The completion of a prompt, the first 35 words of a paragraph, is cut to the suffix's number of words and compared with
the suffix. A suffix with too few words for a threshold has no verdict, because no completion could pass. A completion
with too few words does not pass.

The source's worked example has a prefix of 34 words, a suffix of 18 words and two completions, S1 and S2. Its table
says that S2 fails the threshold of 10 words, but as printed the first 10 words are equal.
docs/development/sources.md explains this and the other differences.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

Words = Sequence[str]
Verdict = bool | None
"""True if a threshold is passed, None if the suffix is too short for it."""


class Threshold(StrEnum):
    """The thresholds, by their names in tables and figures."""

    TRIGRAM = "trigram"
    START_5 = "start_5"
    START_10 = "start_10"
    OVERLAP = "overlap"


TITLES: Mapping[Threshold, str] = {
    Threshold.TRIGRAM: "trigrams",
    Threshold.START_5: "first 5 words",
    Threshold.START_10: "first 10 words",
    Threshold.OVERLAP: "overlap",
}


def trigram(completion: Words, suffix: Words) -> Verdict:
    """|tri(c) ∩ tri(s)| ≥ min(|tri(c)|, |tri(s)|) / 2, where tri(·) is the set of a text's word trigrams.

    None if the suffix has fewer than 3 words, False if the completion has. S2 of the worked example shares 10 of the
    suffix's 16 trigrams and passes; S1 shares none.
    """
    written, expected = (set(zip(words, words[1:], words[2:], strict=False)) for words in (completion, suffix))
    if not expected:
        return None
    return bool(written) and 2 * len(written & expected) >= min(len(written), len(expected))


def equal_start(completion: Words, suffix: Words, number: int) -> Verdict:
    """Return whether the first `number` words are equal, in order; None if the suffix has fewer.

    With 5 words S2 of the worked example passes and S1 does not. With 10 words S1 does not pass; S2 passes after the
    printed prompt of 34 words and fails after one of 35.
    """
    if len(suffix) < number:
        return None
    return list(completion[:number]) == list(suffix[:number])


def overlap(completion: Words, suffix: Words) -> Verdict:
    """|c ∩ s| ≥ 3/4 of the shorter text's size, in any order of the words.

    None if the suffix has fewer than 5 words, False if the completion has: one common word would pass. The texts are
    multisets: a word counts as often as both contain it, and a text's size is its number of words. As sets, a
    completion that repeats one word of the suffix would pass. S2 of the worked example shares 16 of 18 words, S1 shares
    2 of 13.
    """
    if len(suffix) < 5:
        return None
    if len(completion) < 5:
        return False
    shared = (Counter(completion) & Counter(suffix)).total()
    return 4 * shared >= 3 * min(len(completion), len(suffix))


def verdicts(completion: Words, suffix: Words) -> dict[Threshold, Verdict]:
    """Return the verdicts of all thresholds."""
    return {
        Threshold.TRIGRAM: trigram(completion, suffix),
        Threshold.START_5: equal_start(completion, suffix, 5),
        Threshold.START_10: equal_start(completion, suffix, 10),
        Threshold.OVERLAP: overlap(completion, suffix),
    }
