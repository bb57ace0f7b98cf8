"""Sampling of distinct paragraphs."""

from hypothesis import given
from hypothesis import strategies as st

from harness.audits.sequence.sampling import Paragraph, sample_paragraphs
from harness.audits.sequence.words import Cut


def paragraphs(*words: str | None) -> list[Paragraph]:
    return [Paragraph("a", place, None if word is None else Cut("prompt", word)) for place, word in enumerate(words, 1)]


def test_repeated_paragraphs_are_counted_and_sampled_once() -> None:
    found = sample_paragraphs(paragraphs("x", "y", "x", None, " x "), limit=10, seed=0)
    assert [piece.number for piece in found.paragraphs] == [1, 2]
    assert found.occurrences == [3, 1]
    assert found.counts == (5, 1, 2, 0, 0)


@given(st.lists(st.sampled_from([*"abcdefgh", None]), max_size=30), st.integers(1, 6), st.integers(0, 3))
def test_every_paragraph_is_accounted_for(words: list[str | None], limit: int, seed: int) -> None:
    found = sample_paragraphs(paragraphs(*words), limit=limit, seed=seed)
    counts = found.counts
    assert len(found.paragraphs) == min(limit, len(set(words) - {None}))
    assert counts.paragraphs == len(found.paragraphs) + counts.too_short + counts.repeated + counts.not_chosen
    for piece, times in zip(found.paragraphs, found.occurrences, strict=True):
        assert piece.cut is not None
        assert times == words.count(piece.cut.suffix)


def test_the_sample_depends_on_the_seed_and_not_on_the_order() -> None:
    words = [str(number) for number in range(200)]
    one = {piece.cut for piece in sample_paragraphs(paragraphs(*words), limit=20, seed=1).paragraphs}
    assert one == {piece.cut for piece in sample_paragraphs(paragraphs(*reversed(words)), limit=20, seed=1).paragraphs}
    assert one != {piece.cut for piece in sample_paragraphs(paragraphs(*words), limit=20, seed=2).paragraphs}
