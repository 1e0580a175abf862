"""How numbers of a comparison are put into words, on the terminal and on the page."""

from __future__ import annotations

from evals.compare.differences import MetricDifference, TaskDifferences

_HEADLINES = ("overall_score", "strict_micro_f1", "micro_f1", "mean_of_available")


def p_text(p_value: float, *, equals: bool = False) -> str:
    """`0.012`, or `< 0.001`; with `= ` before a number where it stands in a sentence."""
    if p_value < 0.001:
        return "< 0.001"
    return f"= {p_value:.3f}" if equals else f"{p_value:.3f}"


def headline(task: TaskDifferences) -> MetricDifference | None:
    """The metric that a task is ranked by, where the runs have it; else the first."""
    named = {metric.name: metric for metric in task.metrics}
    ranked = [named[name] for name in _HEADLINES if name in named]
    return next(iter([*ranked, *task.metrics]), None)


def verdict(task: TaskDifferences) -> str | None:
    """What the task's main metric comes to, in a sentence."""
    metric = headline(task)
    if metric is None:
        return None
    difference = metric.difference
    if difference.method == "none":
        return f"{metric.name}: one case tells nothing."
    if difference.value == difference.low == difference.high == 0:
        return f"{metric.name}: no difference in any case."
    way = "above" if difference.value >= 0 else "below"
    ends = f"[{difference.low:+.2f}, {difference.high:+.2f}], p {p_text(metric.p_value, equals=True)}"
    meaning = (
        "more than chance explains at this level"
        if metric.is_clear
        else "these cases do not tell the two runs apart"
    )
    return f"{metric.name}: B is {abs(difference.value):.2f} {way} A, {ends}: {meaning}."
