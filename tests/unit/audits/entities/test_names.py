"""Names from lists, CoNLL-2003 files and Wikidata results."""

import json
from pathlib import Path

import pytest

from harness.audits.entities.inputs import (
    conll_names,
    drop_common,
    read_inputs,
    read_names,
    select_from_source,
    split_halves,
    wikidata_names,
)
from harness.core.errors import HarnessError

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


@pytest.mark.parametrize("content", [IOB1, IOB2, IOB2.replace(" ", "\t"), IOB2.replace("-PER", "-PERSON")])
def test_a_corpus_gives_distinct_persons_of_several_words(tmp_path: Path, content: str):
    file = tmp_path / "train.txt"
    file.write_text(content)
    assert conll_names([file]) == ["Ian Wright", "Ada Mary Byron"]


def test_a_name_ends_with_its_file(tmp_path: Path):
    first, second = tmp_path / "one", tmp_path / "two"
    first.write_text("Ian NNP B-NP B-PER\nWright NNP I-NP I-PER")
    second.write_text("Ada NNP I-NP I-PER\nByron NNP I-NP I-PER\n")
    assert conll_names([first, second]) == ["Ian Wright", "Ada Byron"]


def test_a_person_after_a_place_is_not_joined_with_it(tmp_path: Path):
    file = tmp_path / "train.txt"
    file.write_text("Paris NNP I-NP I-LOC\nHilton NNP I-NP I-PER\nJunior NNP I-NP I-PER\nLondon NNP I-NP I-LOC\n")
    assert conll_names([file]) == ["Hilton Junior"]


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
        ("name\nPlato\n", "column 'name' of .* contains no name of two words or more"),
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


def test_a_list_may_be_text_or_a_table(tmp_path: Path):
    file = tmp_path / "names"
    for content in (
        "Ada Byron\n\nIan Wright\nAda  Byron\n",
        "name\nAda Byron\nIan Wright\n",
        "Ada Byron\t1815\nIan Wright\t1963\n",
        "born\tname\n1815\tAda Byron\n1963\tIan Wright\n",
    ):
        file.write_text(content)
        assert read_names(file)[0] == ["Ada Byron", "Ian Wright"]


def test_only_a_line_end_ends_a_name(tmp_path: Path):
    file = tmp_path / "names.txt"
    file.write_bytes("Ada\u2028Byron\r\nIan\x85Wright\rMax\x0bPlanck\n".encode())
    assert read_names(file)[0] == ["Ada Byron", "Ian Wright", "Max Planck"]


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
    assert (len(dev), len(test)) == (5, 6)
    assert sorted([*dev, *test]) == sorted(names)
    assert split_halves(names, 3, 1) == (dev, test)
    assert split_halves(names, 4, 1) != (dev, test)


def test_names_need_two_lists_or_a_corpus_and_a_query(tmp_path: Path):
    file = tmp_path / "names.txt"
    file.write_text("Ada Byron\nIan Wright\n")
    with pytest.raises(HarnessError, match="either two lists or a corpus"):
        read_inputs(in_train=file, wikidata=file)
    with pytest.raises(HarnessError, match=r"^0 names that the model was trained on are left"):
        read_inputs(in_train=file, out_train=file)


@pytest.mark.parametrize(
    ("name", "content", "names"),
    [
        ("a.csv", 'name,country\r\nCarl Dorn,DE\r\n"Bell, Anna",UK\r\n', ["Carl Dorn", "Bell, Anna"]),
        ("a.csv", "country,personLabel\nDE,Carl Dorn\n", ["Carl Dorn"]),
        ("a.csv", "Carl Dorn\nAnna Bell\n", ["Carl Dorn", "Anna Bell"]),
        ("a.txt", "name,country\nCarl Dorn,DE\n", ["Carl Dorn"]),
        ("a.txt", "Dorn, Carl\nBell, Anna\n", ["Dorn, Carl", "Bell, Anna"]),
        ("a.tsv", '?person\t?personLabel\n<http://x/Q1>\t"Anna \\"A\\" Bell"@en\n', ['Anna "A" Bell']),
    ],
)
def test_names_are_read_from_tables(tmp_path, name, content, names):
    (tmp_path / name).write_bytes(content.encode())
    assert read_names(tmp_path / name)[0] == names


def test_a_table_whose_column_is_not_clear_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("person,country\nCarl Dorn,DE\n")
    with pytest.raises(HarnessError, match=r"no column of .* is called name"):
        read_names(tmp_path / "a.csv")


@pytest.mark.parametrize("header", ["?person\t?personLabel", "person\tpersonLabel"])
def test_wikidata_results_are_read_as_tsv(tmp_path, header):
    cells = '<http://x/Q1>\t"Anna Bell"@en\n<http://x/Q2>\t"Carl Dorn"\n<http://x/Q3>\tEva Fuchs\n<http://x/Q4>\tQ4\n'
    (tmp_path / "a.tsv").write_text(f"{header}\n{cells}")
    assert wikidata_names(tmp_path / "a.tsv") == ["Anna Bell", "Carl Dorn", "Eva Fuchs"]
