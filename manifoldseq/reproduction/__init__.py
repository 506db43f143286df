"""Parts of reproductions of tables and figures: rows, resumable parts, checked parameters."""

from ..estimators import check_choice, check_number, check_whole
from ._parameters import figure_file, folder_of, names, whole_numbers
from ._parts import finished
from ._rows import Row, Rows, row

__all__ = [
    "Row",
    "Rows",
    "check_choice",
    "check_number",
    "check_whole",
    "figure_file",
    "finished",
    "folder_of",
    "names",
    "row",
    "whole_numbers",
]
