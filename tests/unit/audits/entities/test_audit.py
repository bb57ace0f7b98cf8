"""The entities audit on small models: findings, resume, partial rows, unusual inputs."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kendalltau

from harness.audits.entities.audit import EntitiesAudit, EntitiesParams, Match
from harness.audits.entities.inputs import Names, read_inputs
from harness.audits.entities.measures import ATTENTION, BY_TYPE, M_MEM, PROMPTS_M_MEM, TAU
from harness.core.errors import HarnessError
from harness.core.findings import Findings
from harness.core.spec import TargetConfig
from harness.core.text import format_percent
from tests.demo_target.classifiers import Family, fine_tune, invented_names, relabelled, write_names
from tests.unit.audits.in_memory import InMemory, target_configs

NAMES = invented_names(12)
PROMPTS = """declarative\tMASK came home.
declarative\tYesterday MASK went.
interrogative\tWho is MASK?
interrogative\tDid you ever see MASK in town?
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("entities")
    for family in (Family.BERT, Family.ROBERTA):
        fine_tune(family, NAMES, root / family, steps=2)
    write_names(NAMES, root)
    (root / "prompts.txt").write_text(PROMPTS)
    return root


AUDIT = EntitiesAudit(EntitiesParams(attention_prompts=1))


def read(root: Path, prompts: Path | None = None, in_train: Path | None = None) -> Names:
    """Read the names and prompts in `root`, or other ones instead."""
    return read_inputs(
        in_train=in_train or root / "in-train.txt",
        out_train=root / "out-train.txt",
        prompts=prompts or root / "prompts.txt",
    )


def write(file: Path, content: str) -> Path:
    file.write_text(content)
    return file


@pytest.fixture(scope="module")
def inputs(root: Path) -> Names:
    return read(root)


@pytest.fixture(scope="module")
def bert(root: Path) -> tuple[TargetConfig, ...]:
    return target_configs(root / "bert")


@pytest.fixture(scope="module")
def whole(inputs: Names, bert: tuple[TargetConfig, ...]) -> InMemory:
    return InMemory(AUDIT, inputs, bert).run()


@pytest.fixture(scope="module")
def findings(whole: InMemory) -> Findings:
    return whole.findings("bert")


def test_the_conclusion_answers_for_the_model(findings):
    conclusion = findings.conclusion
    assert conclusion.question == "Does the model recognize the names that it was trained on?"
    assert conclusion.answer in ("Probably", "Possibly", "No evidence")
    mean = findings.measures.get(PROMPTS_M_MEM, side="test", case="mean").value
    assert f"bert has the higher confidence in the trained name in {format_percent(mean)}" in conclusion.evidence
    assert ("have changed this" in conclusion.evidence) == (conclusion.answer == "No evidence")
    assert "differ in the training alone" in conclusion.caveat
    assert "M-MEM" in findings.definitions


def test_the_figures_are_complete(findings):
    (model,) = findings.figures["models"]
    measured = findings.measures
    assert [row.case for row in measured.select(M_MEM, side="test")] == [
        "∅-PT: name alone",
        "One-PT: hand-written",
        "Mix-PT: random of five",
        "B-PT: best on dev",
        "W-PT: worst on dev",
        "BM-PT: best modified",
        "WM-PT: worst modified",
        "MV: majority vote",
        "AVG-C: average",
        "WED-C: weighted average",
        "MAX-C: maximum",
        "MIN-C: minimum",
    ]
    assert [row.case for row in measured.select(BY_TYPE)] == ["declarative", "interrogative"]
    assert model["pairs"] == {"dev": 36, "test": 36}
    assert len(measured.select(ATTENTION)) == 4
    assert model["is_complete"]


def test_there_is_a_chart_for_every_figure_of_the_source(findings):
    assert {chart.name for chart in findings.charts} == {
        *("m-mem-by-prompt", "m-mem-by-method", "m-mem-by-type", "m-mem-by-position", "m-mem-by-length"),
        *("importance-best", "importance-worst", "attention", "attention-best", "attention-worst"),
    }


def test_names_joined_with_words_are_measured(root, bert, tmp_path):
    prompts = "I met ex-MASK yesterday.\nMASK's son came.\nThe man (MASK) left.\nO'MASK!\n"
    inputs = read(root, prompts=write(tmp_path / "prompts.txt", prompts))
    (model,) = InMemory(AUDIT, inputs, bert).run().findings("bert").figures["models"]
    assert model["is_complete"]


def test_own_prompts_are_marked_as_text_and_built_in_ones_are_not(whole, inputs, findings):
    text_columns = {table.name: table.text_columns for table in findings.tables if table.text_columns}
    assert text_columns == {
        "names": ("name",),
        "methods": ("prompt",),
        "prompts": ("prompt",),
        "engineered": ("prompt",),
        "words": ("word",),
        "attention": ("prompt", "token", "other token"),
    }
    built_in = replace(inputs, has_own_prompts=False)
    tables = AUDIT.findings(built_in, whole.rows, ("bert",)).tables
    assert [table.name for table in tables if table.text_columns] == ["names"]


def test_a_model_without_person_labels_is_left_out(root, inputs, tmp_path):
    folder = relabelled(root / "roberta", tmp_path / "places", ["O", "ORG", "LOC"])
    context = InMemory(AUDIT, inputs, target_configs(root / "bert", folder, root / "roberta")).run()
    cancelled = {stage for stage, items in context.announced.items() if not items}
    assert cancelled == {"confidence 2", "best prompt 2", "worst prompt 2", "attention 2"}
    (warning,) = context.warnings
    assert warning.startswith("Model 2 is left out: the model has no label for a person. Its labels are O, ORG, LOC")
    findings = context.findings("/x/bert", "/x/places", "/x/roberta")
    figures = findings.figures
    assert [model["model"] for model in figures["models"]] == ["bert", "roberta"]
    assert figures["left_out"] == ["places: nothing to compare yet."]
    between = [row for row in findings.measures.select(TAU) if row.case]
    assert [(row.model, row.side, row.case, row.estimate.of) for row in between] == [
        ("bert", "dev", "roberta", 4),
        ("bert", "test", "roberta", 4),
        ("bert", "dev to test", "roberta", 4),
        ("roberta", "dev to test", "bert", 4),
    ]
    (prompts,) = (table.columns for table in findings.tables if table.name == "prompts")
    of_model = {
        (model, half): [score for name, score in zip(prompts["model"], prompts[half], strict=True) if name == model]
        for model, half in product(("bert", "roberta"), ("dev", "test"))
    }
    for chart, halves in (("dev", ("dev", "dev")), ("test", ("test", "test")), ("dev-to-test", ("dev", "test"))):
        (drawn,) = (drawn for drawn in findings.charts if drawn.name == f"correlations-{chart}")
        for (row, first), (column, second) in product(enumerate(("bert", "roberta")), repeat=2):
            if first != second or halves[0] != halves[1]:
                tau = kendalltau(of_model[first, halves[0]], of_model[second, halves[1]]).statistic
                assert drawn.values[row, column] == pytest.approx(tau)


def test_no_model_and_a_single_model_without_person_labels_are_refused(inputs, bert):
    with pytest.raises(HarnessError, match="Give --target"):
        InMemory(AUDIT, inputs).run()
    audit = EntitiesAudit(EntitiesParams(labels=("PERS",)))
    with pytest.raises(HarnessError, match=r"the model has no label 'PERS'\. Its labels are O, B-PER"):
        InMemory(audit, inputs, bert).run()


def test_names_without_tokens_and_too_long_prompts_are_left_out(root, bert, tmp_path):
    in_train = write(tmp_path / "in.txt", "\n".join([*NAMES.read, "王小明", "李大卫"]))
    prompts = write(tmp_path / "prompts.txt", PROMPTS + "own\t" + "on and " * 120 + "MASK came.\n")
    context = InMemory(AUDIT, read(root, prompts, in_train), bert).run()
    assert context.warnings == ["Model 1: its vocabulary has no tokens for 2 of 26 names."]
    findings = context.findings("bert")
    (model,) = findings.figures["models"]
    assert (model["names_left_out"], model["prompts_left_out"], model["prompts_measured"]) == (2, 1, 4)
    assert "bert: names left out because the vocabulary or most prompts lack them: 2." in findings.sentences
    assert "bert: prompts left out because they exceed the model's context with some name: 1." in findings.sentences


def test_a_model_without_pairs_cancels_its_stages(root, bert, tmp_path):
    prompts = write(tmp_path / "prompts.txt", "on and " * 200 + "MASK came.\n")
    context = InMemory(AUDIT, read(root, prompts), bert).run()
    assert context.warnings == ["Model 1 has too few usable names or prompts to compare."]
    assert [stage for stage, items in context.announced.items() if items] == ["confidence 1"]


def test_a_too_long_name_is_left_out(root, bert, tmp_path):
    names = [*NAMES.read, *("Very " * 300 + end for end in ("Long", "Longer"))]
    context = InMemory(AUDIT, read(root, in_train=write(tmp_path / "in.txt", "\n".join(names))), bert).run()
    findings = context.findings("bert")
    (model,) = findings.figures["models"]
    assert model["names_left_out"] == 2
    assert all(0 <= row.estimate.value <= 1 for row in findings.measures.select(PROMPTS_M_MEM, side="dev"))


def test_a_single_prompt_has_no_rank_correlation(root, bert, tmp_path):
    inputs = read(root, prompts=write(tmp_path / "prompts.txt", "MASK came home.\n"))
    findings = InMemory(AUDIT, inputs, bert).run().findings("bert")
    assert np.isnan(findings.measures.get(TAU, side="dev to test").value)
    said = [*findings.sentences, findings.conclusion.evidence]
    assert not [sentence for sentence in said if "nan" in sentence or "Cochran" in sentence]


def test_a_prompt_too_long_for_one_name_is_left_out(root, bert, tmp_path):
    in_train = write(tmp_path / "in.txt", "\n".join([*NAMES.read, "Very " * 20 + "Long"]))
    prompts = write(tmp_path / "prompts.txt", PROMPTS + "own\t" + "to " * 100 + "MASK.\n")
    context = InMemory(AUDIT, read(root, prompts, in_train), bert).run()
    has_none = np.isnan(context.rows("confidence")["values"]).sum(axis=1)
    assert sorted(has_none)[-2:] == [0, 1]
    (model,) = context.findings("bert").figures["models"]
    assert (model["names_left_out"], model["prompts_left_out"], model["prompts_measured"]) == (0, 1, 4)


def test_match_source(inputs, bert, whole):
    context = InMemory(EntitiesAudit(EntitiesParams(match=Match.SOURCE, attention_prompts=1)), inputs, bert).run()
    # A WordPiece name has the same tokens alone and in a sentence.
    assert np.allclose(context.rows("confidence")["values"], whole.rows("confidence")["values"])


def test_names_from_a_corpus_and_a_query(root):
    inputs = read_inputs(conll=[root / "train.conll"], wikidata=root / "wikidata.csv")
    assert sorted(inputs.in_dev + inputs.in_test) == sorted(NAMES.read)
    assert sorted(inputs.out_dev + inputs.out_test) == sorted(NAMES.unread)
