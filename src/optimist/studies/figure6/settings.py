"""The runs of Figure 5: ``optimist study figure6 --runs FOLDER-OF-FIGURE5`` plays none of them again."""

from optimist.studies.figure5.settings import SCALES

__all__ = ["SCALES"]
