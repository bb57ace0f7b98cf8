"""The folder of an audit is a Hugging Face data set with a card, whatever text it contains."""

import html
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from harness.core.findings import Conclusion, Findings, FoundTable
from harness.core.text import sanitize
from harness.submit.audit_export import write_audit
from harness.submit.audit_page import AuditHeader
from harness.submit.dataset_card import markdown_text, yaml_string
from harness.submit.finding_tables import redact_findings, whole_text
from tests.unit.submit.audit_header import HEADER, MODEL

MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
HOSTILE = (
    "---\nlicense: mit\nconfigs: []\n---",
    "# A heading",
    "[a link](http://evil.example) ![picture](http://evil.example/x.png) <https://evil.example>",
    "<script>alert(1)</script> <img src=x onerror=alert(1)> &lt;b&gt;",
    "| a | b |\n|---|---|\n| `code` | **bold** ~~gone~~ |",
    '1. x "quoted" \\ back\x1b[31m\u202e\ud800\u2028 😀',
    "- item\n\n```\nfence",
)
ODD_NAMES = ("a b/c|d`", "ünï 😀", "%2F", '{x}<y>"', "line\n\u2028break", "[a](http://b)", "")
TABLES = [
    FoundTable("rates", "Rates", {"threshold": ["trigram", "start"], "rate": np.array([0.4, np.nan]), "n": [3, None]}),
    FoundTable(
        "texts",
        "Texts",
        {"text": [*HOSTILE, None], "vector": np.ones((8, 2)), "is_known": [True, None] * 4, "none": [None] * 8},
        text_columns=("text",),
    ),
    FoundTable("odd", "Odd names", {name: [number, None] for number, name in enumerate(ODD_NAMES)}),
    FoundTable("without-rows", "No rows", {"a": [], "b": []}),
    FoundTable("without-columns", "No columns", {}),
]
FINDINGS = Findings(
    {"n": 1},
    sentences=HOSTILE,
    tables=TABLES,
    conclusion=Conclusion("Was it seen?", "Probably", HOSTILE[2], HOSTILE[4]),
    definitions={"rate": "the share of paragraphs that pass", "threshold": HOSTILE[3]},
)
LOADABLE = ["rates", "texts", "odd"]


def hostile_header() -> AuditHeader:
    """The header of an audit of a model in a directory, whose other names are hostile."""
    model = MODEL.model_copy(update={"id": "/home/me/models/target"})
    spec = HEADER.spec.model_copy(update={"subject": HOSTILE[0], "models": (model,)})
    return replace(HEADER, spec=spec, title=HOSTILE[5], warnings=[*HOSTILE, "/home/me/models/target has no tokenizer."])


def write(folder: Path, findings: Findings = FINDINGS, header: AuditHeader = HEADER, *, redact: bool = False) -> Path:
    write_audit(folder / "out", redact_findings(findings) if redact else findings, header)
    return folder / "out"


@pytest.fixture(scope="module", params=[False, True], ids=["open", "redacted"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an audit with odd tables, as it is and redacted."""
    return write(tmp_path_factory.mktemp("dataset"), redact=request.param)


def card_of(folder: Path) -> tuple[dict[str, Any], str]:
    """Return the front matter of a card and its body."""
    empty, front_matter, body = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    assert not empty
    return yaml.safe_load(front_matter), body


def tokens_of(body: str) -> list[Token]:
    return [token for block in MARKDOWN.parse(body) for token in (block, *(block.children or ()))]


def stored_rows(folder: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pyarrow.parquet.read_table(folder / "tables" / f"{name}.parquet").to_pylist()
    return rows


def test_datasets_loads_every_configuration(written: Path, tmp_path: Path) -> None:
    import datasets  # slow to import, and needed by one test

    assert datasets.get_dataset_config_names(str(written)) == LOADABLE
    for name in LOADABLE:
        loaded = datasets.load_dataset(str(written), name, split="audit", cache_dir=str(tmp_path))
        assert loaded.to_list() == stored_rows(written, name)
    default = datasets.load_dataset(str(written), split="audit", cache_dir=str(tmp_path))
    assert default.to_list() == stored_rows(written, LOADABLE[0])


def test_the_card_names_each_table_that_can_be_loaded(written: Path) -> None:
    front_matter, _ = card_of(written)
    assert front_matter["license"] == "other" and "memorization" in front_matter["tags"]
    assert front_matter["pretty_name"] == "Sequence extraction: corpus"
    assert front_matter["configs"] == [
        {"config_name": name, "data_files": [{"split": "audit", "path": f"tables/{name}.parquet"}]}
        | ({"default": True} if name == LOADABLE[0] else {})
        for name in LOADABLE
    ]


@pytest.mark.parametrize(
    ("redact", "sentence"), [(False, "can quote the corpus"), (True, "are replaced with their length and hash")]
)
def test_the_card_says_what_was_measured(redact: bool, sentence: str, tmp_path: Path) -> None:
    _, body = card_of(write(tmp_path, redact=redact))
    for known in ("# Sequence extraction: corpus", "harness audit sequence", "Target: demo.", sentence):
        assert known in body


def test_hostile_text_is_only_shown_as_text(tmp_path: Path) -> None:
    folder = write(tmp_path, header=hostile_header())
    front_matter, body = card_of(folder)
    assert front_matter["pretty_name"] == sanitize(whole_text(f"{HOSTILE[5]}: {HOSTILE[0]}"))
    assert front_matter["license"] == "other" and len(front_matter["configs"]) == len(LOADABLE)
    tokens = tokens_of(body)
    assert not {"html_block", "html_inline", "link_open", "image", "s_open", "em_open", "hr"} & {
        token.type for token in tokens
    }
    assert sum(token.type == "heading_open" for token in tokens) == 1
    assert not {"fence", "table_open", "strong_open", "list_item_open"} & {token.type for token in tokens}


def test_no_file_contains_a_path_of_this_machine(tmp_path: Path) -> None:
    conclusion = Conclusion("Was it seen?", "Yes", "/home/me/models/target leaks it")
    found = replace(FINDINGS, conclusion=conclusion, sentences=["/home/me/models/target leaks 40 %."])
    folder = write(tmp_path, found, hostile_header())
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert "target leaks 40\u00a0%" in page and "target has no tokenizer" in page
    for file in filter(Path.is_file, folder.rglob("*")):
        assert not [path for path in (b"/home", bytes(tmp_path)) if path in file.read_bytes()], file


@given(st.text())
def test_any_text_is_escaped_for_markdown(text: str) -> None:
    line = " ".join(sanitize(text).split())
    shown = MARKDOWN.render(f"- {markdown_text(text)}")
    assert html.unescape(shown) == f"<ul>\n<li>{line}</li>\n</ul>\n"
    assert shown.count("<") == 4


@given(st.text())
def test_any_text_is_a_yaml_scalar(text: str) -> None:
    scalar = yaml_string(text)
    assert len(scalar.splitlines()) == 1
    assert yaml.safe_load(f"a: {scalar}\nb: 1") == {"a": sanitize(text), "b": 1}


def test_an_audit_without_tables_has_a_card(tmp_path: Path) -> None:
    front_matter, body = card_of(write(tmp_path, Findings({"n": 1})))
    assert "configs" not in front_matter and "Sequence extraction: corpus" in body
