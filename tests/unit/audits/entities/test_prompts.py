"""The shipped prompts are varied, and own prompts are checked."""

import re
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from harness.audits.entities.prompt import HAND_WRITTEN, KINDS, MASK, Prompt, read_prompts
from harness.core.errors import HarnessError
from harness.submit.archive import harness_wheel


@pytest.fixture(scope="module")
def shipped() -> list[Prompt]:
    prompts, notes = read_prompts(None)
    assert notes == []
    return prompts


def test_a_hundred_prompts_of_each_sentence_type_are_shipped(shipped):
    assert Counter(prompt.kind for prompt in shipped) == dict.fromkeys(KINDS, 100)


def test_every_shipped_prompt_has_one_mask(shipped):
    assert all(prompt.text.count(MASK) == 1 for prompt in [*shipped, *(Prompt(text, "") for text in HAND_WRITTEN)])


def test_shipped_sentences_end_as_their_type_does(shipped):
    ends = {"declarative": ".", "imperative": ".", "exclamatory": "!", "interrogative": "?"}
    assert all(prompt.text.endswith(ends[prompt.kind]) for prompt in shipped)


def test_shipped_prompts_have_at_least_fifteen_lengths_and_ten_positions_of_the_name(shipped):
    assert len({prompt.length for prompt in shipped}) >= 15
    assert len({prompt.position for prompt in shipped}) >= 10


def shared_words(one: str, other: str) -> float:
    """Return the common words of two prompts as a share of the shorter one's words, without MASK and punctuation."""
    first, second = (set(re.findall(r"\w+(?:['’-]\w+)*", text.casefold())) - {"mask"} for text in (one, other))
    return len(first & second) / max(1, min(len(first), len(second)))


def test_no_two_shipped_prompts_share_more_than_sixty_percent_of_their_words(shipped):
    alike = [
        (one.text, other.text) for one, other in combinations(shipped, 2) if shared_words(one.text, other.text) > 0.6
    ]
    assert alike == []


def test_the_wheel_carries_the_prompts():
    import io
    import zipfile

    _, wheel = harness_wheel()
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        carried = {name for name in archive.namelist() if name.startswith("harness/audits/entities/prompts/")}
    assert carried == {f"harness/audits/entities/prompts/{kind}.txt" for kind in KINDS}


def test_words_and_positions_count_punctuation():
    prompt = Prompt("Well, isn't MASK late?", "interrogative")
    assert [word.text for word in prompt.words] == ["Well", ",", "isn't", "MASK", "late", "?"]
    assert (prompt.length, prompt.position, prompt.name_start) == (6, 3, 12)
    assert prompt.fill("Ada Byron") == "Well, isn't Ada Byron late?"


@pytest.mark.parametrize("named", ["ex-MASK", "MASK's", "(MASK)", "O'MASK", "ex-MASK's", "MASK-like"])
def test_a_name_joined_with_a_word_keeps_its_word(named):
    prompt = Prompt(f"I met {named} yesterday.", "")
    assert MASK in prompt.words[prompt.position].text
    assert prompt.position == (3 if named == "(MASK)" else 2)
    while prompt.droppable:
        prompt = prompt.without(prompt.droppable[0])
    assert prompt.text == (MASK if named == "(MASK)" else named)


@pytest.mark.parametrize(
    ("word", "left"),
    [(0, ", isn't MASK late?"), (1, "Well isn't MASK late?"), (4, "Well, isn't MASK?"), (5, "Well, isn't MASK late")],
)
def test_a_dropped_word_leaves_normal_spacing(word, left):
    assert Prompt("Well, isn't MASK late?", "").without(word).text == left


def test_words_are_dropped_down_to_the_name_alone():
    prompt = Prompt("Well, isn't MASK late?", "")
    while prompt.droppable:
        prompt = prompt.without(prompt.droppable[-1])
    assert prompt.text == MASK


def test_prompts_without_exactly_one_mask_are_noted(tmp_path: Path):
    file = tmp_path / "mine.txt"
    file.write_text(
        "MASK is here.\nNobody is here.\n\nMASK met MASK.\nquestion\tIs it MASK?\nMASKED men ran.\nMASK is here.\n"
    )
    prompts, notes = read_prompts(file)
    assert [(prompt.text, prompt.kind) for prompt in prompts] == [("MASK is here.", "own"), ("Is it MASK?", "question")]
    assert [note.partition(":")[2] for note in notes] == [
        " the prompt contains MASK 0 times, not once.",
        " the prompt contains MASK 2 times, not once.",
        " the prompt contains MASK 0 times, not once.",
    ]


def test_many_faulty_prompts_have_four_notes(tmp_path: Path):
    file = tmp_path / "mine.txt"
    file.write_text("MASK is here.\n" + "".join(f"Nobody is here {number}.\n" for number in range(50)))
    _, notes = read_prompts(file)
    assert len(notes) == 4
    assert notes[-1] == "Skipped 47 further records (prompts without exactly one MASK)."


def test_file_names_are_prompt_types(tmp_path: Path):
    (tmp_path / "polite.txt").write_text("Good morning, MASK.\n")
    (tmp_path / "rude.txt").write_text("Get lost, MASK.\n")
    prompts, _ = read_prompts(tmp_path)
    assert [prompt.kind for prompt in prompts] == ["polite", "rude"]


@pytest.mark.parametrize("content", [b"", b"Nobody.\n", b"\xff\xfe\x00MASK"])
def test_a_file_without_a_usable_prompt_is_refused(tmp_path: Path, content: bytes):
    file = tmp_path / "mine.txt"
    file.write_bytes(content)
    with pytest.raises(
        HarnessError, match=r"mine\.txt contains no prompt with exactly one MASK|not UTF-8 text: .*mine\.txt"
    ):
        read_prompts(file)


def test_a_missing_file_is_refused(tmp_path: Path):
    with pytest.raises(HarnessError, match="no such file"):
        read_prompts(tmp_path / "absent.txt")
