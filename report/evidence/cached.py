"""A decorator that caches the results of a run's methods."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

Result = TypeVar("Result")
AnyRun = TypeVar("AnyRun")
Arguments = ParamSpec("Arguments")


def cached(
    compute: Callable[Concatenate[AnyRun, Arguments], Result],
) -> Callable[Concatenate[AnyRun, Arguments], Result]:
    """Cache a method's results on its run.

    Runs are immutable, and papers use the same number several times.  Calls with equal arguments,
    which must be hashable, share a result.
    """
    attribute = f"_cached_{compute.__module__}.{compute.__qualname__}"

    @wraps(compute)
    def cached_result(
        run: AnyRun, /, *arguments: Arguments.args, **keywords: Arguments.kwargs
    ) -> Result:
        results: dict[Any, Result] = run.__dict__.setdefault(attribute, {})
        key = (arguments, tuple(sorted(keywords.items())))
        if key not in results:
            results[key] = compute(run, *arguments, **keywords)
        return results[key]

    return cached_result
