"""Fidelity: how closely the ACB bonus follows the exact elliptical bonus of the same features, as experience grows.

``run`` measures, ``settings`` says at which numbers, ``judge`` what it means. Rank correlation and scale are taken on
states that were never trained on, against the ceiling that fresh exact draws of the same ensemble size reach.
"""

from optimist.studies.fidelity.settings import LAPTOP, PAPER, SCALES, SMOKE, FidelitySettings, Variant
from optimist.studies.fidelity.study import Row, run
from optimist.studies.fidelity.verdict import judge

__all__ = ["LAPTOP", "PAPER", "SCALES", "SMOKE", "FidelitySettings", "Row", "Variant", "judge", "run"]
