"""One folder a figure of the paper or a benchmark: study.py (what), settings.py (which), verdict.py (how judged)."""
