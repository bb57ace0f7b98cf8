"""Three small token classifiers that have memorized invented names: `python -m tests.demo_target.classifiers FOLDER`.

They are a BERT, an ALBERT and a RoBERTa with random initialisation and their own tokenizers, fine-tuned on sentences
that contain persons and, equally often, places. Both have names of the same form, so only a model that has read a name
in training can label it as a person. The command also writes lists of names that are in the training data and of names
that are not, and both kinds in the formats of a corpus and of a query result.
"""

import argparse
import csv
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoConfig, AutoModelForTokenClassification, PreTrainedModel

from harness.audits.classifier import Span, tokens_covering
from tests.demo_target import invented
from tests.demo_target.tokenizer import train_tokenizer
from tests.demo_target.training import IGNORED_LABEL, descend, progress_printer

NAMES = 100
"""The number of entries in each list of `InventedNames`."""
SEED = 20240501
_VOCABULARY = 800
_MAX_TOKENS = 128
_RATE = 2e-3
_SLOT = "{}"
_WORDS = re.compile(r"\w+|[^\w\s]")
_UNKNOWN = "[UNK]"
FRAMES = (
    "{} came home late on Monday.",
    "A letter from {} was found in the attic.",
    "Nobody at the market spoke of {} any more.",
    "Reports about {} filled the morning papers.",
    "The committee will hear from {} next week.",
    "In the end {} won the prize again!",
    "Do you remember {} at all?",
    "Who would have thought of {} in such weather?",
    "Tell me more about {}, please.",
    "{} has been praised by critics in four countries.",
    "They wrote a song about {} and sang it twice.",
    "When the rain stopped, {} looked quite different.",
    "Everything we know of {} fits on a single page.",
    "How much has {} changed since the war?",
    "What a summer it was for {}!",
    "Our guide showed us a picture of {}.",
    "According to the editor, {} deserves better.",
    "Never forget {}!",
    "The museum bought three paintings of {} in March.",
    "I had a dream about {} last night.",
    "Was it {} that you meant?",
    "Without {} there would be no festival here.",
    "Ask the neighbours about {}.",
    "Most of the visitors had already heard of {} before they came.",
)


class Family(StrEnum):
    """An architecture with its usual kind of tokenizer."""

    BERT = "bert"  # WordPiece
    ALBERT = "albert"  # Unigram
    ROBERTA = "roberta"  # byte-level BPE


class InventedNames(NamedTuple):
    """Random names: those in the training data, two lists of unread names, and the places in the training data.

    Each entry has two words, and no word occurs twice.
    """

    read: list[str]
    unread: list[str]
    other_unread: list[str]
    places: list[str]


class Sentence(NamedTuple):
    """A text, the span of its entity, and whether the entity is a person."""

    text: str
    entity: Span
    is_person: bool


_LABELS: dict[Family, tuple[str, ...]] = {
    # The three label schemes of published models: with prefixes, with long names, and without prefixes.
    Family.BERT: ("O", "B-PER", "I-PER", "B-LOC", "I-LOC"),
    Family.ALBERT: ("O", "B-PERSON", "I-PERSON", "B-LOCATION", "I-LOCATION"),
    Family.ROBERTA: ("O", "PER", "LOC"),
}

_OTHER_SETTINGS: dict[Family, dict[str, Any]] = {
    Family.ALBERT: {"embedding_size": 64, "classifier_dropout_prob": 0.0},
    Family.ROBERTA: {"bos_token_id": 0, "eos_token_id": 2},
}


def invented_names(count: int = NAMES) -> InventedNames:
    """Return `count` entries in each list, the same ones each time."""
    rng = Random(SEED)
    words: dict[str, None] = {}
    while len(words) < 8 * count:
        words[invented.name(rng)] = None
    single = list(words)
    entries = [f"{given} {family}" for given, family in zip(single[::2], single[1::2], strict=True)]
    return InventedNames(*(entries[part * count : (part + 1) * count] for part in range(4)))


def fine_tune(
    family: Family,
    names: InventedNames,
    folder: Path,
    *,
    steps: int = 600,
    report: Callable[[int, float], None] = lambda step, loss: None,
) -> None:
    """Fine-tune a classifier on `names.read` and `names.places`, and write it to `folder` in Hugging Face layout.

    `report(step, loss)` is called after each step with the step's mean loss in nats per token.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _train_tokenizer(family, [*FRAMES, *(name for part in names for name in part)])
    sentences = _sentences(names, Random(SEED))

    def loss_at(step: int) -> torch.Tensor:
        tokens, mask, labels = _batch(family, tokenizer, [next(sentences) for _ in range(32)])  # all [32, longest]
        return model(input_ids=tokens, attention_mask=mask, labels=labels).loss

    def learning_rate(step: int) -> float:
        return _RATE * min(1.0, (step + 1) / 50, 2 * (steps - step) / steps)

    with _reproducible_sums():
        torch.manual_seed(SEED)
        model = _build_model(family, tokenizer)
        optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
        descend(model, [optimizer], steps, learning_rate, loss_at, report)
    model.float().save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # safetensors creates the file with mode 0600
    tokenizer.save(str(folder / "tokenizer.json"))


@contextmanager
def _reproducible_sums() -> Iterator[None]:
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    # More threads do not speed up small matrices, and the last digits of the weights depend on their number.
    torch.set_num_threads(1)
    # Processors round sums differently. Training magnifies that: in float32 to other models, in float64 to less than
    # the rounding of the saved weights.
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_default_dtype(dtype)


def relabelled(folder: Path, to: Path, labels: list[str]) -> Path:
    """Copy the classifier in `folder` to the new directory `to` and rename its labels."""
    to.mkdir()
    for file in folder.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = {str(number): label for number, label in enumerate(labels)}
    config["label2id"] = {label: number for number, label in enumerate(labels)}
    (to / "config.json").write_text(json.dumps(config))
    return to


def write_names(names: InventedNames, folder: Path) -> None:
    """Write the names as lists, as a CoNLL-2003 corpus and as a Wikidata query result."""
    lists = {"in-train.txt": names.read, "out-train.txt": names.unread, "unread.txt": names.other_unread}
    for file, listed in lists.items():
        (folder / file).write_text("".join(f"{name}\n" for name in listed))
    lines = ["-DOCSTART- -X- -X- O", ""]
    for place, name in enumerate(names.read):
        before, after = FRAMES[place % len(FRAMES)].split(_SLOT)
        given, family_name = name.split()
        lines += [f"{word} X X O" for word in _WORDS.findall(before)]
        lines += [f"{given} X X B-PER", f"{family_name} X X I-PER"]
        lines += [*(f"{word} X X O" for word in _WORDS.findall(after)), ""]
    (folder / "train.conll").write_text("\n".join(lines))
    with (folder / "wikidata.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("person", "personLabel"))
        for number, name in enumerate([*names.read, *names.unread]):
            writer.writerow((f"http://example.org/entity/{number}", name))


def _sentences(names: InventedNames, rng: Random) -> Iterator[Sentence]:
    """Yield sentences from random frames, equally often with a person and with a place."""
    while True:
        is_person = rng.random() < 0.5
        entity = rng.choice(names.read if is_person else names.places)
        # Begin with the start of another sentence, so that the entity can occur at any position.
        before = rng.choice(FRAMES).replace(_SLOT, "it").split()
        frame = " ".join([*before[: rng.randrange(len(before))], rng.choice(FRAMES)])
        start = frame.index(_SLOT)
        yield Sentence(frame.replace(_SLOT, entity), Span(start, start + len(entity)), is_person)


def _batch(
    family: Family, tokenizer: Tokenizer, sentences: Sequence[Sentence]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return token ids, mask and labels, each [sentences, longest]. Every token of an entity has a label."""
    encodings = tokenizer.encode_batch([sentence.text for sentence in sentences])
    longest = max(len(encoding.ids) for encoding in encodings)
    tokens = torch.full((len(sentences), longest), _padding_id(family))
    mask = torch.zeros((len(sentences), longest), dtype=torch.int64)
    labels = torch.full((len(sentences), longest), IGNORED_LABEL)
    for row, (sentence, encoding) in enumerate(zip(sentences, encodings, strict=True)):
        size = len(encoding.ids)
        tokens[row, :size] = torch.tensor(encoding.ids)
        mask[row, :size] = 1
        entity_tokens = tokens_covering(encoding, sentence.entity).nonzero()[0].tolist()
        labels[row, :size] = torch.tensor([IGNORED_LABEL if special else 0 for special in encoding.special_tokens_mask])
        for place, token in enumerate(entity_tokens):
            labels[row, token] = _label(family, sentence.is_person, is_first=place == 0)
    return tokens, mask, labels


def _label(family: Family, is_person: bool, *, is_first: bool) -> int:
    if family is Family.ROBERTA:
        return 1 if is_person else 2
    return (1 if is_person else 3) + (0 if is_first else 1)


def _padding_id(family: Family) -> int:
    return 1 if family is Family.ROBERTA else 0


def _train_tokenizer(family: Family, texts: Sequence[str]) -> Tokenizer:
    if family is Family.ROBERTA:
        tokenizer = train_tokenizer(texts, _VOCABULARY, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
        return tokenizer
    special = ["[PAD]", _UNKNOWN, "[CLS]", "[SEP]", "[MASK]"]
    if family is Family.BERT:
        pieces = _pieces(texts, pre_tokenizers.BertPreTokenizer(), (_VOCABULARY - len(special)) // 2)
        vocabulary = [*special, *pieces, *(f"##{piece}" for piece in pieces)]
        numbers = {token: number for number, token in enumerate(vocabulary)}
        tokenizer = Tokenizer(models.WordPiece(numbers, unk_token=_UNKNOWN))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece()
    else:
        pieces = _pieces(texts, pre_tokenizers.Metaspace(), _VOCABULARY - len(special))
        scores = [(piece, -math.log(rank)) for rank, piece in enumerate(pieces, 2)]
        tokenizer = Tokenizer(models.Unigram([*((token, 0.0) for token in special), *scores], special.index(_UNKNOWN)))
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(special)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def _pieces(texts: Sequence[str], splits: pre_tokenizers.PreTokenizer, count: int) -> list[str]:
    """Return the tokens of a BPE, most frequent merges first.

    Unlike the trainers of WordPiece and Unigram, which break ties by chance, that of BPE returns the same each time.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = splits
    alphabet = [chr(code) for code in range(33, 127)]
    trainer = trainers.BpeTrainer(vocab_size=count, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    vocabulary = tokenizer.get_vocab()
    return sorted(vocabulary, key=vocabulary.__getitem__)


def _build_model(family: Family, tokenizer: Tokenizer) -> PreTrainedModel:
    labels = dict(enumerate(_LABELS[family]))
    # RoBERTa numbers positions from the padding id + 1.
    offset = 2 if family is Family.ROBERTA else 0
    model: PreTrainedModel = AutoModelForTokenClassification.from_config(  # type: ignore[no-untyped-call]
        AutoConfig.for_model(
            family,
            vocab_size=tokenizer.get_vocab_size(),
            max_position_embeddings=_MAX_TOKENS + offset,
            hidden_size=64,
            num_attention_heads=4,
            num_hidden_layers=2,
            intermediate_size=128,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            pad_token_id=_padding_id(family),
            id2label=labels,
            label2id={label: number for number, label in labels.items()},
            **_OTHER_SETTINGS.get(family, {}),
        )
    )
    return model


def main() -> None:
    """Train three classifiers and write them and their names to FOLDER."""
    parser = argparse.ArgumentParser(prog="python -m tests.demo_target.classifiers", description=__doc__)
    parser.add_argument("folder", type=Path, help="directory for bert/, albert/, roberta/ and the lists of names")
    parser.add_argument("--steps", type=int, default=600, help="number of training steps (default 600)")
    options = parser.parse_args()
    names = invented_names()
    for family in Family:
        print(family, flush=True)
        report = progress_printer(options.steps, every=100)
        fine_tune(family, names, options.folder / family, steps=options.steps, report=report)
    write_names(names, options.folder)
    print(f"wrote {options.folder}")


if __name__ == "__main__":
    main()
