"""The four word-level thresholds by which a completion counts as a memorized suffix: pure functions of two texts.

They are the thresholds of black-box sequence extraction as published: a completion of the first 35 words of a
paragraph is cut to the suffix's number of words and compared with the suffix. A text with too few words for a threshold
has no verdict, so an empty completion passes none.

Notes on the paper's worked example (a prefix, a suffix of 18 words, completions S1 and S2 of 13 and 18 words):

- The prefix has 34 words, not the stated 35.
- S1 passes no threshold; S2 passes trigram, 5 words and overlap, as in the paper's table.
- The table says that S2 fails the threshold of 10 words, but as printed, after a prompt of 34 words, its first 10 words
  equal the suffix's, so it passes. After a prompt of 35 words, which takes the suffix's "I", the tenth words are
  "colleagues" and "coworkers", so it fails as the table says. All other verdicts are equal at 34 and 35 words.
- The paper computes the overlap with a length of 16, the number of trigrams of a text of 18 words, and lists words of
  S1 that the suffix does not contain. No verdict depends on either.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

Words = Sequence[str]
Verdict = bool | None
"""True if a threshold is passed, None if a text is too short for it."""


class Counting(StrEnum):
    """The counting of repeated words in the overlap."""

    MULTISET = "multiset"
    SET = "set"


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


def trigram(one: Words, other: Words) -> Verdict:
    """|tri(one) ∩ tri(other)| ≥ min(|tri(one)|, |tri(other)|) / 2, where tri(·) is the set of a text's word trigrams.

    None if a text has fewer than 3 words. S2 of the worked example shares 10 of the suffix's 16 trigrams and passes;
    S1 shares none.
    """
    trigrams, others = (set(zip(words, words[1:], words[2:], strict=False)) for words in (one, other))
    if not trigrams or not others:
        return None
    return 2 * len(trigrams & others) >= min(len(trigrams), len(others))


def equal_start(one: Words, other: Words, number: int) -> Verdict:
    """Return whether the first `number` words are equal, in order; None if a text has fewer.

    With 5 words S2 of the worked example passes and S1 does not. With 10 words S1 does not pass; S2 passes after the
    printed prompt of 34 words and fails after one of 35.
    """
    if min(len(one), len(other)) < number:
        return None
    return list(one[:number]) == list(other[:number])


def overlap(one: Words, other: Words, counting: Counting = Counting.MULTISET) -> Verdict:
    """|one ∩ other| ≥ 3/4 of the shorter text's size, in any order of the words; None below 5 words.

    As multisets, the default, a word counts as often as both texts contain it, and a text's size is its number of
    words. As sets, each distinct word counts once in the intersection and in the size: then a completion that repeats
    one word of the suffix passes, which is why it is not the default. S2 of the worked example shares 16 of 18 words,
    S1 shares 2 of 13.
    """
    if min(len(one), len(other)) < 5:
        return None
    if counting is Counting.SET:
        one, other = list(set(one)), list(set(other))
    shared = (Counter(one) & Counter(other)).total()
    return 4 * shared >= 3 * min(len(one), len(other))


def verdicts(one: Words, other: Words, counting: Counting = Counting.MULTISET) -> dict[Threshold, Verdict]:
    """Return the verdicts of all thresholds."""
    return {
        Threshold.TRIGRAM: trigram(one, other),
        Threshold.START_5: equal_start(one, other, 5),
        Threshold.START_10: equal_start(one, other, 10),
        Threshold.OVERLAP: overlap(one, other, counting),
    }
