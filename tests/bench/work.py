"""`python -m tests.bench.work MODEL`: whole commands of the harness beside plain loops of transformers.

MODEL is a directory in Hugging Face layout. Each row is a command of the harness and a script that computes the same
completions or probabilities with `generate` and forward passes, in batches of 8 or more with padding, with the same
number of threads. Both load the model, once for each model. The harness also starts a sandbox, stores every row,
computes the findings and their intervals. A figure above 1 means that the harness is faster. The row sequence_1000
takes half an hour, so it runs only if it is named: `python -m tests.bench.work MODEL sequence_1000`.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench.measuring import in_turns, markdown_table, median_ratio, median_seconds
from tests.functional.machine import ROOT
from tests.real_model.texts import licence, paragraphs_of

TURNS = 1
LENGTH = 50
"""The tokens of a prefix and of a suffix."""
PARAGRAPHS, SEQUENCES, EXAMPLES, TRIALS, BEAMS, TRAIN = 24, 64, 24, 4, 2, 24
_LICENCES = ("GPL-3", "GPL-2", "MPL-2.0", "LGPL-2.1")
_PROMPT_WORDS = 35
_LONG_ROW = "sequence_1000"
_WINDOWS, _WINDOW_WORDS = 1_000, (55, 155)
"""The number of texts of the long row, and the words of the shortest and of the longest."""
_BATCH = 8
_GENERATED_AT_ONCE = 32
_STRIDE = 250  # characters


def write_corpus(folder: Path) -> None:
    """Write the texts of licences to `folder`/corpus."""
    (folder / "corpus").mkdir()
    for name in _LICENCES:
        (folder / "corpus" / f"{name}.txt").write_text("\n\n".join(paragraphs_of(licence(name))))


def write_inputs(folder: Path, model: Path) -> None:
    """Write the texts, and a round of them."""
    write_corpus(folder)
    long = [text for name in _LICENCES for text in paragraphs_of(licence(name), min_words=_PROMPT_WORDS + 20)]
    (folder / "paragraphs.txt").write_text("\n\n".join(long[:PARAGRAPHS]))
    (folder / "windows.txt").write_text("\n\n".join(_windows(" ".join(map(licence, _LICENCES)).split())))
    for name, half in (("members", long[:40:2]), ("others", long[1:40:2])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in half))
    (folder / "copy").symlink_to(model)
    sizes = ("--train", str(TRAIN), "--val", "1", "--test", str(EXAMPLES))
    harness(folder, "new", "round", folder / "corpus", "--target", model, "-o", folder / "round", *sizes)


def _windows(words: Sequence[str]) -> list[str]:
    """Return passages of many lengths that begin at equal distances."""
    shortest, longest = _WINDOW_WORDS
    lengths = np.random.default_rng(0).integers(shortest, longest, _WINDOWS)
    starts = np.linspace(0, len(words) - longest, _WINDOWS).astype(int)
    return [" ".join(words[start : start + length]) for start, length in zip(starts, lengths, strict=True)]


def harness(folder: Path, *words: str | Path) -> None:
    """Run a command of the harness. Raises CalledProcessError if it fails."""
    environment = os.environ | {"HARNESS_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "harness", *map(str, words), "--json"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def commands(folder: Path, model: Path) -> dict[str, Sequence[str | Path]]:
    """Return the words of each command of the harness."""
    target, corpus = ("--target", model), folder / "corpus"
    attack = ("--round", folder / "round" / "round-test.toml")
    return {
        "sequence": ("audit", "sequence", folder / "paragraphs.txt", *target),
        _LONG_ROW: ("audit", "sequence", folder / "windows.txt", *target),
        "leakage": ("audit", "leakage", corpus, *target, "--limit", str(SEQUENCES), "--near", "0", "--inexact", "0"),
        "book": ("audit", "book", corpus / "GPL-3.txt", *target, "--stride", str(_STRIDE), "--near", "0"),
        "membership": (
            *("audit", "membership", folder / "members.jsonl", "--non-members", folder / "others.jsonl"),
            *(*target, "--shots", "0"),
        ),
        "compare": ("audit", "compare", corpus, *target, "--target", folder / "copy", "--limit", str(EXAMPLES)),
        "greedy": ("run", "greedy", *attack),
        "baseline": ("run", "baseline", *attack, "--set", f"trials={TRIALS}"),
        "two_step": ("run", "two_step", *attack, "--set", f"width={BEAMS}"),
    }


class PlainLoop:
    """What a user writes with transformers."""

    def __init__(self, folder: Path, model: Path) -> None:
        import torch
        import transformers as library

        self.folder, self._torch, self._library = folder, torch, library
        self.tokenizer = library.AutoTokenizer.from_pretrained(model, padding_side="left")
        self.tokenizer.pad_token = self.tokenizer.pad_token or self.tokenizer.eos_token
        self.model = library.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()

    def sequence(self) -> None:
        self._complete("paragraphs.txt")

    def sequence_1000(self) -> None:
        self._complete("windows.txt")

    def _complete(self, name: str) -> None:
        """Complete paragraphs, for as many tokens as the harness draws to get enough words, sorted by length."""
        words = [paragraph.split() for paragraph in (self.folder / name).read_text().split("\n\n")]
        words.sort(key=len)
        for first in range(0, len(words), _GENERATED_AT_ONCE):
            batch = words[first : first + _GENERATED_AT_ONCE]
            suffixes = self.tokenizer([" ".join(part[_PROMPT_WORDS:]) for part in batch]).input_ids
            prompts = [" ".join(part[:_PROMPT_WORDS]) for part in batch]
            encoded = self.tokenizer(prompts, return_tensors="pt", padding=True)
            self.generate(math.ceil(1.25 * max(map(len, suffixes))) + 4, **encoded)

    def leakage(self) -> None:
        """Compute probabilities under the six schemes: greedy, plain, temperature, top-k, top-p and typical-p."""
        library = self._library
        schemes = [
            library.TopKLogitsWarper(1),
            library.TemperatureLogitsWarper(0.7),
            library.TopKLogitsWarper(10),
            library.TopPLogitsWarper(0.9),
            library.TypicalLogitsWarper(0.6),
        ]
        self.probabilities(self.sequences()[:SEQUENCES], schemes)

    def book(self) -> None:
        text = (self.folder / "corpus" / "GPL-3.txt").read_text()
        starts = [self.tokenizer(text[at : at + 1_000]).input_ids for at in range(0, len(text), _STRIDE)]
        windows = self._torch.tensor([ids[: 2 * LENGTH] for ids in starts if len(ids) >= 2 * LENGTH])
        self.probabilities(windows, [self._library.TopKLogitsWarper(40)])

    def membership(self) -> None:
        """Compute the loss and the moments of Min-K %++."""
        for name in ("members", "others"):
            texts = [json.loads(line)["text"] for line in (self.folder / f"{name}.jsonl").read_text().splitlines()]
            rows = self.tokenizer(texts, truncation=True, max_length=128, padding=True, return_tensors="pt").input_ids
            self.probabilities(rows, [self._standardized], kept=rows.shape[1])

    def compare(self) -> None:
        rows = self.sequences()[:EXAMPLES]
        for loop in (self, PlainLoop(self.folder, self.folder / "copy")):
            loop.probabilities(rows, [self._library.TopKLogitsWarper(10)])
            loop.generate(LENGTH, input_ids=rows[:, :LENGTH])

    def greedy(self) -> None:
        self.generate(LENGTH, input_ids=self._prefixes("test"))

    def baseline(self) -> None:
        drawn = {"do_sample": True, "top_k": 10, "num_return_sequences": TRIALS}
        self.generate(LENGTH, input_ids=self._prefixes("test"), **drawn)

    def two_step(self) -> None:
        for split in ("train", "test"):
            beams = {"num_beams": BEAMS, "num_return_sequences": BEAMS}
            self.generate(LENGTH, input_ids=self._prefixes(split), **beams)

    def _standardized(self, _: None, logits: Any) -> Any:
        """Return the log probabilities minus their mean, in standard deviations."""
        logprobs = logits.log_softmax(-1)
        probabilities = logprobs.exp()
        mean = (probabilities * logprobs).sum(-1, keepdim=True)
        variance = (probabilities * logprobs.square()).sum(-1, keepdim=True) - mean.square()
        return (logprobs - mean) / variance.sqrt()

    def _prefixes(self, split: str) -> Any:
        return self._torch.from_numpy(np.load(self.folder / "round" / f"{split}_prefix.npy").astype(np.int64))

    def sequences(self) -> Any:
        """Return the texts, cut into prefixes and suffixes, [sequences, 2 * LENGTH]."""
        texts = [file.read_text() for file in sorted((self.folder / "corpus").glob("*.txt"))]
        return self._torch.cat(
            [
                self._torch.tensor(ids[: len(ids) // (2 * LENGTH) * 2 * LENGTH])
                for ids in self.tokenizer(texts).input_ids
            ]
        ).reshape(-1, 2 * LENGTH)

    def probabilities(self, rows: Any, schemes: Sequence[Any] = (), *, kept: int = LENGTH + 1) -> None:
        """Compute the log probabilities of the last tokens of each row, plain and under each of the schemes."""
        with self._torch.inference_mode():
            for batch in rows.split(_BATCH):
                logits = self.model(batch, logits_to_keep=kept).logits[:, :-1].flatten(0, 1)
                tokens = batch[:, batch.shape[1] - kept + 1 :].reshape(-1, 1)
                logits.log_softmax(-1).gather(-1, tokens)
                for scheme in schemes:
                    scheme(None, logits).log_softmax(-1).gather(-1, tokens)

    def generate(self, tokens: int, **options: Any) -> None:
        """Generate `tokens` tokens, the likeliest ones unless `options` of transformers say otherwise."""
        usual = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
        with self._torch.inference_mode():
            self.model.generate(
                **(usual | options),
                max_new_tokens=tokens,
                min_new_tokens=tokens,
                pad_token_id=self.tokenizer.pad_token_id,
            )


def measure(model: Path, names: Sequence[str]) -> str:
    """Return the table of the rows with these names, or of all."""
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_inputs(folder, model)
        for name, words in commands(folder, model).items():
            if name not in names and (names or name == _LONG_ROW):
                continue
            plain = [sys.executable, "-m", "tests.bench.work", "--plain", name, str(folder), str(model)]
            calls: dict[str, Callable[[int], object]] = {
                f"{name}, harness": lambda turn, words=words: harness(folder, *words, "--seed", str(turn)),
                f"{name}, plain loop": lambda turn, plain=plain: subprocess.run(
                    plain, cwd=ROOT, check=True, stderr=subprocess.DEVNULL
                ),
            }
            ours, loop = in_turns(calls, TURNS).values()
            cells = (
                f"{median_seconds(ours):.0f} s",
                f"{median_seconds(loop):.0f} s",
                f"{median_ratio(loop, ours):.2f}",
            )
            rows.append([name, *cells])
            print(*rows[-1], file=sys.stderr, flush=True)
    return markdown_table(["work", "harness", "plain loop", "plain loop / harness"], rows)


if __name__ == "__main__":
    if sys.argv[1] == "--plain":
        getattr(PlainLoop(Path(sys.argv[3]), Path(sys.argv[4])), sys.argv[2])()
    else:
        print(measure(Path(sys.argv[1]).resolve(), sys.argv[2:]))
