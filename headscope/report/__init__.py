"""Figures and tables in, one self-contained HTML file out; and every result's way to disk."""

from headscope.report.outputs import (
    PAGE_ENDINGS,
    RESULT_ENDINGS,
    check_writable,
    write_report,
    write_result,
)
from headscope.report.page import render

__all__ = [
    "PAGE_ENDINGS",
    "RESULT_ENDINGS",
    "check_writable",
    "render",
    "write_report",
    "write_result",
]
