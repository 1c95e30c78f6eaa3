"""The Jinja that papers are written for: it prints what a study found, and does nothing else.

A template comes with a contribution, and must be no program that reads files, runs commands or
never ends: it reaches no attribute with an underscore, calls macros and what looks into a mapping
alone, and may go through a limited number of steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.runtime import LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range

from report.paper.tags import Page, PaperTags
from report.paper.values import Value
from report.text.escape import markdown

#: What a template may call of a mapping.
_OF_MAPPINGS: Final = ("get", "items", "keys", "values")
#: Names of Jinja that fill memory or keep a state.
_LEFT_OUT: Final = ("cycler", "dict", "joiner", "lipsum", "namespace")
#: Filters whose results may be far larger than what they are given.
_GROWING: Final = ("batch", "center", "format", "indent", "slice", "tojson")
#: Turns of loops, calls and included files of one paper; the papers need about a hundred.
_STEPS: Final = 100_000
#: Macros and files within each other.
_DEEPEST: Final = 20
#: Names that are listed where none is similar.
_LISTED: Final = 5


class Unknown(jinja2.StrictUndefined):
    """A name that is not there; its message says which similar ones are."""

    @property
    def _undefined_message(self) -> str:
        name, of = str(self._undefined_name), self._undefined_obj
        if self._undefined_hint or of is jinja2.utils.missing:
            return str(super()._undefined_message)
        if isinstance(of, Mapping):
            known = [key for key in of if isinstance(key, str)]
        else:
            known = [key for key in dir(of) if not key.startswith("_")]
        near = get_close_matches(name, known, n=3, cutoff=0.5)
        others = ", ".join(near or sorted(known)[:_LISTED])
        if not others:
            return f"{name} is unknown"
        return f"{name} is unknown; {'near it' if near else 'some that are known'}: {others}"


class _Code(CodeGenerator):
    """Counts the turns of every loop."""

    def visit_For(self, node: nodes.For, frame: Frame) -> None:  # noqa: N802 (as Jinja names it)
        counted = nodes.EnvironmentAttribute("counted")
        node.iter = nodes.Call(counted, [node.iter], [], None, None)
        super().visit_For(node, frame)


class PaperEnvironment(ImmutableSandboxedEnvironment):
    """Prints from ``page``, by the tags of ``report.paper.tags``."""

    page: Page
    code_generator_class = _Code
    intercepted_binops = frozenset(("*", "**", "%"))
    _steps = 0
    _depth = 0

    def is_safe_callable(self, obj: Any) -> bool:
        """Whether a template may call it: macros, tags, and what looks into a mapping."""
        if isinstance(obj, Macro | LoopContext) or obj in (safe_range, self.counted):
            return True
        owner, name = getattr(obj, "__self__", None), getattr(obj, "__name__", "")
        return isinstance(owner, PaperTags) or (isinstance(owner, Mapping) and name in _OF_MAPPINGS)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Refuse what could fill memory; raises ``jinja2.TemplateRuntimeError``."""
        raise jinja2.TemplateRuntimeError(f"the template computes with {operator}")

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call ``obj`` if a template may; raises ``jinja2.TemplateRuntimeError``."""
        if isinstance(obj, jinja2.Undefined):
            obj()  # raises, with its name
        if not self.is_safe_callable(obj):
            name = getattr(obj, "__name__", type(obj).__name__)
            raise jinja2.TemplateRuntimeError(f"{name} is not callable in a template")
        self.step()
        self._depth += 1
        try:
            if self._depth > _DEEPEST:
                raise RecursionError
            return super().call(context, obj, *args, **kwargs)
        finally:
            self._depth -= 1

    def get_template(self, *args: Any, **kwargs: Any) -> jinja2.Template:
        """Load a template; one that includes itself twice would never end."""
        self.step()
        return super().get_template(*args, **kwargs)

    def counted(self, items: Iterable[Any]) -> Iterator[Any]:
        """The ``items`` of a loop, of which all loops share a limited number."""
        for item in items:
            self.step()
            yield item

    def step(self) -> None:
        """Count one step; raises ``jinja2.TemplateRuntimeError`` for one too many."""
        self._steps += 1
        if self._steps > _STEPS:
            raise jinja2.TemplateRuntimeError(f"the template takes more than {_STEPS:,} steps")


def _printed(item: Any) -> Any:
    """Refuse what has no words; raises ``jinja2.TemplateRuntimeError``."""
    if not isinstance(item, str | int | float | Value | jinja2.Undefined):
        raise jinja2.TemplateRuntimeError(f"{type(item).__name__} is no text that can be printed")
    return item


def paper_environment(page: Page, *folders: Path) -> PaperEnvironment:
    """The environment that finds templates in ``folders`` and prints from ``page``."""
    environment = PaperEnvironment(
        loader=jinja2.FileSystemLoader(folders),
        extensions=[PaperTags],
        undefined=Unknown,
        finalize=_printed,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # Jinja's own {# would swallow the ids of headings, {#sec-method}.
        comment_start_string="{##",
        comment_end_string="##}",
    )
    environment.page = page
    for name in _LEFT_OUT:
        del environment.globals[name]
    for name in _GROWING:
        del environment.filters[name]
    environment.filters["md"] = markdown
    return environment
