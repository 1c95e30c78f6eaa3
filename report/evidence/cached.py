"""What a run answers once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

Found = TypeVar("Found")
AnyRun = TypeVar("AnyRun")
Asked = ParamSpec("Asked")


def cached(
    find: Callable[Concatenate[AnyRun, Asked], Found],
) -> Callable[Concatenate[AnyRun, Asked], Found]:
    """``find`` that computes once for each run and what is asked of it.

    Papers ask for one number in tables, figures and sentences.  What is asked must be hashable; 1
    and 1.0 are the same question.  The answers live as long as the run, which never changes.
    """
    name = f"_cached_{find.__module__}.{find.__qualname__}"

    @wraps(find)
    def look_up(run: AnyRun, /, *asked: Asked.args, **named: Asked.kwargs) -> Found:
        answers: dict[Any, Found] = run.__dict__.setdefault(name, {})
        question = (asked, tuple(sorted(named.items())))
        if question not in answers:
            answers[question] = find(run, *asked, **named)
        return answers[question]

    return look_up
