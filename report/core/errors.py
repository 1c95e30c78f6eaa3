"""Errors that ridgepoint raises on purpose, all derived from ``RidgepointError``.

A message is one sentence with the file, the place in the file, the fault and the remedy.
``build.py`` and ``python -m experiments`` print the message without a traceback and exit with the
error's ``exit_code``.
"""

from typing import Final

#: Longest message (characters); longer messages lose their middle.
LONGEST: Final = 300

#: Largest number of reasons in a ``RenderError``.
_MOST_REASONS: Final = 20


def shorten(text: str, longest: int) -> str:
    """Cut the middle out of ``text`` so that at most ``longest`` characters remain."""
    if len(text) <= longest:
        return text
    end = longest // 3
    return f"{text[: longest - end - 1]}…{text[-end:]}"


def one_line(text: str) -> str:
    """Make ``text`` safe for a terminal: one line of at most ``LONGEST`` characters.

    Unprintable characters become escapes such as ``\\u202e``.  Long texts lose their middle.
    """
    # Shortened first too, since a loop over a text of megabytes would be slow.
    line = " ".join(shorten(text, 4 * LONGEST).split())
    escaped = ""
    for char in line:
        escaped += char if char.isprintable() else ascii(char).strip("'")
    return shorten(escaped, LONGEST)


def words_of(error: BaseException) -> str:
    """Return «class: text» of an exception; only the class if its text is empty or fails."""
    name = type(error).__name__
    try:
        text = str(error)
    except BaseException:
        return name
    return f"{name}: {text}" if text else name


class RidgepointError(Exception):
    """A fault that a user can fix; the message says where and how, in one line."""

    #: Exit status of a command that stops with this error.
    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))

    def _render_traceback_(self) -> list[str]:
        """Return the message without a traceback; notebooks (IPython) call this method."""
        return [f"error: {self}"]


class UsageError(RidgepointError):
    """The command line asks for something impossible; the message says what is possible."""

    exit_code = 2


class RecordError(RidgepointError):
    """A record, a file of reported values or another file under ``data/`` cannot be used."""


class StudyError(RidgepointError):
    """A study cannot be computed from the data that were read."""


class StudyCodeError(StudyError):
    """The code of a study asks for something that exists in no data."""


def reason_of(error: Exception) -> str:
    """Describe why a record cannot be used; unexpected exceptions get a remedy too."""
    if isinstance(error, RidgepointError):
        return str(error)
    return (
        f"cannot be used ({type(error).__name__}: {error}); restore it with git, or measure again."
    )


class TemplateError(RidgepointError):
    """A paper's template asks for something that does not exist, or has a result typed by hand."""


class RenderError(RidgepointError):
    """pandoc, LaTeX, Typst or Quarto refused a paper; one line per reason, at most 20."""

    def __init__(self, message: str) -> None:
        lines = message.split("\n")[:_MOST_REASONS]
        # Not ``super()``, which would join the lines to one.
        Exception.__init__(self, "\n".join(one_line(line) for line in lines))


class MeasurementError(RidgepointError):
    """An experiment cannot be run as asked."""


class OutputError(RidgepointError):
    """Outputs cannot be written or served, or a user's file is in their place."""


def unwritable(error: OSError, action: str = "written", place: object = "out") -> OutputError:
    """Convert the ``OSError`` of a failed output to an ``OutputError``.

    The message says that the file cannot be ``action`` (a participle).  It names ``place`` if the
    error names no file (as for a full disk), and the first file if ``shutil.copytree`` failed for
    several files.
    """
    file, reason = str(error.filename or place), error.strerror or str(error)
    if error.args and isinstance(error.args[0], list):
        # ``copytree`` lists (source, target, reason) of each file that it could not copy.
        file, _, reason = map(str, error.args[0][0])
        # The reason is «`x` is a named pipe» or «[Errno 13] Permission denied: 'x'».
        reason = reason.replace(f"`{file}`", "it").partition(": ")[0].rpartition("] ")[2]
    return OutputError(
        f"{file}: cannot be {action} ({reason}); make room for it or give permission, and build "
        "again; the last whole output is in place."
    )


def in_the_way(place: object) -> OutputError:
    """Return the error for a file that a build would replace, but that no build wrote."""
    return OutputError(
        f"{place}: no build wrote this file, and this build would replace it; move it elsewhere, "
        "or name another folder with --out."
    )
