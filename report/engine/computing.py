"""What a study finds in its data; one record that it cannot be computed from stops no paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from traceback import extract_tb

from report.engine.gather import Chosen, choose
from report.engine.steps import ROOT
from report.errors import RidgepointError, StudyError
from report.instruments import gates
from report.paper.findings import Findings, Inputs
from report.records.strict import no_cycles
from report.studies import find_study


def _noted(study: str, inputs: Inputs) -> Iterator[str]:
    """What the gates say of the series that a paper uses, in a sentence each after its name."""
    counted = {
        stored.file: sum(any(gates.bimodal_times(case)) for case in stored.record.cases)
        for stored in inputs.records
    }
    if bimodal := [f"{file} ({count})" for file, count in counted.items() if count]:
        yield (
            f"{study}: the processes of these cases fall into two groups, so that their medians "
            f"are printed as ranges and decide no claim: {', '.join(bimodal)}."
        )
    apart = [
        f"{stored.file} and {other.file} ({count})"
        for stored in inputs.records
        for other in stored.others
        if (count := gates.disagreeing(stored.record, other.record))
    ]
    if apart:
        yield (
            f"{study}: runs of one machine are more than {gates.AGREE} times apart in so many "
            f"series, which are not pooled: {', '.join(apart)}."
        )


def compute_usable(study: str, data: Path, asked: Sequence[str] = ()) -> tuple[Chosen, Findings]:
    """The records that are chosen for a study with all that it reads, and what it finds in that.

    A record that it fails with is left out.  Raises ``RidgepointError`` as ``choose`` and
    ``compute`` do.
    """
    left_out: dict[str, str] = {}
    while True:
        chosen = choose(study, data, asked, left_out)
        runs = [run for stored in chosen.inputs.records for run in stored.runs]
        bad = {run.file: why for run in runs if (why := gates.problem(run.record))}
        left_out |= {
            f: f"data/{f}: {why}, which cannot be; measure again." for f, why in bad.items()
        }
        if bad:
            continue
        try:
            findings = compute(study, chosen.inputs)
        except StudyError as error:
            if not error.file or error.file in left_out:
                raise
            left_out[error.file] = str(error)
            continue
        noted = (*chosen.notices, *_noted(study, chosen.inputs))
        return replace(chosen, notices=noted), findings


@no_cycles()
def compute(study: str, inputs: Inputs) -> Findings:
    """What ``study`` finds in its inputs; raises ``StudyError`` that names the file at fault."""
    try:
        return find_study(study)(inputs)
    except (NameError, ImportError, SyntaxError) as error:
        raise StudyError(f"{_line(study, error)}: {error}; correct that line.") from error
    except Exception as error:
        file, alone = _at_fault(study, inputs, str(error))
        raise StudyError(_sentence(study, file, error), file if alone else "") from error


def _at_fault(study: str, inputs: Inputs, message: str) -> tuple[str, bool]:
    """The file with which a study fails, and whether it has others that it does not fail with.

    What computes on layers and numbers does not know from which file they came, so that the study
    is computed from each alone where the ``message`` names none.
    """
    nothing = replace(inputs, records=(), imported=())
    runs = [run for stored in inputs.records for run in stored.runs]
    parts = {run.file: replace(nothing, records=(replace(run, others=()),)) for run in runs}
    parts |= {each.file: replace(nothing, imported=(each,)) for each in inputs.imported}
    if named := next((file for file in parts if file in message), None):
        return named, len(parts) > 1
    if inputs.reported_file in message or _fails(study, nothing):
        return inputs.reported_file, False
    failing = [file for file, part in parts.items() if _fails(study, part)]
    return (failing or [*parts])[0], 0 < len(failing) < len(parts)


def _fails(study: str, inputs: Inputs) -> bool:
    try:
        find_study(study)(inputs)
    except Exception:
        return True
    return False


def _sentence(study: str, file: str, error: Exception) -> str:
    """What went wrong with a file; of what nobody foresaw, also in which line of code."""
    if isinstance(error, RidgepointError):
        named = file and file in str(error)
        return str(error) if named else f"data/{file or study}: {error}"
    return (
        f"data/{file or study}: {type(error).__name__}: {error} in {_line(study, error)}; "
        "restore the file with git or measure again, or correct that line."
    )


def _line(study: str, error: Exception) -> str:
    """The line that raised ``error``: the study's own, if it is among those that led there."""
    frames = [(frame.filename, frame.lineno) for frame in extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        frames.append((error.filename, error.lineno))
        study = Path(error.filename).parent.name
    report, own = ROOT / "report", ROOT / "report" / "studies" / study
    places = [place for place in frames if Path(place[0]).is_relative_to(report)]
    file, line = [*places, *(place for place in places if Path(place[0]).is_relative_to(own))][-1]
    return f"{Path(file).relative_to(ROOT).as_posix()}:{line}"
