"""The Jinja that papers are written for: it prints what a study found, and computes nothing.

A template reaches no attribute with an underscore, and calls macros and what looks into a mapping
alone, so that whoever reviews a contribution need read only its Python for what it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import jinja2
from jinja2.runtime import LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range

from report.paper.tags import Page, PaperTags
from report.paper.values import Value
from report.text.escape import markdown

#: What a template may call of a mapping.
_OF_MAPPINGS: Final = ("get", "items", "keys", "values")
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


class PaperEnvironment(ImmutableSandboxedEnvironment):
    """Prints from ``page``, by the tags of ``report.paper.tags``."""

    page: Page
    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)

    def is_safe_callable(self, obj: Any) -> bool:
        """Whether a template may call it: macros, tags, and what looks into a mapping."""
        if isinstance(obj, Macro | LoopContext) or obj is safe_range:
            return True
        owner, name = getattr(obj, "__self__", None), getattr(obj, "__name__", "")
        return isinstance(owner, PaperTags) or (isinstance(owner, Mapping) and name in _OF_MAPPINGS)

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call ``obj`` if a template may; raises ``jinja2.SecurityError``."""
        if isinstance(obj, jinja2.Undefined):
            obj()  # raises, with its name
        return super().call(context, obj, *args, **kwargs)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Refuse numbers that no study has declared; raises ``jinja2.TemplateRuntimeError``."""
        raise jinja2.TemplateRuntimeError(f"the template computes with {operator}")


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
    environment.filters["md"] = markdown
    return environment
