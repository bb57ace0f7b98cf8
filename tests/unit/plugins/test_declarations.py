"""Parsing in several threads at once, which can fail with SystemError in Python before 3.11.7."""

import ast
import time
from concurrent.futures import ThreadPoolExecutor

from harness.plugins.declarations import syntax_tree

SOURCES = [("(" * depth + "1" + ",)" * depth + "\n") * 200 for depth in (3, 20, 40, 60)]


class Yielding:
    """An object in a reference cycle. Its finalizer sleeps, so that another thread runs during garbage collection."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        time.sleep(0.0001)


def tree_with_garbage(source: str) -> str:
    for _ in range(20):
        Yielding()
    return ast.dump(syntax_tree(source))


def test_each_thread_gets_the_tree_of_its_source() -> None:
    with ThreadPoolExecutor(8) as threads:
        trees = list(threads.map(tree_with_garbage, SOURCES * 10))
    assert trees == [ast.dump(ast.parse(source)) for source in SOURCES] * 10
