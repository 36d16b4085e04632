"""``optimist claims`` on the evidence that is committed."""

import csv
import subprocess
import sys
from pathlib import Path

from optimist.studies.claims import PAPER

OPTIMIST = Path(sys.executable).with_name("optimist")
RESULTS = Path(__file__).parents[2] / "results"


def claims(*arguments):
    return subprocess.run([OPTIMIST, "claims", *map(str, arguments)], capture_output=True, text=True, check=False)


def test_the_committed_evidence_becomes_one_table(tmp_path):
    done = claims(*sorted(RESULTS.iterdir()), "--out", tmp_path / "claims")
    assert done.returncode == 0, done.stderr
    with (tmp_path / "claims/claims.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {claim.place for claim in PAPER} <= {row["place"] for row in rows}
    assert {row["judgement"] for row in rows} <= {"holds", "does not hold", "not enough data"}
    measured = {row["judgement"] for row in rows if row["place"] == "Figure 2"}
    assert measured == {"holds"}
    assert "## Figure 2" in (tmp_path / "claims/claims.md").read_text()


def test_a_folder_without_a_study_is_told(tmp_path):
    done = claims(tmp_path)
    assert done.returncode == 1
    assert "no study among" in done.stderr
