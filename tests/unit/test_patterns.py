"""Regular expressions that meet a stranger's text take time in proportion to its length, by their structure."""

import ast
import re
import re._constants as codes  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import harness

PACKAGE = Path(harness.__file__).parent
FUNCTIONS = {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
ANCHORED = {"match", "fullmatch"}
ALPHABET = frozenset(map(chr, [*range(256), 0x2019, 0x3042]))
CATEGORIES = {
    codes.CATEGORY_DIGIT: str.isdigit,
    codes.CATEGORY_SPACE: str.isspace,
    codes.CATEGORY_WORD: lambda character: character.isalnum() or character == "_",
}
MAX_SHAPES = 4_000

OWN_TEXT = "it reads text that the harness wrote or ships"
SHORT = "the text was cut to a few hundred characters"
SUCCEEDS = "where the first alternative fails, the second one matches the same characters"
BEFORE = "another pattern has matched the whole text before"
FIXED = "it is made of alternatives of fixed text while the harness runs"
EXCEPTIONS = {
    "audits/endpoint/params.py _pattern": FIXED,
    "cli/typer_classes.py _RANGE": OWN_TEXT,
    "core/rounds.py _CACHED_MODEL": SHORT,
    "core/submission_reader.py:84": FIXED,
    "core/times.py _PART": BEFORE,
    "figures/sheet.py _COMMENT": OWN_TEXT,
    "submit/frozen_code.py _LINE": SUCCEEDS,
    "submit/html_page.py _HEADING": OWN_TEXT,
    "submit/html_page.py _REMOVED": OWN_TEXT,
}
"""Places of patterns that are not linear, or that are built while the harness runs, and why they do no harm."""


class Atom(NamedTuple):
    """One character of `characters`, at least `least` times; without a limit if it repeats."""

    characters: frozenset[str]
    least: int
    repeats: bool
    is_optional: bool = False


class Shape(NamedTuple):
    """One way through a pattern: its atoms, and whether it can match only at the start of the text or of a line."""

    atoms: tuple[Atom, ...]
    is_anchored: bool = False


class Pattern(NamedTuple):
    """A pattern in the source, its flags, and the functions that are called with it."""

    place: str
    text: str | bytes | None
    flags: int
    functions: frozenset[str]


def faults(pattern: str | bytes, flags: int = 0, functions: Iterable[str] = ("search",)) -> set[str]:
    """Return why the time for a text may grow faster than its length."""
    found: set[str] = set()
    tree = parser.parse(pattern, flags)
    is_search = not ANCHORED.issuperset(functions)
    for shape in _shapes(list(tree), found):
        atoms = shape.atoms
        repeated = [place for place, atom in enumerate(atoms) if atom.repeats]
        for first, second in combinations(repeated, 2):
            a, b = atoms[first].characters, atoms[second].characters
            between = atoms[first + 1 : second]
            if a & b and not any(atom.least and not atom.characters & a for atom in between):
                found.add("two repeats may divide the same characters in many ways")
        for place in repeated if is_search and not shape.is_anchored else ():
            inside = all(atom.characters & atoms[place].characters or not atom.least for atom in atoms[:place])
            # If a match may end before what follows, it takes the characters of the repeat with it.
            is_optional = atoms[place].is_optional
            if inside and any(atom.least and (is_optional or not atom.is_optional) for atom in atoms[place + 1 :]):
                found.add("a search begins again at every character of a repeat")
    return found


def _shapes(nodes: list[Any], found: set[str]) -> list[Shape]:
    """Return the ways through a sequence of nodes. Faults inside repeated groups are added to `found`."""
    parts = [_ways(operator, value, found) for operator, value in nodes]
    assert reduce(lambda total, ways: total * len(ways), parts, 1) < MAX_SHAPES, "a pattern with too many ways"
    return [
        Shape(
            tuple(atom for shape in way for atom in shape.atoms),
            any(shape.is_anchored and not any(before.atoms for before in way[:n]) for n, shape in enumerate(way)),
        )
        for way in product(*parts)
    ]


def _ways(operator: Any, value: Any, found: set[str]) -> list[Shape]:
    if (characters := _characters(operator, value)) is not None:
        return [Shape((Atom(characters, 1, repeats=False),))]
    if operator is codes.AT:
        starts = value in (codes.AT_BEGINNING, codes.AT_BEGINNING_STRING)
        # The end of a text is a condition that may fail, as a character that must follow.
        ends = (Atom(frozenset(), 1, repeats=False),) if value in (codes.AT_END, codes.AT_END_STRING) else ()
        return [Shape(ends, starts)]
    if operator is codes.ASSERT_NOT or operator is codes.ASSERT:
        direction, inner = value
        ways = _shapes(list(inner), found)
        if direction > 0:
            return [Shape((Atom(frozenset(), 1, repeats=False),))]
        # The character before a match counts as its first one, because a search cannot begin just anywhere.
        before = ways[0].atoms[-1].characters if len(ways) == 1 and ways[0].atoms else ALPHABET
        allowed = ALPHABET - before if operator is codes.ASSERT_NOT else before
        return [Shape((Atom(allowed, 1, repeats=False),))]
    if operator is codes.SUBPATTERN:
        return _shapes(list(value[-1]), found)
    if operator is codes.BRANCH:
        return [shape for alternative in value[1] for shape in _shapes(list(alternative), found)]
    if operator in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        return _repeated(*value, found)
    raise AssertionError(f"the test does not know {operator} of a pattern. Extend it.")


def _repeated(least: int, most: int, inner: Any, found: set[str]) -> list[Shape]:
    bodies = _shapes(list(inner), found)
    if least == 0:
        bodies = [Shape(tuple(atom._replace(is_optional=True) for atom in body.atoms)) for body in bodies]
    if most is not codes.MAXREPEAT and int(most) < 1_000:
        return [*([Shape(())] if least == 0 else []), *bodies]
    if any(atom.repeats for body in bodies for atom in body.atoms):
        twice = [Shape(one.atoms + other.atoms) for one, other in product(bodies, bodies)]
        return [*([Shape(())] if least == 0 else []), *bodies, *twice]
    firsts = [next((atom.characters for atom in body.atoms if atom.characters), frozenset()) for body in bodies]
    if any(first & second for first, second in combinations(firsts, 2)):
        found.add("alternatives of a repeated group begin with the same character")
    # A repeated group of fixed length repeats its first character, where it begins.
    return [
        Shape((body.atoms[0]._replace(least=least, repeats=True), *body.atoms[1:])) for body in bodies if body.atoms
    ]


def _characters(operator: Any, value: Any) -> frozenset[str] | None:
    """Return the characters of a node that matches one character, None for any other node."""
    if operator is codes.ANY:
        return ALPHABET - {"\n"}
    if operator is codes.LITERAL:
        return frozenset(chr(value))
    if operator is codes.NOT_LITERAL:
        return ALPHABET - {chr(value)}
    if operator is not codes.IN:
        return None
    chosen: set[str] = set()
    for kind, item in value:
        if kind is codes.LITERAL:
            chosen.add(chr(item))
        elif kind is codes.RANGE:
            chosen |= {character for character in ALPHABET if item[0] <= ord(character) <= item[1]} | {chr(item[0])}
        elif kind is codes.CATEGORY:
            is_negated = str(item).startswith("CATEGORY_NOT_")
            positive = getattr(codes, str(item).replace("_NOT_", "_"))
            chosen |= {character for character in ALPHABET if CATEGORIES[positive](character) != is_negated}
    return ALPHABET - chosen if value[0][0] is codes.NEGATE else frozenset(chosen)


def _patterns(file: Path) -> Iterator[Pattern]:
    tree = ast.parse(file.read_text())
    used: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in FUNCTIONS:
            used.setdefault(ast.unparse(node.value).rpartition(".")[2], set()).add(node.attr)
    assignments = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    names = {id(node.value): ast.unparse(node.targets[0]).rpartition(".")[2] for node in assignments}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not ast.unparse(node.func).startswith("re."):
            continue
        function = ast.unparse(node.func).removeprefix("re.")
        if function not in FUNCTIONS:
            continue
        name = names.get(id(node), "")
        flags = [getattr(re, word) for word in re.findall(r"re\.([A-Z]+)", ast.unparse(node))]
        # A pattern that another module uses, or that has no name, may be searched for.
        functions = {function} if function != "compile" else used.get(name, {"search"})
        line = "" if name else f":{node.lineno}"
        yield Pattern(
            f"{file.relative_to(PACKAGE)}{line} {name}".strip(), _text(node.args[0]), sum(flags), frozenset(functions)
        )


def _text(node: ast.expr) -> str | bytes | None:
    """Return the text of a pattern, with a letter in place of what is inserted while the harness runs."""
    if isinstance(node, ast.Constant):
        return node.value  # type: ignore[return-value]
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "q" for part in node.values)
    return None


def _all_patterns() -> list[Pattern]:
    return [pattern for file in sorted(PACKAGE.rglob("*.py")) for pattern in _patterns(file)]


def test_patterns_are_linear() -> None:
    patterns = _all_patterns()
    assert len(patterns) > 60
    found = {
        pattern.place: faults(pattern.text, pattern.flags, pattern.functions) if pattern.text is not None else {"built"}
        for pattern in patterns
    }
    bad = {place: reasons for place, reasons in found.items() if reasons and place not in EXCEPTIONS}
    assert not bad, f"{bad}: rewrite the pattern, or add its place to EXCEPTIONS with the reason why it does no harm."
    assert not (unused := [place for place in EXCEPTIONS if not found.get(place)]), f"{unused}: remove the exceptions."


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"(a+)+b", r"(a|a)*b", r"(?:a|ab)*c", r"(a*)*", r"(\w+\s?)*x", r"([ab]+,?)+$"),
        *(r"^a*a*b", r"^ *;? *x", r"^\d+\.?\d+x", r"^(.*)-(.*)-x", r"^[^=]*=\s*.*;x"),
        *(r"\s+$", r"\s+[.,]", r"[^@]*@", r"<!--.*?-->", r"a\w*b", r"\w+(?=x)", r"(?:[^.]+\.)*", r"(?<=a)\w+@"),
    ],
)
def test_patterns_that_are_not_linear_are_found(pattern: str) -> None:
    assert faults(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"\S+", r"^\s*#", r"a{2,3}b", r"^(?:[^.]+\.)*", r"^(?:\d+(?:\.\d+)?[dhms])+$", r'^"(?:[^"\\]|\\.)*"$'),
        *(r"\w+(?:['-]\w+)*", r"^[^#\n]*#x", r"^\w+/\w+$", r"[^\x00-\x1f]{1,255}", r"x--\d+", r"-\w+", r"(?<!\w)\w+@"),
    ],
)
def test_linear_patterns_are_not_reported(pattern: str) -> None:
    assert not faults(pattern)
