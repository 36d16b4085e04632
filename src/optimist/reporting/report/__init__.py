"""One self-contained page of runs and studies: `write_report`."""

from optimist.reporting.report.page import write_report

__all__ = ["write_report"]
