"""The inputs of an entities audit: names from lists, corpora and queries, and prompts."""

import json
import re
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from harness.audits.entities.inputs import read_inputs, split_halves
from harness.audits.entities.names import conll_names, drop_common, read_names, select_from_source, wikidata_names
from harness.audits.entities.prompts import HAND_WRITTEN, KINDS, MASK, Prompt, read_prompts
from harness.core.errors import HarnessError
from harness.submit.wheel import harness_wheel

IOB2 = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O
Ian NNP B-NP B-PER
Wright NNP I-NP I-PER
Ada NNP B-NP B-PER
Mary NNP I-NP I-PER
Byron NNP I-NP I-PER
. . O O

Blackburn NNP B-NP B-PER

Ian NNP B-NP B-PER
Wright NNP I-NP I-PER
"""
# IOB1 uses B- only after a name of the same kind.
IOB1 = IOB2.replace(" B-", " I-").replace("Ada NNP I-NP I-PER", "Ada NNP I-NP B-PER")


@pytest.mark.parametrize(
    ("contents", "names"),
    [
        *(
            ([content], ["Ian Wright", "Ada Mary Byron"])
            for content in (IOB1, IOB2, IOB2.replace(" ", "\t"), IOB2.replace("-PER", "-PERSON"))
        ),
        # A name ends with its file, and is not joined with a place before it.
        (
            ["Ian NNP B-NP B-PER\nWright NNP I-NP I-PER", "Ada NNP I-NP I-PER\nByron NNP I-NP I-PER\n"],
            ["Ian Wright", "Ada Byron"],
        ),
        (
            ["Paris NNP I-NP I-LOC\nHilton NNP I-NP I-PER\nJunior NNP I-NP I-PER\nLondon NNP I-NP I-LOC\n"],
            ["Hilton Junior"],
        ),
    ],
)
def test_a_corpus_gives_distinct_persons_of_several_words(tmp_path: Path, contents: list[str], names: list[str]):
    files = [tmp_path / str(number) for number in range(len(contents))]
    for file, content in zip(files, contents, strict=True):
        file.write_text(content)
    assert conll_names(files) == names


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("Ian NNP B-NP B-PER\nWright\n", r"not a line of a CoNLL-2003 file: .*line 2, 'Wright'"),
        ("Ian Wright scored\n", r"line 1, 'Ian Wright scored'"),
        ("EU NNP B-NP B-ORG\n", "no person of two words or more"),
        ("", "no person of two words or more"),
    ],
)
def test_an_invalid_corpus_is_refused(tmp_path: Path, content: str, sentence: str):
    file = tmp_path / "train.txt"
    file.write_text(content)
    with pytest.raises(HarnessError, match=sentence):
        conll_names([file])


def sparql_json(names: list[str]) -> str:
    rows = [
        {"person": {"type": "uri", "value": "http://example.org/Q1"}, "personLabel": {"type": "literal", "value": name}}
        for name in names
    ]
    return json.dumps({"head": {"vars": ["person", "personLabel"]}, "results": {"bindings": rows}})


@pytest.mark.parametrize(
    "content",
    [
        sparql_json(["Ada Byron", "Plato", "Q42", "Ada Byron", "Ian  Wright"]),
        json.dumps([{"person": "Q1", "personLabel": name} for name in ("Ada Byron", "Plato", "Ian Wright")]),
        'person,personLabel\nQ1,Ada Byron\nQ2,Plato\nQ3,"Ian Wright"\n',
        "name\nAda Byron\nIan Wright\n",
        "countryLabel,personLabel\nUnited Kingdom,Ada Byron\nUnited Kingdom,Ian Wright\n",
        "occupationLabel,name\nfootball player,Ada Byron\nfootball player,Ian Wright\n",
        "person,personLabel\nQ1,Ada Byron\nQ2\nQ3,Ian Wright\n",
        sparql_json(["Ada\u2028Byron", "Ian\x85Wright"]).encode().decode("unicode_escape"),
        *(
            f'{variable}person\t{variable}personLabel\n1\t"Ada Byron"@en\n2\t"Ian Wright"\n3\tQ4\n'
            for variable in ("?", "")
        ),
        "﻿personLabel\r\nAda Byron\r\nIan Wright\r\n",
    ],
)
def test_a_wikidata_result_gives_distinct_labels_of_several_words(tmp_path: Path, content: str):
    file = tmp_path / "query"
    file.write_text(content, encoding="utf-8")
    assert wikidata_names(file) == ["Ada Byron", "Ian Wright"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "not the JSON of a SPARQL result"),
        ('{"results": []}', "not the JSON of a SPARQL result"),
        ('{"results": {"bindings": [{"personLabel": "Ada Byron"}]}}', "not the JSON of a SPARQL result"),
        ("a,b\nAda Byron,1\n", r"is called name or …Label. Its columns: a, b"),
        ("name\nPlato\n", "query contains no name of two words or more"),
        ("", "Its columns: none"),
        ("person,personLabel\nQ1,Ada Byron\nQ2,Byron, Ada\n", r"more cells than columns: .*query, line 3"),
    ],
)
def test_an_invalid_wikidata_result_is_refused(tmp_path: Path, content: str, sentence: str):
    file = tmp_path / "query"
    file.write_text(content)
    with pytest.raises(HarnessError, match=sentence):
        wikidata_names(file)


def test_both_lists_come_from_wikidata_with_equal_lengths():
    trained = ["Ada Byron", "Ian Wright", "IDA LUPINO", "Not In Wikidata"]
    source = ["Ada Byron", "Max Planck", "Ian Wright", "Ida Lupino", "Lise Meitner", "Otto Hahn"]
    lists = select_from_source(trained, source, seed=0)
    assert lists.inside == ["Ada Byron", "Ian Wright"]
    assert len(lists.outside) == 2
    # In the corpus in other letters: neither trained on as it stands, nor unseen.
    assert set(lists.outside) <= {"Max Planck", "Lise Meitner", "Otto Hahn"}
    assert select_from_source(trained, source, seed=0) == lists


def test_sources_without_overlap_are_refused():
    with pytest.raises(HarnessError, match="0 of 1 Wikidata names are in the corpus and 1 are not"):
        select_from_source(["Ada Byron"], ["Max Planck"], seed=0)


def test_repeated_lines_are_noted(tmp_path: Path):
    file = tmp_path / "names.txt"
    file.write_text("Ada Byron\nIan Wright\nAda Byron\n")
    assert read_names(file)[1] == ["Skipped 1 of 3 lines of names.txt: repeated or empty."]


def test_a_name_in_both_lists_is_dropped():
    lists = drop_common(["Ada Byron", "Ian Wright"], ["Ian Wright", "Max Planck"])
    assert (lists.inside, lists.outside) == (["Ada Byron"], ["Max Planck"])
    assert lists.notes == ["Skipped 1 names that are in both lists."]


def test_halves_have_every_name_once_and_depend_on_the_seed():
    names = [f"Name {number}" for number in range(11)]
    dev, test = split_halves(names, 3, 1)
    assert (len(dev), len(test)) == (6, 5)
    assert sorted([*dev, *test]) == sorted(names)
    assert split_halves(names, 3, 1) == (dev, test)
    assert split_halves(names, 4, 1) != (dev, test)


def test_names_need_two_lists_or_a_corpus_and_a_query(tmp_path: Path):
    file = tmp_path / "names.txt"
    file.write_text("Ada Byron\nIan Wright\n")
    with pytest.raises(HarnessError, match="either two lists or a corpus"):
        read_inputs(in_train=file, wikidata=file)
    with pytest.raises(HarnessError, match=r"^0 names that the model was trained on are usable"):
        read_inputs(in_train=file, out_train=file)


@pytest.mark.parametrize(
    ("name", "content", "names"),
    [
        ("names", "Carl Dorn\n\nAnna Bell\nCarl  Dorn\n", ["Carl Dorn", "Anna Bell"]),
        ("names", "name\nCarl Dorn\nAnna Bell\n", ["Carl Dorn", "Anna Bell"]),
        ("names", "Carl Dorn\t1815\nAnna Bell\t1963\n", ["Carl Dorn", "Anna Bell"]),
        ("names", "born\tname\n1815\tCarl Dorn\n1963\tAnna Bell\n", ["Carl Dorn", "Anna Bell"]),
        # Only a line end ends a name.
        ("a.txt", "Carl\u2028Dorn\r\nAnna\x85Bell\rMax\x0bPlanck\n", ["Carl Dorn", "Anna Bell", "Max Planck"]),
        ("a.csv", 'name,country\r\nCarl Dorn,DE\r\n"Bell, Anna",UK\r\n', ["Carl Dorn", "Bell, Anna"]),
        ("a.csv", "country,personLabel\nDE,Carl Dorn\n", ["Carl Dorn"]),
        ("a.csv", "name;country\r\nCarl Dorn;DE\r\n", ["Carl Dorn"]),
        ("a.csv", "Carl Dorn\nAnna Bell\n", ["Carl Dorn", "Anna Bell"]),
        ("a.txt", "name,country\nCarl Dorn,DE\n", ["Carl Dorn"]),
        ("a.txt", "Dorn, Carl\nBell, Anna\n", ["Dorn, Carl", "Bell, Anna"]),
        ("a.tsv", '?person\t?personLabel\n<http://x/Q1>\t"Anna \\"A\\" Bell"@en\n', ['Anna "A" Bell']),
    ],
)
def test_names_are_read_from_lists_and_tables(tmp_path, name, content, names):
    (tmp_path / name).write_bytes(content.encode())
    assert read_names(tmp_path / name)[0] == names


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("person,country\nCarl Dorn,DE\n", r"no column of .* is called name or …Label. Its columns: person, country"),
        ("person;country\nCarl Dorn;DE\n", r"no column of .* is called name or …Label. Its columns: person, country"),
        (
            "name,country\nDorn, Carl,DE\n",
            r"more cells than columns: .*a.csv, line 2. Put a name with a comma in quotes",
        ),
    ],
)
def test_a_table_whose_names_are_not_clear_is_refused(tmp_path, content, sentence):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(HarnessError, match=sentence):
        read_names(tmp_path / "a.csv")


@pytest.fixture(scope="module")
def built_in() -> list[Prompt]:
    prompts, notes = read_prompts(None)
    assert notes == []
    return prompts


def test_a_hundred_prompts_of_each_sentence_type_are_built_in(built_in):
    assert Counter(prompt.kind for prompt in built_in) == dict.fromkeys(KINDS, 100)


def test_built_in_sentences_have_one_mask_end_as_their_type_does_and_vary(built_in):
    ends = {"declarative": ".", "imperative": ".", "exclamatory": "!", "interrogative": "?"}
    assert all(prompt.text.count(MASK) == 1 for prompt in [*built_in, *(Prompt(text, "") for text in HAND_WRITTEN)])
    assert all(prompt.text.endswith(ends[prompt.kind]) for prompt in built_in)
    assert len({prompt.length for prompt in built_in}) >= 15
    assert len({prompt.position for prompt in built_in}) >= 10


def shared_words(first: str, second: str) -> float:
    """Return the common words of two prompts as a share of the shorter one's words, without MASK and punctuation."""
    words = [set(re.findall(r"\w+(?:['’-]\w+)*", text.casefold())) - {"mask"} for text in (first, second)]
    return len(words[0] & words[1]) / max(1, min(map(len, words)))


def test_no_two_built_in_prompts_share_more_than_sixty_percent_of_their_words(built_in):
    alike = [
        (first.text, second.text)
        for first, second in combinations(built_in, 2)
        if shared_words(first.text, second.text) > 0.6
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


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("MASK's", ["MASK", "'s"]),
        ("MASK’s", ["MASK", "’s"]),
        ("ex-MASK", ["ex", "-", "MASK"]),
        ("(MASK)", ["(", "MASK", ")"]),
        ("O'MASK", ["O", "'", "MASK"]),
        ("MASK-like", ["MASK", "-", "like"]),
        ("my friend's MASK", ["my", "friend", "'s", "MASK"]),
        ("isn't well-known MASK", ["isn't", "well-known", "MASK"]),
        ("MASKED MASK", ["MASKED", "MASK"]),
    ],
)
def test_the_name_and_a_possessive_s_are_words(named, words):
    prompt = Prompt(f"I met {named} yesterday.", "")
    assert [word.text for word in prompt.words] == ["I", "met", *words, "yesterday", "."]
    assert prompt.words[prompt.position].text == MASK
    for _ in range(prompt.length - 1):
        length = prompt.length
        prompt = prompt.without(prompt.droppable[0])
        assert prompt.length == length - 1
    assert prompt.text == MASK


@pytest.mark.parametrize(
    ("word", "left"),
    [(0, ", isn't MASK late?"), (1, "Well isn't MASK late?"), (4, "Well, isn't MASK?"), (5, "Well, isn't MASK late")],
)
def test_a_dropped_word_leaves_normal_spacing(word, left):
    assert Prompt("Well, isn't MASK late?", "").without(word).text == left


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
    with pytest.raises(HarnessError, match="no such file"):
        read_prompts(file)
    file.write_bytes(content)
    with pytest.raises(
        HarnessError, match=r"mine\.txt contains no prompt with exactly one MASK|not UTF-8 text: .*mine\.txt"
    ):
        read_prompts(file)
