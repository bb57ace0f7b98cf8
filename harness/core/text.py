"""Turn values into text for people: safe model text, shortened text, numbers, ordinals, aligned columns, names.

Every report, table and screen formats numbers with the functions of this module:

- A score is recall, precision or another share that is compared row by row. `format_score` gives it three decimals, so
  that a column of scores aligns.
- A share inside a sentence is a percentage (`format_percent`).
- Every other measured number has 3 significant digits (`format_number`), counts keep all their digits, and nothing is
  written in scientific notation: what is too small reads `< 0.0001`.
"""

import json
import math
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

_MARKS = {"\n": "⏎", "\t": "⇥", "\r": "␍"}
_REPLACEMENT = "\ufffd"
# These characters count as printable, but they are drawn as nothing or change the width of the character before them.
_VARIATION_SELECTORS = (range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | {
    chr(code) for codes in _VARIATION_SELECTORS for code in codes
}
_MAX_COMBINING = 3
_DIGITS, _MAX_DECIMALS = 3, 4
NO_VALUE = "–"
_USUAL_FORMS = str.maketrans("‘’ʼ“”", "'''\"\"", "\N{SOFT HYPHEN}")


def sanitize(text: str) -> str:
    """Return `text` with everything that could steer a terminal replaced by a visible mark or U+FFFD.

    Replaced are control, bidirectional and zero-width characters, printable characters that are drawn as nothing,
    and every combining mark after the third on one character.
    """
    if text.isascii() and text.isprintable():
        return text
    characters, combining = [], 0
    for character in text:
        combining = combining + 1 if unicodedata.category(character).startswith("M") else 0
        if not character.isprintable():
            characters.append(_MARKS.get(character, _REPLACEMENT))
        elif character in _INVISIBLE or combining > _MAX_COMBINING:
            characters.append(_REPLACEMENT)
        else:
            characters.append(character)
    return "".join(characters)


def sanitize_name(name: str) -> str:
    """Return the name of a file safe to print, so that different names stay different: escaped if it is unsafe."""
    return name if sanitize(name) == name else ascii(name)[1:-1]


def is_storable(text: str) -> bool:
    """Return True if every program can store `text`: it has no NUL, and no half of a surrogate pair."""
    return "\0" not in text and text == text.encode(errors="replace").decode()


def composed(text: str) -> str:
    """Return `text` in Unicode normal form C (NFC), in which texts of unknown origin are compared."""
    return unicodedata.normalize("NFC", text)


def compatible(text: str) -> str:
    """Return `text` in Unicode normal form KC (NFKC) without soft hyphens, with straight quotation marks.

    Ligatures, full-width letters and the like become usual letters. A served model or its tokenizer may do the same.
    """
    return unicodedata.normalize("NFKC", text.translate(_USUAL_FORMS))


def shorten(text: str, limit: int = 60) -> str:
    """Return `text` cut to at most `limit` characters, with an ellipsis where it was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…" if limit > 0 else ""


def shorten_middle(text: str, limit: int) -> str:
    """Return `text` cut to at most `limit` characters in its middle, because paths differ in their last part."""
    if len(text) <= limit:
        return text
    last = max(0, limit // 2 - 1)
    return f"{text[: limit // 2]}…{text[len(text) - last :]}" if limit > 0 else ""


def pluralize(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 row` or `2,000 rows`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def list_first(names: Sequence[str], limit: int, *, separator: str = ", ") -> str:
    """Return the first `limit` names as one text, and how many more there are: `a, b and 7 more`."""
    rest = len(names) - limit
    return separator.join(names[:limit]) + (f" and {rest:,} more" if rest > 0 else "")


def ordinal(number: int) -> str:
    """Return a positive number as `1st`, `2nd`, `3rd`, `4th`."""
    is_teen = number % 100 in (11, 12, 13)
    return f"{number:,}{'th' if is_teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def plain_value(value: Any) -> Any:
    """Convert a cell to text, bool, int, float, None, or a list of these. NaN, which was not measured, becomes None.

    An infinite number was measured, such as the log-probability of an impossible sequence, so it stays.
    """
    if hasattr(value, "tolist"):  # of numpy, which `harness --help` does not load
        value = value.tolist()
    if isinstance(value, float) and value != value:
        return None
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    return value


def json_value(value: Any) -> Any:
    """Convert a value for JSON: as `plain_value`, also in mappings, with infinity as "Infinity" or "-Infinity"."""
    if isinstance(value, Mapping):
        return {key: json_value(item) for key, item in value.items()}
    value = plain_value(value)
    if isinstance(value, list):
        return [json_value(item) for item in value]
    return json.dumps(value) if isinstance(value, float) and math.isinf(value) else value


def format_number(value: float | None) -> str:
    """Return a number with 3 significant digits: `0.369`, `12.3`, `1,235`, `< 0.0001`; a dash for None and NaN.

    An int keeps all its digits. A float has at most 4 decimals, and none from 100 on.
    """
    if value is None or math.isnan(value):
        return NO_VALUE
    if isinstance(value, int):
        return f"{value:,}"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    smallest = 10.0**-_MAX_DECIMALS
    if 0 < abs(value) < smallest:
        return f"{'< ' if value > 0 else '> -'}{smallest:.{_MAX_DECIMALS}f}"
    # Rounding decides how many digits stand before the point: 99.96 is 100.
    exponent = int(f"{value:.{_DIGITS - 1}e}".partition("e")[2])
    return f"{value:,.{min(_MAX_DECIMALS, max(0, _DIGITS - 1 - exponent))}f}" if value else "0"


def format_score(value: float | None, *, is_signed: bool = False) -> str:
    """Return recall, precision or another score with three decimals, a dash for None and NaN; `is_signed`: `+0.028`."""
    return NO_VALUE if value is None or math.isnan(value) else f"{value:{'+' if is_signed else ''}.3f}"


def format_interval(low: float, high: float, *, is_signed: bool = False) -> str:
    """Return the ends of the interval of a score: `[0.338, 0.400]`."""
    return f"[{format_score(low, is_signed=is_signed)}, {format_score(high, is_signed=is_signed)}]"


def format_percent(share: float | None) -> str:
    """Return a share as a percentage with 3 significant digits: `36.9 %`, `100 %`, `< 0.01 %`."""
    if share is None or math.isnan(share):
        return NO_VALUE
    return "< 0.01 %" if 0 < share < 1e-4 else f"{format_number(100 * float(share))} %"


def format_bound(share: float) -> str:
    """Return a round share as a short percentage: `0.1 %`, `50 %`."""
    return f"{100 * share:g} %"


def format_p_value(p: float) -> str:
    """Return a p-value with its name: `p = 0.0123`, `p < 0.0001`."""
    number = format_number(float(p))
    return f"p {number}" if number.startswith("<") else f"p = {number}"


def align_columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of equally many cells as lines of text. Each column is as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def display_name(attack: str, *, is_control: bool) -> str:
    """Return the name of an attack as people see it. A control is marked because it may not be submitted."""
    return f"{attack} (control)" if is_control else attack
