"""Options of ``build.py`` other than building: records, pins, new studies and serving."""

import http.client
import json
import shutil
import socket
import subprocess
import sys
import threading
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir, closing
from pathlib import Path
from typing import Any

import pytest

import build
from benchmarks import language
from report.commands import serve
from report.commands.arguments import PROJECT_FOLDERS, named_records, parse
from report.commands.check import changed_numbers, verdict_changes
from report.commands.new import new_study
from report.commands.serve import NEWS_ADDRESS, SCRIPT_ADDRESS, Server
from report.core.errors import RecordError, RidgepointError, StudyError
from report.core.records.choice import Edition, read_editions
from report.core.records.record import Attachment, Record
from report.core.records.store import digest, record_name, write_record
from report.engine.steps import ROOT
from report.evaluation.gather import accept_records, choose_records
from report.paper.pins import Pins, changed_items
from report.studies import STUDIES
from tests import factory

STUDY, OTHER = "conv_scaling", "conv_profiling"
CASES = factory.layer_cases((1, 4))
FULL = factory.record(CASES)
QUICK = factory.record(CASES, started="2026-11-02T10:00:00Z", plan="quick")
OTHER_STUDY = factory.record([], started="2026-11-03T10:00:00Z", study=OTHER)


def file_of(record: Record) -> str:
    """Return the record's file, relative to the data folder."""
    return f"{record.study}/{record_name(record)}"


def arguments(folder: Path, *more: str) -> list[str]:
    """Return the command line of a build from ``folder/data`` to ``folder/out``."""
    folders = ["--out", str(folder / "out"), "--data", str(folder / "data")]
    return [STUDY, "--html", "--jobs", "1", *folders, *more]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Write a data folder with a full and a quick record of one machine, and one of a study."""
    return factory.data_folder(tmp_path, FULL, QUICK, OTHER_STUDY)


@pytest.mark.parametrize(("line", "text"), [
    ("conv_scalin --debug", "did you mean conv_scaling?"),
    ("--jobs 0", "'0' is not a whole number of 1 or more"),
    ("--engine word", "typst"),
    ("--check --verify", "--check and --verify cannot be combined"),
    ("--watch --diff HEAD", "--diff and --watch cannot be combined"),
    *((f"--use x {option}", f"leave it out with {option.split()[0]}.")
      for option in ("--list", "--check", "--diff HEAD", "--verify", "--serve 0")),
])  # fmt: skip
def test_faulty_command_lines_are_refused_in_one_line(
    line: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build.main(line.split()) == 2
    error = capsys.readouterr().err
    assert text in error and error.count("\n") == 1


def test_unusable_folders_are_refused(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = data.parent
    (folder / "ring").symlink_to("ring")
    (folder / "file").touch()
    for option, message, paths in (
        ("--data", "is no folder", (folder / "nosuch", folder / "file", folder / "ring")),
        ("--data", f"no record of {STUDY};", (folder / "out", data / STUDY)),
        ("--data", "the name is empty", ("",)),
        ("--out", "the name is empty", ("",)),
        ("--out", f"{folder}/data", (folder, data, data / "new")),
        ("--out", "must not contain outputs", ("/", ROOT, ROOT / "templates" / "papers" / "new")),
    ):
        (folder / "out").mkdir(exist_ok=True)
        for path in map(str, paths):
            assert build.main(arguments(folder, option, path, "--dry-run")) in (1, 2), path
            (line,) = capsys.readouterr().err.splitlines()
            assert message in line
    tracked = factory.output_of(["git", "ls-files"]).splitlines()
    folders = {name.partition("/")[0] for name in tracked if "/" in name}
    assert folders <= {*PROJECT_FOLDERS}, "no folder of the project may contain outputs"


def test_records_are_named_by_path_or_part_of_the_name(data: Path, tmp_path: Path) -> None:
    """Paths may be relative to the working folder or to the data folder."""
    quick, other_study = file_of(QUICK), file_of(OTHER_STUDY)
    (tmp_path / "link").symlink_to(data)
    only_quick = {STUDY: (quick,)}
    for names, studies, expected in (
        ([f"data/{quick}"], [STUDY], only_quick),
        ([str(data / quick)], [STUDY], only_quick),
        ([str(tmp_path / "link" / quick)], [STUDY], only_quick),
        ([quick.removesuffix(".json")], [STUDY], only_quick),
        ([quick, "20261102", "20261101"], [STUDY], {STUDY: (quick, file_of(FULL))}),
        (["latest"], [STUDY, OTHER, "gpu_survey"], {**only_quick, OTHER: (other_study,)}),
        (["20261103"], STUDIES, {OTHER: (other_study,)}),
    ):
        with chdir(tmp_path):
            assert named_records("--use", names, studies, data) == expected


def test_ambiguous_and_unknown_records_are_refused(data: Path, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    for name, study, message in (
        ("nothing", STUDY, f"no record of {STUDY} in"),
        ("devices.yaml", STUDY, f"no record of {STUDY} in"),
        (str(tmp_path / "other.json"), STUDY, f"no record of {STUDY} in"),
        ("latest", "gpu_survey", "no record of these studies in"),
        ("example-2t", STUDY, f"{file_of(FULL)} and {file_of(QUICK)} both contain this"),
        (file_of(OTHER_STUDY), STUDY, f"no record of {STUDY} in"),
    ):
        with pytest.raises(RecordError) as caught:
            named_records("--use", [name], [study], data)
        (line,) = str(caught.value).splitlines()
        assert line.startswith(f"--use {name}: ") and message in line


def test_accept_writes_the_edition(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After a new machine is accepted, its later full run is used; its quick run only on request.

    The edition names the machines or records that a paper shows, by role.
    """
    machine = factory.environment("other-1t")
    first = factory.record(CASES, machine, started="2026-11-05T10:00:00Z")
    later = factory.record(CASES, machine, started="2026-11-06T10:00:00Z")
    quick = factory.record(CASES, machine, started="2026-11-07T10:00:00Z", plan="quick")
    editions = data / "editions.yaml"
    editions.write_text(f"{STUDY}: {{roles: {{cpu: example-2t}}}}\n")

    def used(*requested: str) -> str:
        return choose_records(STUDY, data, requested).inputs.roles["cpu"]

    write_record(first, data)
    assert used() == file_of(FULL)  # the edition does not name the new machine yet
    command = arguments(data.parent, "--use", "latest", "--accept")
    assert build.main(command) == 0
    edition = Edition({"cpu": "other-1t"}, compared=("example-2t",), date="2026-11-05")
    assert read_editions(data)[STUDY] == edition and used() == file_of(first)
    write_record(later, data)
    assert used() == file_of(later)  # the accepted machine's newest full run
    write_record(quick, data)
    before = editions.read_bytes()
    assert (used(), used(file_of(quick))) == (file_of(later), file_of(quick))
    assert build.main(command) == 1
    assert "does not replace the full run in the role cpu" in capsys.readouterr().err
    assert editions.read_bytes() == before


def test_the_next_build_uses_accepted_records(tmp_path: Path) -> None:
    """An accepted run is used even if it contradicts an older run with more attachments."""
    notes = Attachment(name="notes.txt", sha256=digest(b"x"), meaning="notes")
    older = factory.measurement("2026-11-01T10:00:00Z", attachments=(notes,))
    newest = factory.measurement("2026-11-02T10:00:00Z", held=9000)  # contradicts the older run
    data = factory.data_folder(tmp_path, newest)
    write_record(older, data, {"notes.txt": b"x"})
    accept_records(STUDY, data, [file_of(newest)])
    assert choose_records(STUDY, data).inputs.roles == {"cpu": file_of(newest)}


def test_the_summary_of_a_replication_needs_no_build(capsys: pytest.CaptureFixture[str]) -> None:
    data = ROOT / "data"
    (record,) = (data / "conv_scaling").glob("*-amd-epyc-1t-cff32c-02a9bf49.json")
    assert build.main(["conv_scaling", "--list", "--replicate", str(record)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert " of the paper's claims are about a CPU. On " in line
    assert build.main(["--list"]) == 0 and "conv_scaling       " in capsys.readouterr().out


def pins(audits: str, **verdicts: str) -> Pins:
    """Return pinned verdicts by claim; ``audits``: reported values that fail their audit."""
    claims = {id: {"verdict": verdict} for id, verdict in verdicts.items()}
    return Pins(records=(), audits=tuple(audits), claims=claims)


def test_changed_verdicts_and_new_failures_are_reported() -> None:
    old = pins("x", a="supported", b="refuted", c="supported")
    new = pins("xy", a="supported", b="undecided", d="refuted")
    assert list(verdict_changes(STUDY, old, new)) == [
        f"{STUDY}: the claim b is undecided; it was refuted.",
        f"{STUDY}: the claim c is no longer made; it was supported.",
        f"{STUDY}: a reported value newly fails its audit: y.",
    ]
    assert list(verdict_changes(STUDY, new, new)) == []


def numbers(record: str, intervals: str = "", **values: float) -> Pins:
    """Return pins of numbers; the values named in ``intervals`` have the interval 1 to 2."""
    items = {}
    for id, number in values.items():
        items[id] = {"number": number, "interval": [1.0, 2.0] if id in intervals else None}
    return Pins(records=(record,), values=items)


def test_numbers_outside_their_interval_are_reported_first() -> None:
    old = numbers("r", "ab", a=1.5, b=1.5, c=7, d=7, e=1.5)
    new = numbers("s", "ab", a=1.8, b=2.1, c=7, d=8, f=1.5)
    # Outside their interval: b and d.  Then f is new, e is gone, and a is within its interval.
    assert [item.name for item in changed_items(old, new)] == ["b", "d", "f", "e", "a"]
    first, *others = changed_numbers(STUDY, old, new)
    assert "5 pinned numbers differ with other records, 4 outside" in first
    assert others[0] == f"{STUDY}: value b: number 2.1 (pinned: number 1.5)."
    assert others[3].startswith(f"{STUDY}: value e is gone: ")
    assert changed_items(numbers("r", "a", a=1.5), numbers("r", "a", a=1.50000001)) == []
    # Of many numbers, ten are listed.
    old = numbers("r", **{f"v{n}": n for n in range(12)})
    new = numbers("r", **{f"v{n}": n + 1 for n in range(12)})
    first, *others = changed_numbers(STUDY, old, new)
    assert "12 pinned numbers differ with the same records" in first and len(others) == 10


#: Titles that some output format would change or could not contain.
UNPRINTABLE = (
    "42", "@foo", "> x", "- x", "As @foo", "<b>x</b>", "O($n^2$)", "In 3 steps", "a\u2028b"
)  # fmt: skip
SLUG, TITLE = "layer_height", "How the rate of a layer grows with its width"


def test_new_studies_pass_the_lint(tmp_path: Path) -> None:
    """``test_walkthrough`` measures, builds and tests a new study."""
    for folder in ("experiments", "report/studies", "templates/papers", "tests"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copytree(ROOT / "templates" / "study", tmp_path / "templates" / "study")
    shutil.copyfile(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    for slug, title in (("a", "A"), ("a" * 40, "w" * 72), ("b", "It's"), (SLUG, TITLE)):
        new_study(slug, title, root=tmp_path)
    # The folder lacks the project's packages, so isort has to be given the packages' names.
    option = "lint.isort.known-first-party = ['experiments', 'figures', 'report', 'tests']"
    for check in (("format", "--check"), ("check", "--config", option)):
        command = [sys.executable, "-m", "ruff", *check, "."]
        process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert process.returncode == 0, process.stdout


def test_invalid_names_and_titles_of_studies_are_refused() -> None:
    refusals = [
        *((slug, TITLE, "cannot be the name") for slug in ("Layer", "../x", "a__b", "a" * 41)),
        *((slug, TITLE, "another meaning") for slug in ("harness", "site", "class", "reported")),
        ("conv_scaling", TITLE, "exists already"),
        *(("layer", title, "begins with a letter") for title in UNPRINTABLE),
        ("layer", 'a "quoted" title', "quotes"),
        *(("layer", title, "one line") for title in ("two\nlines", " ")),
        ("layer", "{% raw %}", "braces"),
    ]
    for slug, title, message in refusals:
        with pytest.raises(StudyError, match=message):
            new_study(slug, title)


def test_vague_names_docstrings_and_comprehensions_are_counted() -> None:
    code = '''
def rows(found: list[int]) -> list[int]:
    """What was found."""
    founded = [row for row in found if self.made]
    return [[row] for row in [row for row in founded]]
'''
    problems = language.problems_of({"a.py": code, "b.py": '"""Whatever follows."""\n' * 5})
    # Vague names: the argument, its use and an attribute.  One of the 3 comprehensions is nested.
    counts = Counter(kind for kind, _ in problems)
    assert counts == {"identifiers": 3, "docstrings": 1, "comprehensions": 3, "nested": 1}
    assert problems[0] == ("docstrings", "a.py:2: What was found.")
    names = {place.partition(": ")[2] for kind, place in problems if kind == "identifiers"}
    assert names == {"found", "made"}


PAGE = "<!DOCTYPE html><p>Grüße</p>".encode()
#: File of the site → address and content type.
SITE = {
    "index.html": ("/", "text/html; charset=utf-8"),
    "study/index.html": ("/study/", "text/html; charset=utf-8"),
    "study/figures/a b.svg": ("/study/figures/a%20b.svg", "image/svg+xml"),
    "study/trace.json.gz": ("/study/trace.json.gz", "application/gzip"),
    "study/t.csv": ("/study/t.csv?x=/../..#y", "text/csv; charset=utf-8"),
}
#: Addresses that must not be answered with a file.
NOT_SERVED = (
    "/pdf/study.pdf", "/empty/", "/nothing", "/../values/study.json", "/%2e%2e/values/study.json",
    "/..%2fvalues%2fstudy.json", "/-/events", "/%3Cb%3E", "/" + "x" * 5000,
    "/.hidden/note", "/%2ehidden/note", "/link/study.json", "/ring", "/linked/", "/a%00b",
)  # fmt: skip


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write an output folder with the files of a site, other files, and links to them."""
    files = {f"html/{name}": PAGE if name.endswith("html") else b"x" for name in SITE}
    others = ("html/empty/note", "html/.hidden/note", "pdf/study.pdf", "values/study.json")
    folder = tmp_path_factory.mktemp("site") / "out"
    factory.write_files(folder, {**files, **dict.fromkeys(others, b"{}")})
    (folder / "html" / "linked").mkdir()
    links = {"link": "../values", "ring": "ring", "linked/index.html": "../../pdf/study.pdf"}
    for name, target in links.items():
        (folder / "html" / name).symlink_to(target)
    return folder


@pytest.fixture(scope="module", params=[False, True], ids=["only --serve", "with --watch"])
def server(out: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    """Serve the output folder on a free port; pages of a ``live`` server ask for newer builds."""
    with Server(out, port=0, live=request.param) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def request(port: int, address: str, **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    """Return the response to a GET request, and its content."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", address, headers=headers)
        response = connection.getresponse()
        return response, response.read()


def test_only_files_of_the_site_are_served(server: Server) -> None:
    """Pages are sent unchanged; with ``--watch``, a script that asks for newer builds is added."""
    port = server.server_address[1]
    for address, content_type in SITE.values():
        response, body = request(port, address)
        assert (response.status, response.headers["Content-Type"]) == (200, content_type)
        assert response.headers["Cache-Control"] == "no-store"
        assert body.startswith(PAGE if "html" in content_type else b"x")
    for address in NOT_SERVED:
        response, body = request(port, address)
        # The error page must not contain the address unescaped.
        assert response.status == 404 and b"<b>" not in body, address
    for address in (SCRIPT_ADDRESS, NEWS_ADDRESS):
        assert (request(port, address)[0].status == 200) is server.live
    script = (
        f'<script src="{SCRIPT_ADDRESS}" data-build="{server.build_digest()}"></script>\n'.encode()
    )
    assert request(port, "/study/")[1] == (PAGE + script if server.live else PAGE)


def test_only_requests_to_local_host_names_are_answered(server: Server) -> None:
    host, port = server.server_address[:2]
    assert host == "127.0.0.1"
    for status, names in (
        (200, ("127.0.0.1:8000", "LOCALHOST:1", "[::1]:80", "")),
        (403, ("127.0.0.1.evil.example", "localhost@evil.example", "[")),
    ):
        for name in names:
            response, body = request(port, "/", Host=name)
            assert response.status == status and ("Grüße".encode() in body) == (status == 200)


def test_serving_errors_are_one_sentence(out: Path, tmp_path: Path) -> None:
    with socket.socket() as other_server:
        other_server.bind(("127.0.0.1", 0))
        other_server.listen()
        for port in (-1, 65536, other_server.getsockname()[1]):
            with pytest.raises(RidgepointError, match=f"^--serve {port}: .* 65535"):
                Server(out, port)
    with pytest.raises(RidgepointError, match=r"build\.py --html"):
        serve.serve(options(tmp_path))  # a folder without a site


def options(out: Path) -> Namespace:
    return parse(["--watch", "--serve", "0", "--out", str(out)])


def test_watch_builds_after_each_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Watching continues after a failed build; without a change nothing is built."""
    error = "data/x.json: no good; correct it."
    results, answers = iter((error, None)), list[dict[str, Any]]()

    def build_with_next_result(*_: object) -> str | None:
        factory.write_files(tmp_path, {"manifest.json": f"build {len(answers)}".encode()})
        return next(results)

    def changes_of_one_file(*_: object) -> Iterator[object]:
        """Yield the changed files four times, and ask the server for news after each time."""
        port = int(capsys.readouterr().out.partition("127.0.0.1:")[2].partition("/")[0])
        for files in (set(), set(), {"a.py"}, set()):
            yield files
            answers.append(json.loads(request(port, NEWS_ADDRESS)[1]))

    monkeypatch.setattr(serve, "run_build", build_with_next_result)
    monkeypatch.setattr(serve, "file_changes", changes_of_one_file)
    assert serve.watch(options(tmp_path)) == 0
    assert [news["failure"] for news in answers] == [error, error, None, None]
    first, second, third, fourth = (news["build"] for news in answers)
    assert first == second != third == fourth
    first_line, last_line = capsys.readouterr().out.splitlines()
    assert first_line.endswith(f"error: {error}") and last_line.endswith("Built")
