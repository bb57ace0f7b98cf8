"""Write a measured table to the page of results."""

from harness.core.errors import HarnessError
from tests.functional.machine import ROOT

PAGE = ROOT / "docs" / "explanation" / "results.md"


def replace_part(name: str, text: str) -> None:
    """Replace the text between the lines `<!-- name -->` and `<!-- /name -->` of PAGE.

    Raises HarnessError if the page lacks one of them.
    """
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, first, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        raise HarnessError(f"{PAGE}: no lines {begin.strip()} and {end}. Add them where the table belongs.")
    PAGE.write_text(f"{before}{begin}{text}\n{end}{after}", encoding="utf-8")
