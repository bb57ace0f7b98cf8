"""The example data of the tutorials: texts of the demo, pairs to forget and to retain, and an unlearned target."""

import json
from collections.abc import Iterable, Iterator

import numpy as np
from tokenizers import Tokenizer

from harness.core.files import file_errors
from harness.demo import CONTROL_TEXT, CORPUS, EXAMPLE, WEIGHTS

FILES = {
    "corpus.jsonl": "2,060 texts on which the target demo was trained, and the number of copies of each",
    "unseen.jsonl": "1,000 texts of the same kinds that no built-in target has seen",
    "book.txt": "the first 100 texts of the corpus that have no line breaks",
    "unseen.txt": "the first 60 unseen texts that have no line breaks",
    "forget.npz": "prefixes and suffixes of 100 texts that the target in unlearned/ forgot",
    "retain.npz": "those of 100 texts that its fine-tuning did not read",
    "forget-copies.npy": "number of copies of each text of forget.npz",
    "retain-copies.npy": "number of copies of each text of retain.npz",
    "unlearned/": "the target demo after unlearning, for --target",
}
"""The name and the description of each file that `example_files` yields."""
_BOOK_TEXTS, _UNSEEN_TEXTS = 100, 60


def example_files() -> Iterator[tuple[str, bytes]]:
    """Yield the path below the directory and the content of each file. Raises HarnessError if the package lacks one."""
    with file_errors():
        texts = json.loads(CORPUS.read_bytes())
        copies = np.load(EXAMPLE / "copies.npy").tolist()
        rows = np.load(CONTROL_TEXT)
        tokenizer = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
        unseen = [tokenizer.decode(row) for row in np.hstack([rows["prefixes"], rows["suffixes"]]).tolist()]
        corpus = ({"text": text, "copies": number} for text, number in zip(texts, copies, strict=True))
        yield "corpus.jsonl", _lines(map(json.dumps, corpus), "\n")
        yield "unseen.jsonl", _lines((json.dumps({"text": text}) for text in unseen), "\n")
        yield "book.txt", _lines([text for text in texts if "\n" not in text][:_BOOK_TEXTS], "\n\n")
        yield "unseen.txt", _lines([text for text in unseen if "\n" not in text][:_UNSEEN_TEXTS], "\n\n")
        for name in ("forget.npz", "retain.npz", "forget-copies.npy", "retain-copies.npy"):
            yield name, (EXAMPLE / name).read_bytes()
        yield "unlearned/model.safetensors", (EXAMPLE / "model.safetensors").read_bytes()
        for path in sorted(WEIGHTS.glob("*.json")):
            yield f"unlearned/{path.name}", path.read_bytes()


def _lines(texts: Iterable[str], separator: str) -> bytes:
    return f"{separator.join(texts)}\n".encode()
