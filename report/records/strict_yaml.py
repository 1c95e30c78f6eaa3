"""The plain part of YAML: mappings, lists, quoted and plain text, numbers as JSON writes them.

A plain scalar is null, true, false or a number only as JSON spells it; ``yes``, ``017``, ``1:30``,
``.inf`` or ``2001-01-01`` are text, so that a field that needs a number refuses them.  Keys are
always text.  Aliases, tags and keys that stand twice are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import yaml

_LARGEST: Final = 2**18
_TAG: Final = "tag:yaml.org,2002:"
#: As JSON writes them, and no larger than 64 bits hold.
_PLAIN: Final = {
    "null": r"(?:null)?",
    "bool": r"true|false",
    "int": r"-?(?:0|[1-9][0-9]{0,17})",
    "float": r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]+(?:[eE][-+]?[0-9]{1,2})?|[eE][-+]?[0-9]{1,2})",
}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class YamlError(ValueError):
    """Text that is not of the plain part of YAML: in which line from 1, and what was found."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line, self.what = line, what


def line_of(root: yaml.Node | None, steps: Iterable[str]) -> int:
    """The line in which the value at a path begins, or the last part of it that is there."""
    for step in steps:
        index = step.strip("[]")
        if isinstance(root, yaml.SequenceNode) and index.isdigit():
            root = root.value[int(index)]
        elif isinstance(root, yaml.MappingNode):
            root = next((value for key, value in root.value if key.value == step), root)
        else:
            break
    return root.start_mark.line + 1 if root else 1


def parse_yaml(text: str) -> tuple[Any, yaml.Node | None]:
    """The content of ``text``, and its nodes for ``line_of``; raises ``YamlError``."""
    if len(text) > _LARGEST:
        raise YamlError(1, f"found {len(text):,} characters, more than {_LARGEST:,}")
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        return None if root is None else loader.construct_document(root), root
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlError(line, f"found the character U+{int(error.character):04X}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = error.problem or error.context or "cannot be read"
        raise YamlError(mark.line + 1 if mark else 1, what) from error
    except RecursionError:
        raise YamlError(1, "found brackets nested without end") from None
    except (ValueError, OverflowError) as error:  # of an escape
        raise YamlError(1, "found an escape out of range") from error


class _Loader(yaml.SafeLoader):
    """Refuses what lets a small file grow, run code or contradict itself."""

    yaml_implicit_resolvers: dict[Any, Any] = {  # noqa: RUF012 - as its parent has it
        None: [(_TAG + kind, re.compile(f"(?:{form})$")) for kind, form in _PLAIN.items()]
    }

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise _refused(event, f"found the alias *{event.anchor}; write the value itself")
        if tag := getattr(event, "tag", None):
            raise _refused(event, f"found the tag {tag}; write plain text or a number")
        if _SURROGATE.search(getattr(event, "value", "")):
            raise _refused(event, "found half of a character; write the whole one")
        node: yaml.Node | None = super().compose_node(parent, index)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or not key.value:
                raise _refused(key, "found a key that is no text")
            if key.value in found:
                raise _refused(key, f"found the key {key.value} twice")
            found[key.value] = self.construct_object(value, deep=True)
        return found


def _refused(place: Any, what: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=what, problem_mark=place.start_mark)
