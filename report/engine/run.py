"""Run stale steps in worker processes, and put each paper in place once it is complete.

Papers are built at the same time, and so are the steps of one paper that do not read each other.
If a step fails, only its paper is not built: the paper's previous output stays in place.
"""

import errno
import gc
import os
import shutil
import signal
import sys
import tempfile
import threading
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Final, NamedTuple

from report.core.errors import RidgepointError, in_the_way, one_line, unwritable
from report.engine import actions
from report.engine.cache import MANIFEST, StepEntry, file_digest, write_manifest
from report.engine.place import link_outputs, put
from report.engine.plan import PLACING, BuildPlan, outputs_read
from report.engine.steps import PREVIOUS_BUILD, SITE, Announce, BuildStep, Failure

#: Reason of a failure if a worker ended without a result.
_KILLED: Final = (
    "its process was killed, probably for lack of memory; free some, or build with --jobs 1."
)
#: Forked processes start at once, but only on Linux do all libraries survive a fork.
_START: Final = "fork" if sys.platform == "linux" else "spawn"
#: Kind of step → modules that the step uses and that load slowly.
_MODULES_BY_KIND: Final = {
    "study": ("report.evaluation.gather", "report.core.records.frames"),
    "figures": ("figures.render",),
    "document": ("report.paper.manuscript",),
}
#: Errors of a full disk and of folders without permission.
_NOT_WRITABLE: Final = (
    errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EFBIG
)  # fmt: skip


class FailedStepError(Exception):
    """A failed step: its reason in one sentence, and its traceback, which workers send as text."""


def run(
    plan: BuildPlan, stale: Mapping[str, str], stage: Path, announce: Announce
) -> tuple[dict[str, Sequence[Path]], list[Failure]]:
    """Build the studies of the plan, then the pages about all studies.

    ``stale`` are all stale steps.  ``stage`` is an empty folder on the file system of the outputs.
    Returns the replaced paths of each study, and failures.  Raises ``OutputError`` if a file of the
    user has the manifest's name.
    """
    studies = plan.request.studies
    jobs = max(1, min(plan.request.jobs, len(stale)))
    if not (plan.built or plan.index.folder_used) and os.path.lexists(plan.output(MANIFEST)):
        raise in_the_way(plan.output(MANIFEST))
    with _workers(jobs, stage, stale) as workers:
        builder = _Builder(
            plan, stage, workers, announce, {*stale}, stale_count=len(stale), lock=threading.Lock()
        )
        with futures.ThreadPoolExecutor(len(studies)) as threads:
            results = threads.map(builder.build, studies, map(plan.study_steps, studies))
            outcomes = dict(zip(studies, results, strict=True))
        # A deleted study is built as a paper without steps, which removes its outputs.
        for name in {id.partition("/")[0] for id in plan.obsolete()} - {*studies, SITE}:
            outcome = builder.build(name, ())
            if isinstance(outcome, Failure):
                outcomes[name] = outcome
        outcomes[SITE] = builder.build(SITE, plan.shared_steps())
    replaced = {name: paths for name, paths in outcomes.items() if not isinstance(paths, Failure)}
    return replaced, [outcome for outcome in outcomes.values() if isinstance(outcome, Failure)]


class _Builder(NamedTuple):
    """Builds papers, each in a thread.

    ``waiting``: ids of stale steps that have not begun.  ``stale_count``: number of stale steps.
    Only the thread that holds the ``lock`` compares files, announces a step, or puts a paper in
    place.
    """

    plan: BuildPlan
    stage: Path
    workers: futures.Executor
    announce: Announce
    waiting: set[str]
    stale_count: int
    lock: threading.Lock

    def build(self, study: str, steps: Iterable[BuildStep]) -> Sequence[Path] | Failure:
        """Run the ``steps`` of a paper and put it in place; return the replaced paths."""
        try:
            return self._put(study, self._run_stale(steps))
        except (FailedStepError, RidgepointError) as error:
            return Failure(study, *error.args)
        except (futures.BrokenExecutor, OSError):
            # The pool raises an OSError if a worker is killed while a step is submitted.
            return Failure(study, f"{study}: {_KILLED}")
        except Exception as error:
            return Failure(study, _sentence(study, error), traceback.format_exc())

    def _run_stale(self, steps: Iterable[BuildStep]) -> dict[str, StepEntry]:
        """Run each stale step as soon as its inputs exist; return the entries of all steps."""
        finished: dict[str, StepEntry] = {}
        running: dict[str, futures.Future[StepEntry]] = {}
        for step in steps:
            for id, _ in step.reads:
                if id in running:
                    finished[id] = running.pop(id).result()
            with self.lock:
                built = {**self.plan.built, **finished}
                inputs = self.plan.inputs(step, built)
                if reason := self.plan.reasons(step, inputs):
                    self.announce(step.id, 1 - len(self.waiting) / self.stale_count, reason)
                    running[step.id] = self._submit(step, inputs, built)
                else:
                    finished[step.id] = self.plan.built[step.id]
                self.waiting.discard(step.id)
        for id, future in running.items():
            finished[id] = future.result()
        return finished

    def _submit(
        self, step: BuildStep, inputs: Mapping[str, str], built: Mapping[str, StepEntry]
    ) -> futures.Future[StepEntry]:
        """Link the outputs that ``step`` reads into its stage, and give it to a worker."""
        stage, request = self.stage / step.id, self.plan.request
        study, _, kind = step.id.partition("/")
        for id, name in outputs_read(step, built):
            link_outputs([name], self._folder_of(id, study), stage)
        before = self.plan.built.get(step.id)
        if kind == "figures" and before and not any(self.plan.altered_outputs(before)):
            link_outputs(before.outputs, request.out, stage / PREVIOUS_BUILD)
        task = actions.StepTask(step.id, stage, request.data, request.papers, inputs)
        return self.workers.submit(run_step, task)

    def _folder_of(self, id: str, study: str) -> Path:
        """Return the folder with the outputs of step ``id``: its stage if this build ran it."""
        stage = self.stage / id
        return stage if id.startswith(f"{study}/") and stage.exists() else self.plan.request.out

    def _put(self, study: str, finished: Mapping[str, StepEntry]) -> list[Path]:
        """Put the outputs of the ``finished`` steps in place, and record them in the manifest."""
        plan, out, whole = self.plan, self.plan.request.out, self.stage / study / "whole"
        with self.lock:
            old = {id: entry for id, entry in plan.built.items() if id.startswith(f"{study}/")}
            before, new = _outputs(old.values()), _outputs(finished.values())
            placing = f"{study}/{PLACING}"
            superseded = {*finished, *plan.obsolete()} & old.keys()
            outputs = {**before, **new}
            digests = {name: plan.index.digest(plan.output(name)) for name in outputs}
            # New or different outputs, and outputs of earlier steps that no step makes any more.
            changed = {name for name in new if digests[name] != new[name]}
            changed |= _outputs(old[id] for id in superseded).keys() - new.keys()
            # Folders are replaced as a whole, so unchanged outputs are linked beside changed ones.
            for id, entry in finished.items():
                link_outputs(changed & entry.outputs.keys(), self._folder_of(id, study), whole)
            if changed:
                unchanged = (name for name in outputs if digests[name] and name not in changed)
                link_outputs(unchanged, out, whole)
            if added := {name: new[name] for name in new.keys() - before.keys()}:
                # If the build is killed now, the next build knows that these files are outputs.
                self._record(plan.built | {placing: StepEntry({}, added)})
            # In a folder that no build has used, files with the names of outputs are the user's.
            replaced = put(whole, out, changed, outputs if plan.index.folder_used else before)
            for name in outputs:
                plan.index.place(plan.output(name), new.get(name, digests[name]))
            entries = {**plan.built, **finished}
            for id in {*superseded, placing} - finished.keys():
                entries.pop(id, None)
            if entries != plan.built:
                self._record(entries)
        return replaced

    def _record(self, built: dict[str, StepEntry]) -> None:
        """Set the entries of the plan and of the manifest."""
        self.plan.built, out = built, self.plan.request.out
        try:
            write_manifest(built, str(out))
        except OSError as error:
            raise unwritable(error, place=out / MANIFEST) from error


def _outputs(entries: Iterable[StepEntry]) -> dict[str, str]:
    """Join the outputs of several steps."""
    outputs: dict[str, str] = {}
    for entry in entries:
        outputs |= entry.outputs
    return outputs


def run_step(task: actions.StepTask) -> StepEntry:
    """Run a step in this process; raise ``FailedStepError`` for any error.

    The stage also contains outputs of earlier steps, which the step's inputs name ``out/…``.
    """
    gc.disable()  # searching for cycles would take a tenth of the time of a short step
    try:
        task.stage.mkdir(parents=True, exist_ok=True)
        notices = getattr(actions, task.id.partition("/")[2])(task)
    except Exception as error:
        # Every error is caught, since a defect in one study must not stop the others.  The sentence
        # names the output folder instead of the stage, which is deleted before anybody reads it.
        sentence = _sentence(task.study, error)
        sentence = sentence.replace(str(task.stage), str(task.stage.parents[2]))
        raise FailedStepError(sentence, traceback.format_exc()) from error
    finally:
        gc.enable()
    outputs: dict[str, str] = {}
    for path in sorted(task.stage.rglob("*")):
        name = path.relative_to(task.stage).as_posix()
        if not path.is_file() or f"out/{name}" in task.inputs:
            continue
        digest = file_digest(str(path))
        if digest is None:
            raise FailedStepError(f"out/{name}: cannot be read back; build again.", "")
        outputs[name] = digest
    return StepEntry(task.inputs, outputs, notices or ())


def _sentence(study: str, error: Exception) -> str:
    """Describe an error in one sentence that says what to do."""
    if isinstance(error, RidgepointError):
        return str(error)
    if isinstance(error, shutil.Error) or (
        isinstance(error, OSError) and error.errno in _NOT_WRITABLE
    ):
        return str(unwritable(error))
    # The site's overview pages read outputs of all studies, some perhaps of an older version.
    remedy = "build all studies (python build.py), or " if study == SITE else ""
    return one_line(f"{study}: {type(error).__name__}: {error}; {remedy}run again with --debug.")


@contextmanager
def _workers(jobs: int, stage: Path, stale: Iterable[str]) -> Iterator[futures.Executor]:
    """Provide worker processes whose temporary files lie in ``stage``; end them at exit.

    All workers are forked before this process starts a thread, since a lock that is held while
    forking stays locked in the copy.  If processes are forked, this process first imports the slow
    modules that several ``stale`` steps need.  Idle workers import the slow modules of other steps,
    while the first step, of the kind ``study``, runs.
    """
    kinds = Counter(step.partition("/")[2] for step in stale)  # a step is named study/kind
    shared_modules, other_modules = list[str](), list[str]()
    for kind, modules in _MODULES_BY_KIND.items():
        if kinds[kind] > 1 and _START == "fork":
            shared_modules += modules
        elif kinds[kind] and kind != "study":
            other_modules += modules
    _import(shared_modules)
    pool = futures.ProcessPoolExecutor(jobs, get_context(_START), _start_worker, (stage,))
    try:
        pool.submit(os.getpid)  # starts a process
        for _ in range(1, jobs):
            pool.submit(_import, other_modules)
        yield pool
    finally:
        # If one worker is killed while another starts, shutting the pool down waits for ever.
        for worker in active_children():
            worker.kill()
        pool.shutdown(cancel_futures=True)


def _import(modules: Iterable[str]) -> None:
    """Import modules by name, so that later imports take no time."""
    for module in modules:
        import_module(module)


def _start_worker(stage: Path) -> None:
    """Prepare a worker, whose temporary files lie in ``stage``, to end when the build ends.

    SIGTERM ends the worker; SIGINT and SIGHUP are ignored, since the build handles them.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.environ["TMPDIR"] = tempfile.tempdir = str(stage)
    parent = parent_process()
    if parent is not None:

        def end_with_parent() -> None:
            parent.join()  # if the build is killed, its worker would wait for work for ever
            os._exit(1)

        threading.Thread(target=end_with_parent, daemon=True).start()
