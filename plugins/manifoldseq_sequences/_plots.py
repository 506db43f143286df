"""The figure of a choice among descriptions."""

from typing import Any

from manifoldseq.models import Choice


def accepts(result: Any) -> bool:
    """Return whether the estimator of a fit has compared descriptions."""
    choice = getattr(getattr(result, "estimator", None), "choice_", None)
    return isinstance(choice, Choice) and bool(choice.steps)


def draw(ax: Any, result: Any) -> None:
    """Draw the figures of the descriptions, with rings around those in use; a sum of the n best ones is "best n"."""
    choice = result.estimator.choice_
    choice.plot(ax)
    if "kernel" not in choice.steps[-1].params[0]:  # the number of clusters alone was chosen
        return
    names = sorted({one["kernel"] for one in choice.steps[-1].params})  # in the order in which they are drawn
    short = [f"best {name.count('+') + 1}" if "+" in name else name for name in names]
    ax.set_xticks(range(len(names)), short, rotation=30, ha="right")
