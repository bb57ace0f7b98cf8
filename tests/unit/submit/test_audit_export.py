"""The folder of an audit: complete, reproducible, safe to open, and without text if it is redacted."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from harness.core.errors import HarnessError
from harness.core.exports import redact_text
from harness.core.findings import (
    BarChart,
    Conclusion,
    Findings,
    FoundTable,
    HeatMap,
    KeyFigure,
    LineChart,
    Marked,
    Passage,
    Series,
    ShadedText,
    Stretch,
)
from harness.runs.status import Status
from harness.submit.audit_export import check_audit_folder, write_audit
from harness.submit.audit_page import AuditHeader
from harness.submit.finding_tables import redact_findings
from tests.unit.submit.audit_header import HEADER
from tests.unit.submit.pages import parsed_page

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e\ud800 $x_{ & 'quoted' \"so\""
SECRETS = ("Wilhelmina Featherstone", "keeps the copper kettle", "behind a loose brick")
TEXT = " ".join(SECRETS)


def findings(text: str = TEXT, label: str = "a") -> Findings:
    """Return findings with a text of the corpus where an audit has texts. label: of the charts."""
    numbers = np.arange(1, 5)
    return Findings(
        figures={"paragraphs": 3},
        sentences=["40 % of the paragraphs pass."],
        tables=[
            FoundTable(
                "rates", "Rates", {"threshold": ["trigram", "start"], "rate": np.array([0.4, np.nan]), "n": [3, 4]}
            ),
            FoundTable(
                "paragraphs",
                "Paragraphs",
                {
                    "text": [text, "=1+1", "-5", None],
                    "number": [-1, -2.5, 3, None],
                    "vector": np.array([[1, np.nan]] * 4),
                    "is_known": [True, False, None, True],
                },
                is_detail=True,
                text_columns=("text",),
            ),
        ],
        charts=[
            LineChart("curve", "Curve", "x", "y", [Series(label, numbers, numbers), Series("b", numbers, numbers)]),
            BarChart("bars", "Bars", "y", [label, "b"], [label], np.zeros((1, 2))),
            HeatMap("words", "Words", [label], [label, "b"], np.zeros((1, 2)), [[text, "b"]]),
        ],
        passages=[Passage("first", [("prompt", [Stretch(text[:10]), Stretch(text[10:], True)]), ("reply", [])])],
        texts=[ShadedText("text-1", "A text", f"{text}\nend", np.linspace(0, 1, len(text) + 4), (0.1, 0.5))],
    )


WITHOUT_CHARTS = replace(findings(), charts=[])
WITHOUT_TABLES = ["README.md", "findings.json", "index.html"]
"""The files of an audit that has neither tables nor charts."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an audit that is only read."""
    folder = tmp_path_factory.mktemp("written")
    write_audit(folder / "out", findings(), HEADER)
    return folder / "out"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def page_of(folder: Path, found: Findings, header: AuditHeader = HEADER) -> str:
    """Write an audit to `folder`/out, and return its page."""
    write_audit(folder / "out", found, header)
    return (folder / "out" / "index.html").read_text(encoding="utf-8")


def test_an_audit_writes_a_page_a_record_tables_and_charts(tmp_path: Path) -> None:
    written = write_audit(tmp_path / "out", findings(), HEADER)
    assert sorted(path.relative_to(tmp_path / "out").as_posix() for path in written) == sorted(
        contents(tmp_path / "out")
    )
    assert sorted(contents(tmp_path / "out")) == [
        "README.md",
        "figures/bars.svg",
        "figures/curve.svg",
        "figures/words.svg",
        "findings.json",
        "index.html",
        "tables/paragraphs.parquet",
        "tables/rates.parquet",
        "texts/text-1.html",
    ]
    record = json.loads((tmp_path / "out" / "findings.json").read_bytes())
    assert record["figures"] == findings().figures
    assert record["audit"]["models"][0]["weights_sha256"] == "ab" * 32
    assert record["audit"]["inputs"] == {"corpus": {"name": "corpus.jsonl", "sha256": "cd" * 32}}
    prompt = record["passages"][0]["texts"][0]
    assert prompt == {"label": "prompt", "text": TEXT, "marked": [[10, len(TEXT)]]}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_equal_findings_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_audit(tmp_path / name, findings(HOSTILE, HOSTILE), HEADER)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


@pytest.mark.parametrize("text", [TEXT, HOSTILE])
@pytest.mark.parametrize("redact", [True, False])
def test_the_page_runs_no_script_and_links_only_to_its_own_files(text: str, redact: bool, tmp_path: Path) -> None:
    spec = HEADER.spec.model_copy(update={"params": {text: text, "endpoint": text}})
    summary = replace(HEADER.summary, reason=text, status=Status.CRASHED)
    header = replace(HEADER, spec=spec, summary=summary, warnings=[text])
    found = replace(findings(text, text), sentences=[text])
    page = page_of(tmp_path, redact_findings(found) if redact else found, header)
    parsed = parsed_page(page)
    assert not {"script", "iframe", "object", "embed", "link", "base", "form"} & set(parsed.tags)
    assert parsed.tags["style"] == 1 and parsed.tags["svg"] == 3
    assert not [name for name, _ in parsed.attributes if name.startswith("on")]
    assert not [count for count in parsed.ids.values() if count > 1]
    for target in (value for name, value in parsed.attributes if name in ("href", "xlink:href", "src")):
        if not target.startswith("data:image/png;base64,"):
            assert (target.startswith("#") and target[1:] in parsed.ids) or (tmp_path / "out" / target).is_file()
    assert all(target in parsed.ids for target in re.findall(r"url\(#([^)]*)\)", page))
    assert "default-src 'none'" in page
    assert not {"\u202e", "\x1b"} & set(page)


def test_the_page_marks_passages_and_shows_empty_texts(written: Path) -> None:
    page = (written / "index.html").read_text(encoding="utf-8")
    assert f'{TEXT[:10]}<mark class="different">{TEXT[10:]}</mark>' in page and "Red marks what differs." in page
    assert '<span class="note">empty</span>' in page


def test_the_page_shows_findings_models_inputs_and_settings(tmp_path: Path) -> None:
    header = replace(HEADER, summary=replace(HEADER.summary, status=Status.OUT_OF_TIME))
    words = parsed_page(page_of(tmp_path, WITHOUT_CHARTS, header)).text
    for sentence in (
        "The audit is out of time.",
        "40 % of the paragraphs pass.",
        "ab" * 32,
        "cd" * 32,
        "0:42 of 10:00",
        "bubblewrap",
        "harness 0.1",
        "One document was empty.",
        "prompt_length=35",
    ):
        assert sentence in words
    assert "rate" in words and "is known" in words  # a table shown, and a detailed one by its columns


def test_a_page_with_text_in_a_table_says_that_it_quotes(tmp_path: Path) -> None:
    rates, detailed = WITHOUT_CHARTS.tables
    for tables, says in (((rates, detailed), False), ((rates, replace(detailed, is_detail=False)), True)):
        words = parsed_page(page_of(tmp_path, replace(WITHOUT_CHARTS, tables=tables, passages=()))).text
        assert ("This page quotes the corpus" in words) == says


CONCLUSION = Conclusion("Was it seen?", "Probably", "3 of 4 paragraphs pass", "A caveat.", [KeyFigure("ESP", "0.400")])
CONCLUDED = replace(
    WITHOUT_CHARTS,
    conclusion=CONCLUSION,
    definitions={"rate": "the share of paragraphs that pass", "ESP": "a probability"},
    passages=[WITHOUT_CHARTS.passages[0]._replace(marked=Marked.EQUAL)],
)


def test_the_page_begins_with_the_question_and_its_answer(tmp_path: Path) -> None:
    page = page_of(tmp_path, CONCLUDED)
    assert "<title>Was it seen?</title>" in page and "<h1>Was it seen?</h1>" in page
    words = parsed_page(page).text
    answer, caveat, first_section = (words.index(text) for text in ("Probably:", "A caveat.", "40 % of the"))
    assert words.index("Was it seen?") < answer < caveat < first_section
    record = json.loads((tmp_path / "out" / "findings.json").read_bytes())
    assert record["conclusion"]["answer"] == "Probably" and record["definitions"]["ESP"] == "a probability"
    assert record["passages"][0]["marked"] == "equal"


def test_a_term_is_defined_where_it_appears_first(tmp_path: Path) -> None:
    page = page_of(tmp_path, CONCLUDED)
    shown = page.index("<b>rate</b>: the share of paragraphs that pass.")
    assert page.index("<h3>Rates</h3>") < shown < page.index("<td>trigram</td>")
    assert page.count("<b>rate</b>") == 1
    assert '<abbr title="the share of paragraphs that pass">rate</abbr></th>' in page


def test_the_page_links_to_each_of_its_sections(tmp_path: Path) -> None:
    page = page_of(tmp_path, CONCLUDED)
    titles = re.findall(r'<h2 id="(section-\d)">([^<]*)</h2>', page)
    assert [title for _, title in titles] == [
        "Findings",
        "Tables",
        "Passages",
        "Whole texts",
        "Figures",
        "Files",
        "Record",
    ]
    assert re.findall(r'<li><a href="#(section-\d)">([^<]*)</a></li>', page) == titles


def test_no_file_of_a_redacted_audit_contains_the_text(written: Path, tmp_path: Path) -> None:
    write_audit(tmp_path / "closed", redact_findings(findings()), HEADER)
    files = contents(tmp_path / "closed")
    for name, content in files.items():
        for secret in SECRETS:
            assert secret.encode() not in _as_plain_bytes(name, content), name
    assert all(secret in (written / "findings.json").read_text(encoding="utf-8") for secret in SECRETS)
    redacted = redact_text(TEXT)
    assert redacted in (tmp_path / "closed" / "index.html").read_text(encoding="utf-8")
    paragraphs = pyarrow.parquet.read_table(tmp_path / "closed" / "tables" / "paragraphs.parquet")
    assert paragraphs["text"].to_pylist()[0] == redacted
    # The figure contains glyphs instead of text, so compare it with a figure without words.
    *others, words = findings().charts
    assert isinstance(words, HeatMap)
    write_audit(tmp_path / "wordless", replace(findings(), charts=[*others, replace(words, words=None)]), HEADER)
    assert files["figures/words.svg"] == contents(tmp_path / "wordless")["figures/words.svg"]


def _as_plain_bytes(name: str, content: bytes) -> bytes:
    """A file with its compression undone."""
    if not name.endswith(".parquet"):
        return content
    return json.dumps(pyarrow.parquet.read_table(io.BytesIO(content)).to_pylist()).encode() + content


def test_parquet_keeps_types_and_texts(written: Path) -> None:
    table = pyarrow.parquet.read_table(written / "tables" / "paragraphs.parquet")
    assert list(map(str, table.schema.types)) == ["string", "double", "list<element: double>", "bool"]
    assert table.column("text").to_pylist() == [TEXT, "=1+1", "-5", None]
    rates = pyarrow.parquet.read_table(written / "tables" / "rates.parquet")
    assert rates.to_pydict() == {"threshold": ["trigram", "start"], "rate": [0.4, None], "n": [3, 4]}


def test_an_earlier_audit_is_replaced(tmp_path: Path) -> None:
    write_audit(tmp_path / "out", WITHOUT_CHARTS, HEADER)
    write_audit(tmp_path / "out", Findings({"n": 1}), HEADER)
    assert sorted(contents(tmp_path / "out")) == WITHOUT_TABLES
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_empty_folder_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "out" / "empty").mkdir(parents=True)
    assert write_audit(tmp_path / "out", WITHOUT_CHARTS, HEADER)


@pytest.mark.parametrize("name", ["mine.txt", "findings.json", "index.html"])
def test_a_folder_with_other_files_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("{}")
    with pytest.raises(HarnessError, match=r"contains files that are not from an audit"):
        write_audit(tmp_path, findings(), HEADER)
    assert contents(tmp_path) == {name: b"{}"}


def test_an_audit_folder_with_added_files_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_audit(out, WITHOUT_CHARTS, HEADER)
    (out / "notes.md").write_text("mine")
    with pytest.raises(HarnessError, match=r"notes\.md was added to"):
        write_audit(out, Findings({}), HEADER)
    assert (out / "notes.md").read_text() == "mine"


def test_a_file_and_a_missing_parent_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HarnessError, match=r"not a directory"):
        check_audit_folder(tmp_path / "file")
    with pytest.raises(HarnessError, match=r"no such directory: .*absent\."):
        check_audit_folder(tmp_path / "absent" / "out")


def test_a_link_to_a_folder_is_kept(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "real").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "elsewhere" / "real")
    for _ in range(2):
        write_audit(tmp_path / "out", Findings({"n": 1}), HEADER)
    assert (tmp_path / "out").is_symlink()
    assert sorted(contents(tmp_path / "elsewhere" / "real")) == WITHOUT_TABLES
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["real"]


def test_a_failed_write_keeps_the_earlier_output(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_audit(out, WITHOUT_CHARTS, HEADER)
    before = contents(out)
    uneven = Findings({}, tables=[FoundTable("t", "T", {"a": [1], "b": []})])
    with pytest.raises(ValueError, match="length"):
        write_audit(out, uneven, HEADER)
    assert contents(out) == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
