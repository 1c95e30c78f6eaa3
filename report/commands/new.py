"""Write the files of a new study with passing tests: ``--new SLUG "TITLE"``."""

import re
from argparse import Namespace
from keyword import iskeyword
from pathlib import Path
from typing import Final

from report.commands.console import short_path
from report.core.errors import StudyError, unwritable
from report.engine.steps import ROOT, SITE

#: Written file → its template in templates/study.
_FILES: Final = {
    "experiments/SLUG.py": "experiment.py.txt",
    "report/studies/SLUG/__init__.py": "package.py.txt",
    "report/studies/SLUG/study.py": "study.py.txt",
    "templates/papers/SLUG.qmd.j2": "paper.qmd.j2.txt",
    "tests/test_SLUG.py": "test.py.txt",
}
#: Commands that the author of a new study runs next.
NEXT_COMMANDS: Final = (
    "python -m experiments run SLUG --quick",
    "python build.py SLUG",
    "python -m pytest tests/test_SLUG.py",
)
#: A name that is valid in Python, the file system and LaTeX.
_SLUG: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_LONGEST_SLUG: Final = 40
#: Names of other folders of the data or the site.
_RESERVED_NAMES: Final = (SITE, "assets", "expected", "reported")
#: A title on one line, without digits and without characters of markup.
_TITLE: Final = re.compile(r"[^\W\d_][^\\\"{}<@`$^~\[\]\d]{0,71}")


def new(options: Namespace) -> int:
    """Write the files of a study, print their paths and the next commands."""
    slug, title = options.new
    print(*map(short_path, new_study(slug, title)), "", "Next:", sep="\n")
    for command in NEXT_COMMANDS:
        print(f"  {command.replace('SLUG', slug)}")
    return 0


def new_study(slug: str, title: str, *, root: Path = ROOT) -> list[Path]:
    """Write the files of a study and return their paths.

    Raises ``StudyError`` for an invalid title and for an invalid, reserved or existing name, and
    ``OutputError`` for a failed write.
    """
    if not _SLUG.fullmatch(slug) or len(slug) > _LONGEST_SLUG:
        raise StudyError(
            f"{slug!r} cannot be the name of a study; use a word such as layer_width: at most "
            f"{_LONGEST_SLUG} small letters and digits, joined by single underscores."
        )
    if (root / "experiments" / slug).exists() or slug in _RESERVED_NAMES or iskeyword(slug):
        raise StudyError(f"{slug!r} has another meaning in this project; choose another name.")
    if not (_TITLE.fullmatch(title.strip()) and title.isprintable()):
        raise StudyError(
            "The title must be one line of at most 72 characters that begins with a letter, "
            "without digits, double quotes, braces, brackets, backslashes and any of <@`$^~; the "
            "template can say more."
        )
    texts: dict[Path, str] = {}
    for name, source in _FILES.items():
        target = root / name.replace("SLUG", slug)
        if target.exists():
            place = target.relative_to(root)
            raise StudyError(f"{place} exists already; choose another name than {slug}.")
        text = (root / "templates" / "study" / source).read_text("utf-8")
        texts[target] = text.replace("SLUG", slug).replace("TITLE", title.strip())
    for target, text in texts.items():
        try:
            target.parent.mkdir(exist_ok=True)
            target.write_text(text, "utf-8")
        except OSError as error:
            raise unwritable(error, place=target) from error
    return list(texts)
