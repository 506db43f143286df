"""The figure of a choice among descriptions."""

from typing import Any

from manifoldseq.models import Choice


def accepts(result: Any) -> bool:
    """Return whether a fitted estimator has compared descriptions."""
    choice = getattr(result, "choice_", None)
    return isinstance(choice, Choice) and bool(choice.steps)


def draw(ax: Any, result: Any) -> None:
    """Draw the figures of the descriptions, those that count ringed."""
    result.choice_.plot(ax)
    ax.tick_params(axis="x", rotation=30)
