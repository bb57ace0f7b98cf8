"""The reference of printed JSON: the keys of every object, from the classes and functions that make it.

A class declares its keys as fields, each with a type and a docstring. A function that builds a dict lists the keys in
its docstring, below `Keys:`, as `name (type): Meaning.`; a type can name the class or function that makes the object. A
line of names without types stands for attributes of the class that the function projects.
"""

import ast
import functools
import inspect
import re
import sys
import textwrap
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np
from pydantic import BaseModel

from tests.reference.api import escaped

Source = Any
"""A class or a function that makes an object."""
_TYPES: dict[str, Any] = {"string": str, "number": (int, float), "boolean": bool, "object": dict, "any": object}
_WORDS = {bool: "boolean", int: "number", float: "number", Any: "any", dict: "object", list: "any[]"}
_KEY = re.compile(r"( *)(\w+) \(([\w.\[\]?]+)\): (.*)")
_NAMES = re.compile(r" {4}[\w.]+(?:, [\w.]+)*,?")


class Type(NamedTuple):
    """A type in JSON, such as `string`, `number[]?`, `object[]`."""

    word: str
    maker: Source = None
    """The class or function that makes the objects."""
    more: "tuple[Key, ...]" = ()
    """Keys of the objects besides those of the maker."""
    choices: tuple[str, ...] = ()
    """The only strings."""

    @property
    def keys(self) -> "tuple[Key, ...]":
        return (() if self.maker is None else keys_of(self.maker)) + self.more


class Key(NamedTuple):
    """One key of an object."""

    name: str
    type: Type
    meaning: str


@functools.cache
def keys_of(maker: Source) -> tuple[Key, ...]:
    """Return the keys of the objects that a class or function makes."""
    if not inspect.isclass(maker):
        return tuple(_listed_keys(maker, _projected_class(maker)))
    method = getattr(maker, "as_json", None)
    if method is not None and _lines(method):
        return tuple(_listed_keys(method, maker))
    return tuple(key for key in _attributes(maker).values() if not isinstance(vars(maker).get(key.name), property))


def _lines(function: Callable[..., Any]) -> list[str]:
    """Return the lines of a docstring that list keys."""
    return (inspect.getdoc(function) or "").partition("Keys:\n")[2].partition("\n\n")[0].splitlines()


def _listed_keys(function: Callable[..., Any], projected: type | None) -> Iterator[Key]:
    """Yield the keys in the docstring of a function. Lines with a larger indentation are keys of the objects above."""
    levels: list[list[Key]] = [[]]
    for line in _lines(function):
        if found := _KEY.fullmatch(line):
            indentation, name, type_, meaning = found.groups()
            _close(levels, len(indentation) // 4)
            levels.append([])
            levels[-2].append(Key(name, _type_in_words(type_, function), meaning))
        elif _NAMES.fullmatch(line):
            _close(levels, 1)
            levels[0] += [_attribute(name, function, projected) for name in re.findall(r"[\w.]+", line)]
        else:
            levels[-2][-1] = levels[-2][-1]._replace(meaning=f"{levels[-2][-1].meaning} {line.strip()}")
    _close(levels, 1)
    yield from levels[0]


def _close(levels: list[list[Key]], depth: int) -> None:
    """Leave `depth` open lists of keys. Those that are closed are keys of the last object of the list above."""
    while len(levels) > depth:
        if more := levels.pop():
            last = levels[-1].pop()
            levels[-1].append(last._replace(type=last.type._replace(more=tuple(more))))


def _attribute(name: str, function: Callable[..., Any], projected: type | None) -> Key:
    """Return a key by its name: of the projected class, or of another class or function such as `Round.clusters`."""
    maker, _, name = name.rpartition(".")
    source = _resolved(maker, function) if maker else projected
    assert source is not None, f"{function.__qualname__}: no class has the key {name}"
    return (_attributes(source) if inspect.isclass(source) else {key.name: key for key in keys_of(source)})[name]


def _projected_class(function: Callable[..., Any]) -> type | None:
    """Return the class of the first parameter of a function."""
    first = next(iter(inspect.signature(function, eval_str=True).parameters.values()), None)
    return first.annotation if first is not None and inspect.isclass(first.annotation) else None


def _resolved(name: str, function: Callable[..., Any]) -> Source:
    """Return a class or function of the module of `function`, or the only class of this name in the package."""
    names = vars(sys.modules[function.__module__])
    if name in names:
        return names[name]
    modules = [module for path, module in sys.modules.items() if path.startswith("harness.")]
    candidates = {vars(module)[name] for module in modules if inspect.isclass(vars(module).get(name))}
    assert len(candidates) == 1, f"{function.__module__}.{function.__qualname__}: {name} is {candidates or 'unknown'}"
    return candidates.pop()


def _type_in_words(text: str, function: Callable[..., Any]) -> Type:
    base = text.rstrip("[]?")
    if base in _TYPES:
        return Type(text)
    source = _resolved(base, function)
    inner = _type(source) if inspect.isclass(source) else Type("object", source)
    return inner._replace(word=inner.word + text.removeprefix(base))


def _attributes(described: type) -> dict[str, Key]:
    """Return the fields and the properties of a class, with their types and docstrings."""
    found: dict[str, Key] = {}
    for parent in reversed(described.__mro__):
        if parent.__module__.startswith("harness."):
            hints = get_type_hints(parent, include_extras=True)
            for name, meaning in _documented(parent):
                function = getattr(vars(parent).get(name), "fget", None)
                hint = get_type_hints(function)["return"] if function else hints[name]
                found[name] = Key(name, _type(hint), meaning or _description(described, name))
    return found


def _documented(described: type) -> Iterator[tuple[str, str]]:
    """Yield the name and the docstring of each field and property that a class itself declares."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(described))).body
    assert isinstance(node, ast.ClassDef)
    for child, following in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
            is_constant = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            yield child.target.id, inspect.cleandoc(following.value.value) if is_constant else ""  # type: ignore[union-attr]
        elif isinstance(child, ast.FunctionDef) and "property" in map(ast.unparse, child.decorator_list):
            yield child.name, ast.get_docstring(child) or ""


def _description(described: type, name: str) -> str:
    field = described.model_fields.get(name) if issubclass(described, BaseModel) else None
    return str(field.description or "") if field is not None else ""


def _type(hint: Any) -> Type:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        maker = next(filter(inspect.isclass, arguments[1:]), None)
        return _type(arguments[0]) if maker is None else _type(arguments[0])._replace(maker=maker)
    if origin in (Union, types.UnionType):
        members = list(dict.fromkeys(_type(member) for member in arguments if member is not type(None)))
        word = members[0].word if len({member.word for member in members}) == 1 else "any"
        return members[0]._replace(word=word + "?" * (type(None) in arguments))
    if origin is Literal:
        return Type("string", choices=tuple(map(str, arguments)))
    if origin is np.ndarray:
        return Type("number[]")
    if inspect.isclass(origin) and issubclass(origin, Mapping):
        return Type("object")
    if inspect.isclass(origin) and issubclass(origin, Iterable):
        items = list(dict.fromkeys(_type(item) for item in arguments if item is not ...))
        return items[0]._replace(word=f"{items[0].word}[]") if len(items) == 1 else Type("any[]")
    if hint in _WORDS:
        return Type(_WORDS[hint])
    if issubclass(hint, Enum):
        return Type("string", choices=tuple(str(member.value) for member in hint))
    if issubclass(hint, str | Path | datetime):
        return Type("string")
    assert hint.__module__.startswith("harness."), hint
    return Type("object", hint)


class Section(NamedTuple):
    """An object that a command prints, with the keys of all makers. has_more: further keys are not listed."""

    heading: str
    makers: tuple[Source, ...]
    note: str = ""
    has_more: bool = False

    @property
    def keys(self) -> tuple[Key, ...]:
        """Its keys. A maker can be a key itself."""
        return tuple(key for maker in self.makers for key in ((maker,) if isinstance(maker, Key) else keys_of(maker)))

    @property
    def link(self) -> str:
        """A link to the section on its page."""
        return f"[{self.heading}](#{re.sub(r'[^a-z0-9-]', '', self.heading.lower().replace(' ', '-'))})"


def tables_of(contents: Sequence[Section]) -> Iterator[str]:
    """Yield the sections with their tables of keys: a row for each key, and rows for the keys of objects below it."""
    links = {section.makers[0]: section.link for section in contents if len(section.makers) == 1}
    for section in contents:
        yield f"## {section.heading}"
        yield from filter(None, (section.note,))
        parts = [part for part in contents if set(part.makers) < set(section.makers)]
        part = max(parts, key=lambda part: len(part.makers), default=None)
        if part is not None:
            yield f"All keys of {part.link}, and:"
            section = section._replace(makers=tuple(maker for maker in section.makers if maker not in part.makers))
        places: dict[Source, str] = dict(links)
        rows = [row for key in section.keys for row in _rows(key, "", places)]
        yield "\n".join(["| key | type | meaning |", "|---|---|---|", *rows])


def _rows(key: Key, path: str, places: dict[Source, str]) -> Iterator[str]:
    """Yield a row for a key and rows for the keys below it, unless they are at another of the `places`."""
    type_, name = key.type, f"{path}{key.name}"
    texts = [escaped(" ".join(key.meaning.split()))]
    if type_.choices and not all(f"`{choice}`" in key.meaning for choice in type_.choices):
        texts.append(f"One of {', '.join(f'`{choice}`' for choice in type_.choices)}.")
    inside = type_.keys
    if type_.maker in places:
        texts.append(f"Keys: {places[type_.maker]}.")
        inside = type_.more
    elif type_.maker is not None:
        places[type_.maker] = f"those of `{name}`"
    yield f"| `{name}` | {type_.word} | {' '.join(filter(None, texts))} |"
    for inner in inside:
        yield from _rows(inner, f"{name}{'[]' * type_.word.count('[]')}.", places)


def faults_in(printed: Mapping[str, Any], keys: Sequence[Key], *, has_more: bool = False) -> list[str]:
    """Return what is wrong with a printed object: missing and unlisted keys, and values of another type."""
    names = {key.name for key in keys}
    wrong = [f"{name} is missing" for name in sorted(names - set(printed))]
    wrong += [f"{name} is not listed" for name in sorted(set(printed) - names) if not has_more]
    for key in keys:
        if key.name in printed:
            wrong += [f"{key.name}: {fault}" for fault in _faults(printed[key.name], key.type)]
    return wrong


def _faults(value: Any, type_: Type) -> list[str]:
    word = type_.word
    if word.endswith("?"):
        return [] if value is None else _faults(value, type_._replace(word=word[:-1]))
    if word.endswith("[]") and isinstance(value, list):
        return [fault for item in value for fault in _faults(item, type_._replace(word=word[:-2]))]
    is_infinite = word == "number" and value in ("Infinity", "-Infinity")
    is_flag = word == "number" and isinstance(value, bool)
    if is_flag or not (is_infinite or isinstance(value, _TYPES.get(word, ()))):
        return [f"{value!r} is not of type {word}"]
    if type_.choices and value not in type_.choices:
        return [f"{value!r} is not in {type_.choices}"]
    return faults_in(value, type_.keys) if type_.keys else []
