"""Token classifiers: confidences, entities, attention, and errors for invalid models."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Encoding

from harness.audits.classifier import Entity, Span, TokenClassifier, load_classifier, tokens_covering
from harness.core.errors import HarnessError
from tests.demo_target.classifiers import Family, fine_tune, invented_names, relabelled
from tests.functional.machine import ROOT

NAMES = invented_names(12)
FAMILIES = list(Family)
LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[Family, Path]:
    """Barely trained models, whose predictions are arbitrary and reproducible."""
    root = tmp_path_factory.mktemp("classifiers")
    for family in FAMILIES:
        fine_tune(family, NAMES, root / family, steps=2)
    return {family: root / family for family in FAMILIES}


TRAIN = """
import sys
from pathlib import Path
from tests.demo_target.classifiers import Family, fine_tune, invented_names
fine_tune(Family.ALBERT, invented_names(12), Path(sys.argv[1]), steps=10)
"""


@pytest.mark.slow
def test_training_gives_the_same_model_on_other_processors(tmp_path: Path) -> None:
    """The documentation states numbers of these models."""
    weights = []
    for capability, library in (("default", "COMPATIBLE"), ("avx2", "AVX2")):
        environment = os.environ | {"ATEN_CPU_CAPABILITY": capability, "MKL_CBWR": library, "PYTHONPATH": str(ROOT)}
        folder = tmp_path / capability
        subprocess.run([sys.executable, "-c", TRAIN, str(folder)], env=environment, check=True, capture_output=True)
        weights.append(load_file(folder / "model.safetensors"))
    for name, values in weights[0].items():
        torch.testing.assert_close(values, weights[1][name], rtol=2e-7, atol=1e-9)


def load_on(device: torch.device, folder: Path) -> TokenClassifier:
    return load_classifier(folder, device=str(device), dtype="float32")


@pytest.fixture(scope="module")
def classifiers_on(folders: dict[Family, Path]):
    """Return a function that loads the classifiers to a device."""
    return functools.cache(lambda device: {family: load_on(device, folder) for family, folder in folders.items()})


@pytest.fixture
def classifiers(device, classifiers_on) -> dict[Family, TokenClassifier]:
    return classifiers_on(device)


@pytest.fixture(params=FAMILIES)
def classifier(request: pytest.FixtureRequest, classifiers: dict[Family, TokenClassifier]) -> TokenClassifier:
    return classifiers[request.param]


def texts_with(prompt: str, names: list[str]) -> tuple[list[str], list[Span]]:
    start = prompt.index("MASK")
    return [prompt.replace("MASK", name) for name in names], [Span(start, start + len(name)) for name in names]


def label_probabilities(classifier: TokenClassifier, encoding: Encoding) -> np.ndarray:
    """Return the probabilities of labels of a text that goes through the model alone, [tokens, labels]."""
    with torch.inference_mode():
        logits = classifier.model(input_ids=torch.tensor([encoding.ids], device=classifier.device)).logits[0]
    return logits.cpu().double().softmax(dim=1).numpy()


def test_tokens_of_a_name_cover_its_characters(classifier):
    for prompt in ("MASK came.", "We met MASK, once.", "“MASK”"):
        (text,), (span,) = texts_with(prompt, [NAMES.read[0]])
        encoding = classifier.tokenizer.encode(text)
        chosen = tokens_covering(encoding, span)
        covered = "".join(text[slice(*encoding.offsets[token])] for token in np.flatnonzero(chosen))
        assert covered.replace(" ", "") == NAMES.read[0].replace(" ", "")


def test_confidence_is_the_mean_over_tokens_of_the_best_person_label(classifier):
    texts, spans = texts_with("We met MASK, once.", NAMES.read[:5])
    labels = classifier.label_ids()
    confidences = classifier.confidences(texts, spans, labels)
    for text, span, confidence in zip(texts, spans, confidences, strict=True):
        encoding = classifier.tokenizer.encode(text)
        probabilities = label_probabilities(classifier, encoding)
        wanted = probabilities[tokens_covering(encoding, span)][:, labels].max(axis=1).mean()
        assert confidence == pytest.approx(wanted, abs=1e-6)


def test_confidences_do_not_depend_on_order_or_batch_size(classifier, folders):
    texts, spans = texts_with("We met MASK, once.", [*NAMES.read, "A", "Bartholomew Featherstonehaugh of Nowhere"])
    labels = classifier.label_ids()
    alone = [classifier.confidences([text], [span], labels)[0] for text, span in zip(texts, spans, strict=True)]
    backwards = classifier.confidences(texts[::-1], spans[::-1], labels)[::-1]
    assert np.allclose(alone, backwards, atol=1e-6)


def test_by_set_uses_equal_tokens_anywhere_in_the_text(classifiers):
    classifier = classifiers[Family.BERT]
    labels = classifier.label_ids()
    texts, spans = texts_with("MASK, said MASK", [NAMES.read[0]])
    # Algorithm 1 of the source, line by line: the sum over the tokens of the text that are in T_PER, over |T_PER|.
    encoding = classifier.tokenizer.encode(texts[0])
    of_name = classifier.tokenizer.encode(NAMES.read[0], add_special_tokens=False).ids
    confidence = 0.0
    for token, probabilities in zip(encoding.ids, label_probabilities(classifier, encoding), strict=True):
        if token in of_name:
            confidence += max(probabilities[label] for label in labels)
    confidence /= len(of_name)
    assert sum(token in of_name for token in encoding.ids) == 2 * tokens_covering(encoding, spans[0]).sum()
    assert classifier.confidences(texts, spans, labels, by_set=True)[0] == pytest.approx(confidence, abs=1e-6)


@pytest.mark.parametrize(
    ("family", "labels"),
    [(Family.BERT, ["B-PER", "I-PER"]), (Family.ALBERT, ["B-PERSON", "I-PERSON"]), (Family.ROBERTA, ["PER"])],
)
def test_person_labels_are_found_by_name(classifiers, family, labels):
    classifier = classifiers[family]
    assert [classifier.labels[number] for number in classifier.label_ids()] == labels


def test_an_unknown_label_is_refused_with_the_list_of_labels(classifiers):
    classifier = classifiers[Family.BERT]
    assert classifier.label_ids(["b-loc"]).tolist() == [3]
    with pytest.raises(HarnessError, match=r"no label 'PERS'\. Its labels are O, B-PER, I-PER, B-LOC, I-LOC"):
        classifier.label_ids(["PERS"])


def test_a_model_without_person_labels_is_refused_with_its_labels(folders, tmp_path):
    folder = relabelled(folders[Family.ROBERTA], tmp_path / "other", ["O", "ORG", "LOC"])
    with pytest.raises(HarnessError, match=r"no label for a person\. Its labels are O, ORG, LOC\. Choose with --label"):
        load_classifier(folder, device="cpu").label_ids()


def test_names_without_tokens_are_detected(classifiers):
    assert classifiers[Family.BERT].has_tokens([NAMES.read[0], "王小明", ""]).tolist() == [True, False, False]
    assert classifiers[Family.ALBERT].has_tokens([NAMES.read[0], "王小明", ""]).tolist() == [True, False, False]
    # A byte-level vocabulary can spell anything.
    assert classifiers[Family.ROBERTA].has_tokens([NAMES.read[0], "王小明", ""]).tolist() == [True, True, False]


def test_only_texts_that_are_too_long_have_no_confidence(classifier):
    assert classifier.max_tokens == 128
    texts, spans = texts_with("We met MASK, once.", [NAMES.read[0]])
    texts, spans = [*texts, NAMES.read[0] + " and so on" * 100], [*spans, Span(0, len(NAMES.read[0]))]
    confidences = classifier.confidences(texts, spans, classifier.label_ids())
    assert np.isfinite(confidences).tolist() == [True, False]
    assert classifier.attention(texts, [[span] for span in spans])[1] is None


def test_a_text_of_the_maximum_length_has_a_confidence(classifier):
    text = NAMES.read[0]
    while len(classifier.tokenizer.encode(text + " a").ids) <= classifier.max_tokens:
        text += " a"
    span = Span(0, len(NAMES.read[0]))
    assert np.isfinite(classifier.confidences([text], [span], classifier.label_ids())).all()


def test_attention_between_parts_is_the_mean_over_their_tokens(classifier):
    texts, spans = texts_with("We met MASK, once.", NAMES.read[:3])
    parts = [[Span(0, span.start), span, Span(span.end, span.end + 1), Span(5, 5)] for span in spans]
    for text, of_text, attended in zip(texts, parts, classifier.attention(texts, parts), strict=True):
        encoding = classifier.tokenizer.encode(text)
        with torch.inference_mode():
            classifier.model.set_attn_implementation("eager")
            tokens = torch.tensor([encoding.ids], device=classifier.device)
            layers = classifier.model(input_ids=tokens, output_attentions=True).attentions
        weights = torch.stack(layers).mean(dim=(0, 1, 2)).cpu().numpy()
        members = [np.flatnonzero(tokens_covering(encoding, span)) for span in of_text[:3]]
        groups = [np.array([0]), *members, np.array([len(encoding.ids) - 1])]
        expected = np.array([[weights[np.ix_(query, key)].mean() for key in groups] for query in groups])
        known = [0, 1, 2, 3, 5]  # the last part covers no token
        assert np.allclose(attended[np.ix_(known, known)], expected, atol=1e-6)
        assert np.isnan(attended[4]).all() and np.isnan(attended[:, 4]).all()


def test_tokens_of_a_prompt_count_its_name_once(classifier):
    text = "My dentist met Bartholomew Featherstonehaugh, once."
    name = Span(15, text.index(","))
    tokens = classifier.prompt_tokens(text, name)
    encoding = classifier.tokenizer.encode(text)
    others = len(encoding.ids) - 2 - tokens_covering(encoding, name).sum()
    assert tokens.length == others + 1
    assert tokens.position == (np.array(encoding.offsets)[1:-1, 1] <= name.start).sum()
    # A token for a space alone, such as the Ġ of a byte-level vocabulary, covers no character.
    assert len(tokens.spans) == len(tokens.labels) - 2 <= tokens.length
    assert np.isfinite(classifier.attention([text], [tokens.spans])[0]).all()
    assert tokens.labels[tokens.name] == text[name.start : name.end]
    assert "".join(tokens.labels[1:-1]) == text.replace(" ", "").replace("wF", "w F")


class FakeModel:
    """A model that labels each token by its text."""

    def __init__(self, classifier: TokenClassifier, label_of: dict[str, str]) -> None:
        self.classifier = classifier
        self.label_of = label_of

    def __call__(self, input_ids: torch.Tensor, attention_mask: torch.Tensor):
        logits = torch.zeros(*input_ids.shape, len(self.classifier.labels))
        for row, ids in enumerate(input_ids.tolist()):
            for place, token in enumerate(ids):
                word = (self.classifier.tokenizer.id_to_token(token) or "").lstrip("Ġ▁#")
                logits[row, place, self.classifier.labels.index(self.label_of.get(word, "O"))] = 9.0
        return type("Output", (), {"logits": logits})


@pytest.fixture
def labelled(device, folders):
    """Return a function from labels of letters to a BERT that predicts them."""
    classifier = load_on(device, folders[Family.BERT])

    def with_labels(**label_of: str) -> TokenClassifier:
        classifier.model = FakeModel(classifier, label_of)
        return classifier

    return with_labels


def kinds(text: str, entities: list[Entity]) -> list[tuple[str, str]]:
    return [(text[entity.start : entity.end], entity.kind) for entity in entities]


def test_neighbouring_words_of_one_kind_are_one_entity(labelled):
    classifier = labelled(A="I-PER", B="I-PER", C="B-PER", D="I-LOC")
    for text, wanted in (
        ("x A B x", [("A B", "PER")]),
        ("A C B x D", [("A", "PER"), ("C B", "PER"), ("D", "LOC")]),
        ("A D, B", [("A", "PER"), ("D", "LOC"), ("B", "PER")]),
        ("x x", []),
        ("", []),
    ):
        assert kinds(text, classifier.find_entities([text])[0]) == wanted


def test_entities_of_a_long_text_keep_their_positions(labelled):
    classifier = labelled(A="B-PER", B="I-PER")
    text = ("x y . " * 40 + "A B ") * 5
    assert kinds(text, classifier.find_entities([text])[0]) == [("A B", "PER")] * 5


def test_an_entity_excludes_the_space_before_its_word(classifiers):
    for family in FAMILIES:
        classifier = classifiers[family]
        text = f"They say that {NAMES.read[0]} was here , with {NAMES.places[0]} too."
        for entity in classifier.find_entities([text])[0]:
            assert text[entity.start : entity.end] == text[entity.start : entity.end].strip()


def test_out_of_memory_halves_the_texts_per_pass(device, folders):
    classifier = load_on(device, folders[Family.BERT])
    classifier.rows_at_once = 8
    texts, spans = texts_with("We met MASK, once.", NAMES.read[:11])
    labels = classifier.label_ids()
    wanted = classifier.confidences(texts, spans, labels)
    whole, sizes = classifier.model, []

    class Small:
        def __call__(self, input_ids: torch.Tensor, attention_mask: torch.Tensor):
            sizes.append(len(input_ids))
            if len(input_ids) > 3:
                raise torch.OutOfMemoryError("out of memory")
            return whole(input_ids=input_ids, attention_mask=attention_mask)

    classifier.model = Small()
    assert np.allclose(classifier.confidences(texts, spans, labels), wanted, atol=1e-6)
    assert sizes[:3] == [8, 4, 2]
    assert classifier.rows_at_once == 2


def test_too_little_memory_for_one_text_is_an_error(device, folders):
    classifier = load_on(device, folders[Family.BERT])

    def none_left(**_: torch.Tensor) -> None:
        raise MemoryError

    classifier.model = none_left
    with pytest.raises(HarnessError, match="no room for one text at a time"):
        classifier.confidences(["A"], [Span(0, 1)], np.array([1]))


def test_a_classifier_that_returns_nan_is_refused(device, folders, tmp_path):
    folder = relabelled(folders[Family.BERT], tmp_path / "broken", LABELS)
    tensors = load_file(folder / "model.safetensors")
    tensors["classifier.bias"] = torch.full_like(tensors["classifier.bias"], 3e38)
    tensors["classifier.weight"] = torch.full_like(tensors["classifier.weight"], 3e38)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    classifier = load_on(device, folder)
    with pytest.raises(HarnessError, match="NaN or infinity"):
        classifier.confidences(["Ada"], [Span(0, 3)], np.array([1]))


def test_a_folder_without_a_token_classifier_is_refused(folders, tmp_path):
    with pytest.raises(HarnessError, match="no such directory"):
        load_classifier(tmp_path / "absent")
    folder = relabelled(folders[Family.BERT], tmp_path / "bare", ["O"] * 5)
    tensors = {
        name: tensor for name, tensor in load_file(folder / "model.safetensors").items() if "classifier" not in name
    }
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(HarnessError, match="the weights lack 2 tensors of a BertForTokenClassification, such as class"):
        load_classifier(folder)


def test_a_vocabulary_replaces_tokenizer_json(folders, tmp_path):
    folder = relabelled(folders[Family.BERT], tmp_path / "old", LABELS)
    whole = load_classifier(folder, device="cpu")
    vocabulary = whole.tokenizer.get_vocab()
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in sorted(vocabulary, key=vocabulary.get)))
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false, "tokenizer_class": "BertTokenizer"}')
    texts, spans = texts_with("We met MASK, once.", NAMES.read)
    labels = whole.label_ids()
    confidences = load_classifier(folder, device="cpu").confidences(texts, spans, labels)
    assert np.allclose(confidences, whole.confidences(texts, spans, labels), atol=1e-6)


def test_a_broken_tokenizer_is_refused(folders, tmp_path):
    folder = relabelled(folders[Family.BERT], tmp_path / "broken", LABELS)
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(HarnessError, match=r"not a tokenizer\.json"):
        load_classifier(folder, device="cpu")
