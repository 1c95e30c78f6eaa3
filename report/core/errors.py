"""The one tree of errors that ridgepoint raises on purpose.

Every message is one sentence that names the file, the place in it, what was found and what to
do; ``build.py`` and ``python -m experiments`` print it without a traceback and exit with 1.
"""

from __future__ import annotations

from typing import Final

#: Longest message in characters; of a longer one the middle is left out.
LONGEST: Final = 300

#: Problems that one look at a paper may name.
_MOST_REASONS: Final = 20


def shorten(text: str, longest: int) -> str:
    """``text`` in at most ``longest`` characters: more of its beginning than of its end."""
    if len(text) <= longest:
        return text
    end = longest // 3
    return f"{text[: longest - end - 1]}…{text[-end:]}"


def one_line(text: str) -> str:
    """``text`` as a terminal may print it: one line, unprintable characters as ``\\u202e``.

    At most ``LONGEST`` characters; the place stands first and the remedy last, and both stay.
    """
    words = " ".join(shorten(text, 4 * LONGEST).split())
    escaped = (c if c.isprintable() else ascii(c)[1:-1] for c in words)
    return shorten("".join(escaped), LONGEST)


def words_of(error: BaseException) -> str:
    """Class and text of an exception, the class alone where its code cannot give the text."""
    try:
        text = str(error)
    except BaseException:
        text = ""
    return f"{type(error).__name__}: {text}".removesuffix(": ")


class RidgepointError(Exception):
    """Something a user can fix; the message says where and how, in one line."""

    #: What a command that fails with it exits with.
    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))

    def _render_traceback_(self) -> list[str]:
        """Let a notebook show the message alone, as IPython asks an error."""
        return [f"error: {self}"]


class UsageError(RidgepointError):
    """The command line asks for something that does not exist; the message lists what does."""

    exit_code = 2


class RecordError(RidgepointError):
    """A record, a file of reported values or another file under ``data/`` cannot be used."""


class StudyError(RidgepointError):
    """A study cannot be computed from the data that were read."""


class StudyCodeError(StudyError):
    """The code of a study asks for what does not exist, whatever the data are."""


def reason_of(error: Exception) -> str:
    """Why a record cannot be used, in a sentence, also where no check foresaw it."""
    if isinstance(error, RidgepointError):
        return str(error)
    what = f"{type(error).__name__}: {error}"
    return f"holds what no check foresees ({what}); restore it with git, or measure again."


class TemplateError(RidgepointError):
    """A paper's template asks for something that does not exist, or types a result by hand."""


class RenderError(RidgepointError):
    """pandoc, LaTeX, Typst or Quarto refused a paper, for one reason a line."""

    def __init__(self, message: str) -> None:
        Exception.__init__(self, "\n".join(map(one_line, message.split("\n")[:_MOST_REASONS])))


class MeasurementError(RidgepointError):
    """An experiment cannot be run as asked."""


class OutputError(RidgepointError):
    """The output folder cannot be written, or is in use by another build."""


def unwritable(error: OSError, wanted: str = "written", place: object = "out") -> OutputError:
    """A full disk, a folder without permission and the like, in one sentence.

    ``place`` is named where the error names no file, as that of a full disk does not.  Of the many
    files that ``shutil.copytree`` could not copy the first is named.
    """
    place, why = error.filename or place, error.strerror or error
    if error.args and isinstance(error.args[0], list):
        place, _, said = map(str, error.args[0][0])
        # No number, and no names.
        why = said.replace(f"`{place}`", "it").partition(": ")[0].rpartition("] ")[2]
    return OutputError(
        f"{place}: cannot be {wanted} ({why}); make room for it or give permission, and build "
        "again; the last whole output is in place."
    )


def in_the_way(place: object) -> OutputError:
    """The refusal to replace a file that no build has made."""
    return OutputError(
        f"{place}: no build has made this file, and a new one would replace it; move it elsewhere, "
        "or name another folder with --out."
    )
