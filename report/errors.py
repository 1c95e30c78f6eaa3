"""The one tree of errors that ridgepoint raises on purpose.

Every message is one sentence that names the file, the place in it, what was found and what to
do; ``build.py`` and ``python -m experiments`` print it without a traceback and exit with 1.
"""

from __future__ import annotations


class RidgepointError(Exception):
    """Something a user can mend; the message says where and how."""


class RecordError(RidgepointError):
    """A record, a file of reported values or another file under ``data/`` cannot be used."""


class StudyError(RidgepointError):
    """A study cannot be computed from the data that were read."""


class TemplateError(RidgepointError):
    """A paper's template asks for something that does not exist, or types a result by hand."""


class RenderError(RidgepointError):
    """pandoc, LaTeX, Typst or Quarto refused a paper."""


class MeasurementError(RidgepointError):
    """An experiment cannot be run as asked."""


class OutputError(RidgepointError):
    """The output folder cannot be written, or is in use by another build."""
