"""What to do on the machine at hand, from its own measurements."""

from __future__ import annotations

from report.missing import Missing
from report.statistics import Estimate
from report.studies.training_roofline import ladder
from report.studies.training_roofline.batches import ENOUGH, fit, own_batches, sweep
from report.studies.training_roofline.measured import Run
from report.studies.training_roofline.subject import NETWORKS, Step
from report.tables import Cell, Column, Table


def smallest_enough(run: Run, network: str) -> Step | Missing:
    """The smallest measured batch whose rate is enough of the best measured one."""
    rates = {s: r.value for s in sweep(run, network) if isinstance(r := run.images(s), Estimate)}
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
        f"{100 * ENOUGH:.0f} % of the best measured rate, the batch at which the fitted curve does "
        "so of its limit, batches that are slower than a smaller one, and the fastest rung of the "
        "ladder among those that are clearly faster than its base.",
        (
            Column("Network"),
            Column("Enough, measured", "1"),
            Column("Enough, curve", "1"),
            Column("Slower"),
            Column("Fastest rung"),
            Column("Images / s", "1"),
            Column("Gain", "1"),
        ),
        made,
        sources=(run.file,),
        wide=True,
    )


def _row(run: Run, network: str) -> tuple[Cell, ...]:
    step, curve = smallest_enough(run, network), fit(run, network)
    reach = curve if isinstance(curve, Missing) else curve.batch_for(ENOUGH)
    top = ladder.top(run, network)
    climbed = ladder.ladder(run, network)
    why = "no rung is clearly faster than the base" if climbed else "no ladder was climbed"
    best: tuple[Cell, ...] = (Missing(why),) * 3
    if top is not None:
        best = (top.name, run.images(top.step), ladder.gain_over_base(run, network, top))
    return (
        network,
        step if isinstance(step, Missing) else step.batch,
        reach if isinstance(reach, Missing) else max(1, round(reach)),
        avoided(run, network),
        *best,
    )
