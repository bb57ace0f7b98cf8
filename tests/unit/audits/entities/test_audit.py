"""The entities audit on small models: findings, resume, partial rows, unusual inputs."""

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.audits.entities.audit import EntitiesAudit, EntitiesParams, Match
from harness.audits.entities.inputs import read_inputs
from harness.audits.entities.probe import NameProbe
from harness.audits.entities.prompt import Prompt
from harness.core.audit import AuditInputs
from harness.core.errors import HarnessError
from harness.core.findings import BarChart, HeatMap, LineChart
from harness.core.rows import Rows
from harness.core.spec import TargetConfig
from harness.engine.classification import Span
from tests.demo_target.classifiers import Family, fine_tune, invented_names, write_names
from tests.unit.audits.in_memory import Cut, InMemory

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
        fine_tune(family, NAMES, root / family, steps=80)
    write_names(NAMES, root)
    (root / "prompts.txt").write_text(PROMPTS)
    return root


@pytest.fixture(scope="module")
def inputs(root: Path) -> AuditInputs:
    return read_inputs(in_train=root / "in-train.txt", out_train=root / "out-train.txt", prompts=root / "prompts.txt")


def order(root: Path, *families: str) -> tuple[TargetConfig, ...]:
    return tuple(TargetConfig(path=root / family, device="cpu", dtype="float32", threads=1) for family in families)


class Announcing(InMemory):
    """Keeps what was said of each stage last."""

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        self.announced: dict[str, int] = {}

    def announce(self, stage: str, items: int, *, weight: float = 1.0) -> None:
        super().announce(stage, items, weight=weight)
        self.announced[stage] = items


AUDIT = EntitiesAudit(EntitiesParams(attention_prompts=1))


def told(context: InMemory, models: tuple[str, ...] = ("bert",)) -> dict[str, Any]:
    """Everything in the findings, as plain data."""
    return plain(asdict(AUDIT.findings(context.inputs, context.rows, models)))


def plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {key: plain(of) for key, of in value.items()}
    if isinstance(value, list | tuple):
        return [plain(of) for of in value]
    # NaN is not equal to itself.
    return "nan" if isinstance(value, float) and np.isnan(value) else value


@pytest.fixture(scope="module")
def whole(root: Path, inputs: AuditInputs) -> InMemory:
    context = InMemory(AUDIT, inputs, order(root, "bert"))
    AUDIT.run(context)
    return context


@pytest.mark.parametrize("cut_after", [0, 1, 2, 5, 9, 12])
def test_a_resumed_audit_has_the_same_findings(root, inputs, whole, cut_after):
    context = InMemory(AUDIT, inputs, order(root, "bert"), cut_after=cut_after)
    with pytest.raises(Cut):
        AUDIT.run(context)
    # What stands there so far can be told too.
    told(context)
    again = context.again()
    AUDIT.run(again)
    assert told(again) == told(whole)
    if cut_after < 2:
        assert again.figures == pytest.approx(whole.figures)


def test_the_order_of_rows_does_not_matter(whole, inputs):
    def shuffled(table: str) -> Rows:
        rows = whole.rows(table)
        count = len(next(iter(rows.values())))
        places = np.random.default_rng(1).permutation(count)
        return {
            name: [values[place] for place in places] if isinstance(values, list) else values[places]
            for name, values in rows.items()
        }

    assert plain(asdict(AUDIT.findings(inputs, shuffled, ("bert",)))) == told(whole)


def test_the_figures_are_complete_and_valid_json(whole):
    figures = json.loads(json.dumps(told(whole)["figures"], allow_nan=False))
    (model,) = figures["models"]
    assert list(model["methods"]) == [
        "name alone",
        "one hand-written prompt",
        "a random hand-written prompt a name",
        "best prompt on dev",
        "worst prompt on dev",
        "best modified prompt (BM-PT)",
        "worst modified prompt (WM-PT)",
        "majority vote",
        "average",
        "weighted average",
        "maximum",
        "minimum",
    ]
    assert set(model["by_kind"]) == {"declarative", "interrogative"}
    assert model["pairs"] == {"dev": 36, "test": 36}
    assert len(model["attention"]) == 2
    assert model["is_complete"]


def test_every_chart_has_as_many_values_as_labels(whole, inputs):
    charts = AUDIT.findings(inputs, whole.rows, ("bert",)).charts
    assert {chart.name for chart in charts} == {
        "m-mem-by-prompt",
        "m-mem-by-method",
        "m-mem-by-type",
        "m-mem-by-position",
        "m-mem-by-length",
        "importance-best",
        "importance-worst",
        "attention",
        "attention-words",
    }
    for chart in charts:
        if isinstance(chart, BarChart):
            assert chart.values.shape == (len(chart.groups), len(chart.labels))
        elif isinstance(chart, HeatMap):
            assert chart.values.shape == (len(chart.row_labels), len(chart.column_labels))
            assert {len(row) for row in chart.words} == {len(chart.column_labels)}
        else:
            assert isinstance(chart, LineChart)
            assert all(len(series.x) == len(series.y) for series in chart.series)


def test_words_are_dropped_by_importance(whole):
    words, engineered = whole.rows("word"), whole.rows("engineered")
    for chain in (0, 1):
        steps = np.flatnonzero(np.asarray(engineered["chain"]) == chain)
        texts = {int(engineered["step"][row]): engineered["text"][row] for row in steps}
        assert texts[max(texts)] == "MASK"
        for step in range(max(texts)):
            rows = np.flatnonzero((np.asarray(words["chain"]) == chain) & (np.asarray(words["step"]) == step))
            added = np.asarray(words["added"])[rows]
            dropped = rows[added.argmin() if chain == 0 else added.argmax()]
            assert np.asarray(words["share"])[rows].sum() == pytest.approx(1.0)
            left = texts[step].split(words["text"][dropped], 1)
            assert "".join(left).replace(" ", "") == texts[step + 1].replace(" ", "")


@pytest.mark.parametrize("named", ["ex-MASK", "MASK's", "(MASK)", "O'MASK"])
def test_attention_of_words_beside_a_name_joined_with_a_word(root, named):
    asked = NameProbe(*order(root, "bert"), [*NAMES.read, "Ada"], (), by_set=False)
    prompt = Prompt(f"I met {named} twice.", "")
    found = asked.attention(prompt)
    for number, name in enumerate(asked.names):
        text = prompt.fill(name)
        (attended,) = asked.classifier.attention([text], [Span(prompt.name_start, prompt.name_start + len(name))])
        for word in ("met", "twice"):
            at = text.rindex(word)
            is_word = [at <= start and end <= at + len(word) for start, end in attended.spans]
            place = [one.text for one in prompt.words].index(word)
            assert found.of_word[place, number] == pytest.approx(attended.to_name[is_word].mean())


def test_names_joined_with_words_are_measured(root, tmp_path):
    (tmp_path / "prompts.txt").write_text("I met ex-MASK yesterday.\nMASK's son came.\nThe man (MASK) left.\nO'MASK!\n")
    inputs = read_inputs(
        in_train=root / "in-train.txt", out_train=root / "out-train.txt", prompts=tmp_path / "prompts.txt"
    )
    context = InMemory(AUDIT, inputs, order(root, "bert"))
    AUDIT.run(context)
    (model,) = told(context)["figures"]["models"]
    assert model["is_complete"]


def test_names_are_marked_as_text(whole, inputs):
    findings = AUDIT.findings(inputs, whole.rows, ("bert",))
    (names,) = [table for table in findings.tables if table.name == "names"]
    assert names.text_columns == ("name",)
    rest = json.dumps([findings.figures, findings.sentences]) + "".join(
        str(table.columns) for table in findings.tables if table.name != "names"
    )
    assert not [name for name in [*NAMES.read, *NAMES.unread] if name in rest]


def test_own_prompts_are_marked_as_text_and_shipped_ones_are_not(whole, inputs):
    findings = AUDIT.findings(inputs, whole.rows, ("bert",))
    told_of = {table.name: table.text_columns for table in findings.tables}
    assert {name: columns for name, columns in told_of.items() if columns and name != "names"} == {
        "methods": ("prompt",),
        "prompts": ("prompt",),
        "engineered": ("prompt",),
        "words": ("word",),
        "attention": ("prompt", "word"),
    }
    # What figures quote stands in such a column word for word, and sentences and labels quote none.
    texts = {text for table in findings.tables for column in table.text_columns for text in table.columns[column]}
    (model,) = findings.figures["models"]
    quoted = {one["prompt"] for one in (*model["attention"], *model["methods"].values())} - {None}
    assert quoted and quoted <= texts
    labels = [
        label
        for chart in findings.charts
        for label in (*getattr(chart, "labels", ()), *(one.name for one in getattr(chart, "series", ())))
    ]
    rest = json.dumps([*findings.sentences, *labels])
    assert not [prompt for prompt in inputs.texts["prompts"] if prompt in rest]
    shipped = replace(inputs, arrays={**inputs.arrays, "has_own_prompts": np.array(False)})
    tables = AUDIT.findings(shipped, whole.rows, ("bert",)).tables
    assert [table.name for table in tables if table.text_columns] == ["names"]


def test_a_model_without_person_labels_is_left_out(root, inputs, tmp_path):
    folder = tmp_path / "places"
    folder.mkdir()
    for file in (root / "roberta").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    config = json.loads((folder / "config.json").read_text())
    config |= {"id2label": {"0": "O", "1": "ORG", "2": "LOC"}, "label2id": {"O": 0, "ORG": 1, "LOC": 2}}
    (folder / "config.json").write_text(json.dumps(config))
    models = (*order(root, "bert"), *order(tmp_path, "places"), *order(root, "roberta"))
    context = Announcing(AUDIT, inputs, models)
    AUDIT.run(context)
    called_off = {stage for stage, items in context.announced.items() if not items}
    assert called_off == {"confidence 2", "best prompt 2", "worst prompt 2", "attention 2"}
    (warning,) = context.warnings
    assert warning.startswith("Model 2 is left out: the model has no label for a person. Its labels are O, ORG, LOC")
    findings = told(context, ("/x/bert", "/x/places", "/x/roberta"))
    assert [model["model"] for model in findings["figures"]["models"]] == ["bert", "roberta"]
    assert findings["figures"]["left_out"] == ["places: nothing to compare yet."]
    (between,) = findings["figures"]["kendall_between_models"]
    assert (between["model"], between["other"], between["prompts"]) == ("bert", "roberta", 4)
    assert "model 3: mean M-MEM" in context.figures


def test_a_single_model_without_person_labels_is_refused(root, inputs):
    audit = EntitiesAudit(EntitiesParams(labels=("PERS",)))
    with pytest.raises(HarnessError, match=r"the model has no label 'PERS'\. Its labels are O, B-PER"):
        audit.run(InMemory(audit, inputs, order(root, "bert")))


def test_names_without_tokens_and_too_long_prompts_are_left_out(root, tmp_path):
    (tmp_path / "in.txt").write_text("\n".join([*NAMES.read, "王小明", "李大卫"]))
    (tmp_path / "prompts.txt").write_text(PROMPTS + "own\t" + "on and " * 120 + "MASK came.\n")
    inputs = read_inputs(
        in_train=tmp_path / "in.txt", out_train=root / "out-train.txt", prompts=tmp_path / "prompts.txt"
    )
    context = InMemory(AUDIT, inputs, order(root, "bert"))
    AUDIT.run(context)
    assert context.warnings == ["Model 1: its vocabulary has no tokens for 2 of 26 names."]
    findings = told(context)
    (model,) = findings["figures"]["models"]
    assert (model["names_left_out"], model["prompts_left_out"], model["prompts_measured"]) == (2, 1, 4)
    told_of = findings["sentences"]
    assert "bert: names left out because the vocabulary or most prompts lack them: 2." in told_of
    assert "bert: prompts left out because they exceed the model's context with some name: 1." in told_of


def test_a_model_without_pairs_cancels_its_stages(root, tmp_path):
    (tmp_path / "prompts.txt").write_text("on and " * 200 + "MASK came.\n")
    inputs = read_inputs(
        in_train=root / "in-train.txt", out_train=root / "out-train.txt", prompts=tmp_path / "prompts.txt"
    )
    context = Announcing(AUDIT, inputs, order(root, "bert"))
    AUDIT.run(context)
    assert context.warnings == ["Model 1 has too few usable names or prompts to compare."]
    assert [stage for stage, items in context.announced.items() if items] == ["confidence 1"]


def test_a_too_long_name_does_not_affect_live_figures(root, tmp_path):
    (tmp_path / "in.txt").write_text("\n".join([*NAMES.read, *("Very " * 300 + end for end in ("Long", "Longer"))]))
    inputs = read_inputs(in_train=tmp_path / "in.txt", out_train=root / "out-train.txt", prompts=root / "prompts.txt")
    context = InMemory(AUDIT, inputs, order(root, "bert"))
    AUDIT.run(context)
    (model,) = told(context)["figures"]["models"]
    assert model["names_left_out"] == 2
    assert context.figures["mean M-MEM"] == pytest.approx(model["m_mem"]["dev"]["mean"])
    assert context.figures["worst prompt's M-MEM"] == pytest.approx(model["m_mem"]["dev"]["worst"])


def test_a_single_prompt_has_no_rank_correlation(root, tmp_path):
    (tmp_path / "prompts.txt").write_text("MASK came home.\n")
    inputs = read_inputs(
        in_train=root / "in-train.txt", out_train=root / "out-train.txt", prompts=tmp_path / "prompts.txt"
    )
    context = InMemory(AUDIT, inputs, order(root, "bert"))
    AUDIT.run(context)
    sentences = told(context)["sentences"]
    assert any("best prompt on the dev half" in sentence for sentence in sentences)
    assert not [sentence for sentence in sentences if "nan" in sentence or "τ" in sentence]
    assert any("Attention to the name is the sum over its tokens" in sentence for sentence in sentences)


def test_a_prompt_too_long_for_one_name_is_left_out(root, tmp_path):
    (tmp_path / "in.txt").write_text("\n".join([*NAMES.read, "Very " * 20 + "Long"]))
    (tmp_path / "prompts.txt").write_text(PROMPTS + "own\t" + "to " * 100 + "MASK.\n")
    inputs = read_inputs(
        in_train=tmp_path / "in.txt", out_train=root / "out-train.txt", prompts=tmp_path / "prompts.txt"
    )
    context = InMemory(AUDIT, inputs, order(root, "bert"))
    AUDIT.run(context)
    has_none = np.isnan(context.rows("confidence")["values"]).sum(axis=1)
    assert sorted(has_none)[-2:] == [0, 1]
    (model,) = told(context)["figures"]["models"]
    assert (model["names_left_out"], model["prompts_left_out"], model["prompts_measured"]) == (0, 1, 4)


def test_match_source(root, inputs, whole):
    audit = EntitiesAudit(EntitiesParams(match=Match.SOURCE, attention_prompts=1))
    context = InMemory(audit, inputs, order(root, "bert"))
    audit.run(context)
    # A WordPiece name has the same tokens alone and in a sentence.
    assert np.allclose(context.rows("confidence")["values"], whole.rows("confidence")["values"])


def test_names_from_a_corpus_and_a_query(root):
    inputs = read_inputs(conll=[root / "train.conll"], wikidata=root / "wikidata.csv")
    assert sorted(inputs.texts["in_dev"] + inputs.texts["in_test"]) == sorted(NAMES.read)
    assert sorted(inputs.texts["out_dev"] + inputs.texts["out_test"]) == sorted(NAMES.unread)


def test_importing_the_audit_loads_no_slow_library():
    code = (
        "import harness.audits.entities.audit, harness.audits.entities.inputs, sys\n"
        "harness.audits.entities.inputs.read_prompts(None)\n"
        "print(*sorted({'torch', 'transformers', 'tokenizers', 'scipy', 'statsmodels', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_findings_without_rows(inputs):
    context = InMemory(AUDIT, inputs)
    findings = AUDIT.findings(inputs, context.rows, ("bert",))
    assert list(findings.sentences) == ["bert: nothing to compare yet."]
    assert not findings.charts
    with pytest.raises(HarnessError, match="Give --target"):
        AUDIT.run(context)
