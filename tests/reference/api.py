"""The reference of classes and functions, from their source: signatures as they are written there, and docstrings."""

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import is_dataclass
from types import ModuleType
from typing import Any

from pydantic import BaseModel

_LONGEST_SIGNATURE = 100


def entries(requests: str) -> Iterator[str]:
    """Yield the entries of names such as `harness.Run(*) harness.Policy harness.Guesses(part)`.

    The parentheses list the members of a class or of a module; `*` stands for all that are public and have a docstring.
    """
    for path, members in re.findall(r"([\w.]+)(?:\(([^)]*)\))?", requests):
        described = _resolved(path)
        wanted = None if members == "*" else set(re.findall(r"\w+", members))
        if isinstance(described, ModuleType):
            yield from _list_names(inspect.getdoc(described) or "", set())
            for node in _members(ast.parse(inspect.getsource(described)), wanted):
                yield from _entry("###", f"{path}.{node.name}", node, getattr(described, node.name))
            continue
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(described))).body
        assert isinstance(node, ast.ClassDef | ast.FunctionDef)
        yield from _entry("###", path, node, described)
        for member in _members(node, wanted) if isinstance(node, ast.ClassDef) else ():
            yield from _entry("####", member.name, member, getattr(described, member.name))


def _resolved(path: str) -> Any:
    """Return the module, class or function with a dotted name."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        parent, _, name = path.rpartition(".")
        return getattr(_resolved(parent), name)


def _members(node: ast.Module | ast.ClassDef, wanted: set[str] | None) -> Iterator[ast.FunctionDef]:
    for child in node.body:
        if isinstance(child, ast.FunctionDef) and not {"overload", "setter"} & _decorators(child):
            is_public = not child.name.startswith("_") and ast.get_docstring(child) is not None
            if child.name in wanted if wanted is not None else is_public:
                yield child


def _decorators(node: ast.FunctionDef) -> set[str]:
    return {re.split(r"\W", ast.unparse(one))[-1] for one in node.decorator_list}


def _entry(level: str, name: str, node: ast.ClassDef | ast.FunctionDef, described: Any) -> Iterator[str]:
    yield f"{level} {name}"
    yield f"```python\n{_signature(name.rpartition('.')[2], node, described)}\n```"
    target = described.fget if isinstance(described, property) else described
    yield from _list_names(inspect.getdoc(target) or "", _explained_names(target))


def _signature(name: str, node: ast.ClassDef | ast.FunctionDef, described: Any) -> str:
    if isinstance(node, ast.ClassDef):
        return f"class {name}{_of_class(node, described)}"
    returned = _annotation(node.returns)
    if _decorators(node) & {"property", "cached_property"}:
        return f"{name}: {returned}"
    return _on_lines(f"def {name}", [*_arguments(node), *_further_arguments(node, described)], f" -> {returned}")


def _of_class(node: ast.ClassDef, described: type) -> str:
    """Return what a call of the class takes; nothing for a class that nobody creates by a call."""
    functions = {child.name: child for child in node.body if isinstance(child, ast.FunctionDef)}
    if "__init__" in functions:
        return _on_lines("", _arguments(functions["__init__"]), "")
    if not is_dataclass(described) and not (issubclass(described, BaseModel) and described.model_fields):
        return ""
    types = {_name(child.target): child.annotation for child in node.body if isinstance(child, ast.AnnAssign)}
    fields = inspect.signature(described).parameters.values()
    defaults = ["" if one.default is one.empty else f" = {one.default!r}" for one in fields]
    return _on_lines(
        "", [f"{one.name}: {_annotation(types[one.name])}{end}" for one, end in zip(fields, defaults, strict=True)], ""
    )


def _name(target: ast.expr) -> str:
    return target.id if isinstance(target, ast.Name) else ""


def _annotation(node: ast.expr | None) -> str:
    """Return a type as the source writes it, without the quotes of a name that is defined later."""
    return "None" if node is None else re.sub(r"'([\w.\[\], |]+)'", r"\1", ast.unparse(node))


def _arguments(node: ast.FunctionDef) -> list[str]:
    """Return the arguments without `self`, each with its type and its default."""
    given = node.args
    places = [*given.posonlyargs, *given.args]
    defaults = [*[None] * (len(places) - len(given.defaults)), *given.defaults]
    arguments = [_argument(*pair) for pair in zip(places, defaults, strict=True)]
    if places and places[0].arg in ("self", "cls"):
        del arguments[0]
    arguments += [f"*{_argument(given.vararg)}"] if given.vararg else ["*"] if given.kwonlyargs else []
    arguments += [_argument(*pair) for pair in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    return arguments


def _argument(argument: ast.arg, default: ast.expr | None = None) -> str:
    type_ = f": {_annotation(argument.annotation)}" if argument.annotation else ""
    return argument.arg + type_ + (f" = {ast.unparse(default)}" if default else "")


def _further_arguments(node: ast.FunctionDef, described: Any) -> Iterator[str]:
    """Yield the arguments that a function with `**options` describes in its signature."""
    if node.args.kwarg is not None:
        written = {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}
        for name, parameter in inspect.signature(described).parameters.items():
            if name not in written:
                yield re.sub(r"\b(?:typing|pathlib)\.", "", str(parameter))


def _on_lines(begin: str, arguments: list[str], end: str) -> str:
    short = f"{begin}({', '.join(arguments)}){end}"
    if len(short) <= _LONGEST_SIGNATURE:
        return short
    return "\n".join([f"{begin}(", *(f"    {one}," for one in arguments), f"){end}"])


def _list_names(docstring: str, names: set[str]) -> Iterator[str]:
    """Yield paragraphs, with a list of the sentences that explain names, such as `row: [rows] int64. count: ...`."""
    one = "|".join(sorted(names, key=len, reverse=True)) or r"(?!)"
    begin = re.compile(rf"(?:^|(?<=[.)] ))((?:{one})(?:, (?:{one}))*): ")
    for paragraph in docstring.split("\n\n"):
        first, *rest = begin.split(" ".join(paragraph.split()))
        if first.strip():
            yield escaped(first.strip())
        explained = [_item(*pair) for pair in zip(rest[::2], rest[1::2], strict=True)]
        if explained:
            yield "\n".join(explained)


def _item(names: str, text: str) -> str:
    # A sentence about the whole can follow the last explanation.
    text, mark, rest = text.strip().partition(" Raises HarnessError")
    item = f"- {', '.join(f'`{name}`' for name in names.split(', '))}: {escaped(text)}"
    return f"{item}\n\nRaises HarnessError{escaped(rest)}" if mark else item


def escaped(text: str) -> str:
    """Return a docstring or help text as Markdown: names of code stay code, and brackets are no links."""
    parts = re.split(r"(`[^`]+`)", text)
    special = re.compile(r"(\*|<(?=[A-Za-z/!])|(?<!\w)_(?=\w)|\](?=[(\[]))")
    return "".join(part if part.startswith("`") else special.sub(r"\\\1", part) for part in parts)


def _explained_names(described: Any) -> set[str]:
    """Return the names that a docstring can explain: parameters of a function, attributes of a class."""
    if inspect.isclass(described):
        fields = {*getattr(described, "__annotations__", {}), *vars(described)}
        own = described.__init__ if "__init__" in vars(described) else None
        assigned = set() if own is None else {*own.__code__.co_names, *inspect.signature(own).parameters}
        return {name for name in fields | assigned if not name.startswith("_")} - {"self"}
    return set(inspect.signature(described).parameters) - {"self"}
