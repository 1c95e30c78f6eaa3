"""What to do on the machine at hand, from its own measurements."""

from __future__ import annotations

from report.evidence.runs import known
from report.missing import Missing
from report.paper.tables import Cell, Column, Table
from report.quantity.evaluation import estimate, faster, point
from report.quantity.expression import Quantity
from report.studies.training_roofline import ladder
from report.studies.training_roofline.batches import ENOUGH, fit, own_batches, sweep
from report.studies.training_roofline.measured import Run, alone_mark
from report.studies.training_roofline.profiled import SIDES, main_profiles
from report.studies.training_roofline.settings import pairs
from report.studies.training_roofline.subject import NETWORKS, Step
from report.text.format import NO_BREAK


def smallest_enough(run: Run, network: str) -> Step | Missing:
    """The smallest measured batch whose rate is enough of the best measured one."""
    found = {step: point(run.images(step)) for step in sweep(run, network)}
    rates = {step: rate for step, rate in found.items() if isinstance(rate, float)}
    if not rates:
        return Missing(f"no batch of {network} was timed on {run.label}")
    best = max(rates.values())
    return next(step for step, rate in rates.items() if rate >= ENOUGH * best)


def avoided(run: Run, network: str) -> str:
    """The batches that are slower, image by image, than a smaller one."""
    falling = [f"{batch.batch}" for batch in own_batches(run, network) if batch.falls]
    return ", ".join(falling) or "none"


def advice_table(run: Run) -> Table:
    """A row a network: which batch is enough, which to avoid, which setting is the fastest."""
    made = tuple(_row(run, n) for n in NETWORKS if run.timed(sweep(run, n)))
    return Table(
        f"tbl-advice-{run.key}",
        f"What the measurements advise on {run.label}: the smallest measured batch that reaches "
        f"{100 * ENOUGH:.0f}{NO_BREAK}% of the best measured rate, the batch at which the fitted "
        "curve does so of its limit, batches that are slower than a smaller one, and the fastest "
        "of the settings that are clearly faster than the base of the ladder, with its gain.",
        (
            Column("Network"),
            Column("Enough, measured", "1"),
            Column("Enough, curve", "1"),
            Column("Slower"),
            Column("Fastest setting"),
            Column("Images / s", "1"),
            Column("Gain", "1"),
        ),
        made,
        notes=alone_mark(run, run.timed(run.steps)),
        sources=(run.file,),
        wide=True,
    )


def fastest(run: Run, network: str) -> tuple[Step, Quantity] | None:
    """The setting that gains most over the ladder's base, of those that are clearly faster."""
    base = ladder.base(run, network)
    if base is None:
        return None
    tried = [rung.step for rung in ladder.ladder(run, network)]
    tried += [new for plain, new in pairs(run) if plain == base]
    gains = {step: run.speedup(base, step) for step in tried if step != base}
    clear = {step: known(point(gain)) for step, gain in gains.items() if faster(gain)}
    best = max(clear, key=lambda step: clear[step], default=None)
    return None if best is None else (best, gains[best])


def mostly(run: Run) -> dict[str, tuple[str, ...]]:
    """The networks by the ceiling, or neither, near which clearly most of their time passes."""
    found: dict[str, list[str]] = {}
    for profile in main_profiles(run):
        for side in SIDES:
            if faster(profile.side_share(side) / 0.5):
                found.setdefault(side, []).append(profile.step.network)
    return {side: tuple(networks) for side, networks in found.items()}


def _row(run: Run, network: str) -> tuple[Cell, ...]:
    step, curve = smallest_enough(run, network), fit(run, network)
    reach = curve if isinstance(curve, Missing) else curve.batch_for(ENOUGH)
    best = fastest(run, network)
    setting: tuple[Cell, ...] = (Missing("none that was tried is clearly faster"),) * 3
    if best is not None:
        setting = (best[0].setting, *map(estimate, (run.images(best[0]), best[1])))
    return (
        network,
        step if isinstance(step, Missing) else step.batch,
        reach if isinstance(reach, Missing) else max(1, round(reach)),
        avoided(run, network),
        *setting,
    )
