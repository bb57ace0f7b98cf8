"""The definitions of Xia et al. (2024), computed token by token and pair by pair, equal what the audit measures."""

import re
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForTokenClassification

from harness.audits.entities.audit import EntitiesAudit, EntitiesParams, NameProbe
from harness.audits.entities.inputs import PARTS, Names, read_inputs
from harness.audits.entities.measures import (
    BEST_MODIFIED,
    BEST_ON_DEV,
    BY_LENGTH,
    BY_POSITION,
    M_MEM,
    PROMPTS_M_MEM,
    RANK,
    WORST_MODIFIED,
    WORST_ON_DEV,
)
from harness.audits.entities.prompts import HAND_WRITTEN, MASK, Prompt
from tests.demo_target.classifiers import Family, fine_tune, invented_names, write_names
from tests.unit.audits.in_memory import InMemory, plain, target_configs

NAMES = invented_names(12)
PROMPTS = ("We saw MASK's new gallery!", "Who is MASK?", "Tell me about MASK, please.")
AUDIT = EntitiesAudit(EntitiesParams(attention_prompts=1))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("source")
    fine_tune(Family.BERT, NAMES, root / "bert", steps=2)
    write_names(NAMES, root)
    return root


def read(root: Path, *prompts: str) -> Names:
    (root / "prompts.txt").write_text("\n".join(prompts))
    return read_inputs(in_train=root / "in-train.txt", out_train=root / "out-train.txt", prompts=root / "prompts.txt")


@pytest.fixture(scope="module")
def whole(root: Path) -> InMemory:
    return InMemory(AUDIT, read(root, *PROMPTS), target_configs(root / "bert")).run()


class Formulas:
    """The definitions of the source on one BERT, whose tokens do not depend on spaces before punctuation."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.model = AutoModelForTokenClassification.from_pretrained(folder, attn_implementation="eager").eval()

    def tokens(self, prompt: str, name: str) -> tuple[list[int], list[bool], np.ndarray, np.ndarray]:
        """Return ids, which of them are of the name, the larger probability of B-PER and I-PER, and the attention."""
        start = prompt.index("MASK")
        encoding = self.tokenizer.encode(prompt.replace("MASK", name))
        is_name = [first < start + len(name) and last > start for first, last in encoding.offsets]
        with torch.inference_mode():
            output = self.model(input_ids=torch.tensor([encoding.ids]), output_attentions=True)
        person = output.logits[0].double().softmax(dim=1)[:, [1, 2]].max(dim=1).values.numpy()
        attention = np.mean([layer[0].double().mean(dim=0).numpy() for layer in output.attentions], axis=0)
        return encoding.ids, is_name, person, attention

    def m_mem(self, prompt: str, inside: list[str], outside: list[str]) -> float:
        confidence = {}
        for name in (*inside, *outside):
            _, is_name, person, _ = self.tokens(prompt, name)
            confidence[name] = sum(person[is_name]) / sum(is_name)
        return sum(confidence[one] > confidence[other] for one in inside for other in outside) / (
            len(inside) * len(outside)
        )

    def engineered(self, prompt: str, chain: int, *names: list[str]) -> list[tuple[list[str], list[float]]]:
        """Return the words of the prompt at each step, and the M-MEM that each of them but the name adds."""
        words = re.findall(r"MASK|'s|\w+|[^\w\s]", prompt)
        steps = []
        while True:
            others = [place for place, word in enumerate(words) if word != "MASK"]
            whole = self.m_mem(" ".join(words), *names)
            added = [whole - self.m_mem(" ".join(words[:place] + words[place + 1 :]), *names) for place in others]
            steps.append((words, added))
            if len(others) == 1:
                return steps
            dropped = others[added.index(max(added) if chain else min(added))]
            words = words[:dropped] + words[dropped + 1 :]


@pytest.fixture(scope="module")
def formulas(root: Path) -> Formulas:
    return Formulas(root / "bert")


def test_prompt_engineering_ranks_and_spread(whole, formulas):
    names = whole.inputs.parts
    on_dev, on_test = (
        [formulas.m_mem(prompt, names[f"in_{half}"], names[f"out_{half}"]) for prompt in PROMPTS]
        for half in ("dev", "test")
    )
    words, engineered = whole.rows("word"), whole.rows("engineered")
    modified = []
    for chain, choose in enumerate((np.argmax, np.argmin)):
        expected = formulas.engineered(PROMPTS[choose(on_dev)], chain, names["in_dev"], names["out_dev"])
        is_chain = np.asarray(engineered["chain"]) == chain
        texts = [engineered["text"][row] for row in np.flatnonzero(is_chain)]
        assert [text.replace(" ", "") for text in texts] == ["".join(step) for step, _ in expected]
        for step, (tokens, added) in enumerate(expected):
            rows = np.flatnonzero((np.asarray(words["chain"]) == chain) & (np.asarray(words["step"]) == step))
            assert [words["text"][row] for row in rows] == [word for word in tokens if word != "MASK"]
            assert np.asarray(words["added"])[rows] == pytest.approx(np.array(added), abs=1e-9)
            assert np.asarray(words["share"])[rows] == pytest.approx(np.exp(added) / np.exp(added).sum())
        modified += [" ".join(step) for step, _ in expected[1:]]
    scores = [formulas.m_mem(prompt, names["in_dev"], names["out_dev"]) for prompt in modified]
    measured = whole.findings("bert").measures
    for case, choose in ((BEST_MODIFIED, np.argmax), (WORST_MODIFIED, np.argmin)):
        chosen = modified[choose(scores)]
        assert measured.get(M_MEM, side="dev", case=case).value == pytest.approx(scores[choose(scores)])
        on_other_names = formulas.m_mem(chosen, names["in_test"], names["out_test"])
        assert measured.get(M_MEM, side="test", case=case).value == pytest.approx(on_other_names)
    best, worst = np.argmax(on_dev), np.argmin(on_dev)
    by_rank = sorted(on_test, reverse=True)
    assert measured.get(RANK, case=BEST_ON_DEV).value == 1 + by_rank.index(on_test[best])
    assert measured.get(RANK, case=WORST_ON_DEV).value == -1 - by_rank[::-1].index(on_test[worst])
    spread = [measured.get(PROMPTS_M_MEM, side="dev", case=case).value for case in ("mean", "standard deviation")]
    assert spread == pytest.approx([np.mean(on_dev), np.std(on_dev)])


def test_a_prompt_of_one_word_besides_the_name_is_not_engineered(root):
    context = InMemory(AUDIT, read(root, "MASK!", "MASK"), target_configs(root / "bert")).run()
    assert set(context.rows("engineered")["text"]) <= {"MASK!", "MASK"}
    findings = context.findings("bert")
    assert not findings.measures.select(M_MEM, case=BEST_MODIFIED)
    assert plain(context.findings_of_shuffled_rows("bert")) == plain(findings)


@pytest.mark.parametrize("named", ["MASK", "ex-MASK", "MASK's", "(MASK)", "O'MASK"])
def test_attention_is_averaged_over_the_tokens_of_a_name(root, formulas, named):
    names = [*NAMES.read[:4], "Ada"]
    probe = NameProbe(*target_configs(root / "bert"), names, (), by_set=False)
    prompt = Prompt(f"I met {named} twice.", "")
    tokens, place, weights = probe.attention(prompt, np.arange(4))
    assert (tokens[0], tokens[place], tokens[-1]) == ("[CLS]", "MASK", "[SEP]")
    assert np.isnan(weights[4]).all()
    for name, of_name in zip(names[:4], weights[:4], strict=True):
        _, is_name, _, attention = formulas.tokens(prompt.text, name)
        groups = [[token] for token, is_of_name in enumerate(is_name) if not is_of_name]
        groups.insert(is_name.index(True), np.flatnonzero(is_name).tolist())
        expected = [[attention[np.ix_(query, key)].mean() for key in groups] for query in groups]
        assert of_name == pytest.approx(np.array(expected), abs=1e-6)


def test_attention_maps_are_means_over_the_names_of_dev(root, whole):
    charts = {chart.name: chart for chart in whole.findings("bert").charts}
    probe = NameProbe(*target_configs(root / "bert"), whole.inputs.in_dev, (), by_set=False)
    for name in ("attention-best", "attention-worst"):
        chart = charts[name]
        (shown,) = (
            attention
            for attention in (probe.attention(Prompt(text, ""), np.arange(len(probe.names))) for text in PROMPTS)
            if attention.tokens == chart.words[0][1:]
        )
        size = len(shown.tokens)
        assert chart.values[1 : 1 + size, 1:] == pytest.approx(shown.weights.mean(axis=0))
        assert [row[0] for row in chart.words] == ["", *shown.tokens, *shown.tokens]
        assert np.isfinite(chart.values[1:, 1:]).all()


def test_properties_are_counted_in_tokens_of_the_model(whole, formulas):
    lengths, positions = {}, {}
    for prompt in PROMPTS:
        m_mem = formulas.m_mem(prompt, whole.inputs.in_dev, whole.inputs.out_dev)
        before, after = (
            len(formulas.tokenizer.encode(part, add_special_tokens=False).ids) for part in prompt.split("MASK")
        )
        lengths.setdefault(before + 1 + after, []).append(m_mem)
        positions.setdefault(before, []).append(m_mem)
    for measure, groups in ((BY_LENGTH, lengths), (BY_POSITION, positions)):
        rows = whole.findings("bert").measures.select(measure, side="dev")
        means = {at: np.mean(values) for at, values in groups.items()}
        assert {row.at: row.estimate.value for row in rows} == pytest.approx(means)


def test_the_pairs_of_the_source_come_from_a_corpus_and_a_query(tmp_path: Path):
    """Section 3.1 of the source as sets, with its sizes: 1,651 names of Wikidata in the corpus, 826 of them in dev."""
    rng = Random(1)
    people = [f"Given{number} Family{number}" for number in range(4000)]
    known, unknown = people[:2000], people[2000:]
    in_corpus = [*known, "Cher", "Plato"]
    marked = rng.sample(in_corpus, len(in_corpus)) + rng.sample(in_corpus, 500)
    lines = []
    for name in marked:
        words = name.split()
        lines += [f"{word} NNP I-NP {'B' if number == 0 else 'I'}-PER" for number, word in enumerate(words)]
        lines += ["visited VBD O O", "Vienna NNP I-NP B-LOC", ""]
    (tmp_path / "eng.train").write_text("\n".join(lines))
    in_query = known[:1651] + unknown + ["Plato", "Socrates"]
    labels = rng.sample(in_query, len(in_query)) + rng.sample(in_query, 300)
    (tmp_path / "query.csv").write_text("person,personLabel\n" + "".join(f"Q1,{label}\n" for label in labels))
    texts = read_inputs(conll=[tmp_path / "eng.train"], wikidata=tmp_path / "query.csv").parts
    d_t = {name for name in marked if len(name.split()) > 1}
    d_w = {name for name in labels if len(name.split()) > 1}
    assert set(texts["in_dev"] + texts["in_test"]) == d_w & d_t
    assert set(texts["out_dev"] + texts["out_test"]) < d_w - d_t
    sizes = {part: (len(texts[part]), len(set(texts[part]))) for part in PARTS}
    assert sizes == {part: (826, 826) if part.endswith("dev") else (825, 825) for part in PARTS}


def test_the_hand_written_prompts_are_those_of_the_source():
    sentences = "“My name is XX.”, “I am XX.”, “I am named XX.”, “Here is my name: XX.”, “Call me XX.”"
    assert list(HAND_WRITTEN) == [prompt.replace("XX", MASK) for prompt in re.findall("“(.*?)”", sentences)]
