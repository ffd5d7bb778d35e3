"""Errors in a file that a person wrote: file, line, field, problem. And YAML that remembers its lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bridge.errors import BridgeError

_STEP = re.compile(r"([^.\[\]]+)|\[([0-9]+)\]")


class BadInput(BridgeError):
    """``file`` is wrong, at ``line`` where one is known (from 1)."""

    def __init__(self, file: str, line: int | None, problem: str) -> None:
        super().__init__(f"{file}:{line}: {problem}" if line else f"{file}: {problem}")
        self.file = file
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One YAML document as plain values, with the tree that it came from."""

    file: str
    value: Any
    root: yaml.Node

    def error(self, path: str, problem: str) -> BadInput:
        """Return the error for the field at ``path`` (``spec.roles[0].gres``); a missing one has its parent's line."""
        return BadInput(self.file, self.line(path), f"{path}: {problem}")

    def line(self, path: str) -> int:
        """Return the line of the field at ``path``, or of the last part of it that there is."""
        node, line = self.root, self.root.start_mark.line
        for name, index in _STEP.findall(path):
            found = _below(node, name, index)
            if found is None:
                break
            node, line = found
        return int(line) + 1


def read_text(path: Path) -> str:
    """Return a file's text; BadInput when it cannot be read."""
    try:
        return path.read_text()
    except OSError as error:
        raise BadInput(str(path), None, str(error.strerror or error)) from error
    except UnicodeDecodeError as error:
        raise BadInput(str(path), None, f"is not UTF-8 text: {error.reason} at byte {error.start}") from error


def parse_yaml(file: str, text: str) -> list[Document]:
    """Return the documents of ``text``, empty ones left out; BadInput when it is no YAML."""
    loader = yaml.SafeLoader(text)
    documents: list[Document] = []
    try:
        while loader.check_node():
            root = loader.get_node()
            value = loader.construct_document(root)
            if root is not None and value is not None:
                documents.append(Document(file=file, value=value, root=root))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise BadInput(file, mark.line + 1 if mark else None, f"is not YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadInput(file, None, f"is not YAML: {error}") from error
    finally:
        loader.dispose()
    return documents


def _below(node: yaml.Node, name: str, index: str) -> tuple[yaml.Node, int] | None:
    if index and isinstance(node, yaml.SequenceNode) and int(index) < len(node.value):
        item = node.value[int(index)]
        return item, item.start_mark.line
    if name and isinstance(node, yaml.MappingNode):
        return next((((value, key.start_mark.line)) for key, value in node.value if key.value == name), None)
    return None
