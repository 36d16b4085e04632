"""Folders of runs and studies with made-up numbers, for the tests of the report."""

import json
import math
from dataclasses import replace
from pathlib import Path

from optimist.config import replaced
from optimist.reporting.style import sheet
from optimist.reporting.tables import write_csv
from optimist.training.presets import defaults_for
from optimist.training.runs.run import write_config

SEA = replace(defaults_for("DeepSea-6"), total_steps=4000, threads=1)
HACK = "<img src=x onerror=\"document.title='hacked'\"></script><script>document.title='hacked'</script>"
"""Shown as it stands, it is harmless; read as markup, it renames the page."""


def write_run(folder: Path, *, steps: int = 4000, every: int = 500, height: float = 10.0, **changes) -> Path:
    """A run of ``SEA`` with ``changes``: its unique states climb to ``height``."""
    folder.mkdir(parents=True)
    write_config(folder, replaced(SEA, changes))
    write_csv(folder / "metrics.csv", [_row(step, steps, height) for step in range(every, steps + 1, every)])
    return folder


def _row(step: int, steps: int, height: float) -> dict[str, float]:
    return {
        "step": step,
        "episodes": step // 6,
        "return_mean": 0.9 * step / steps,
        "success_rate": math.nan,
        "unique_states": height * step / steps,
        "bonus_mean": 1 / step,
        "seconds/bonus": 0.75,
        "seconds/update": 0.25,
    }


def write_study(folder: Path, claim: str = "ACB visits more states than RND") -> Path:
    """A finished study: a record, three verdicts, a table and a figure."""
    folder.mkdir(parents=True)
    record = {"command": f"optimist study deepsea --out {folder.name}", "settings": {}, "seconds": 3.0}
    (folder / "record.json").write_text(json.dumps(record))
    judgements = ("holds", "does not hold", "not enough data")
    write_csv(
        folder / "verdicts.csv",
        [
            {"claim": claim, "measured": "5 ± 1", "judgement": j, "seeds": 3, "budget": "4,000 steps"}
            for j in judgements
        ],
    )
    write_csv(folder / "regret.csv", [{"policy": "acb", "mean": 12.5}, {"policy": "greedy", "mean": 80.0}])
    write_picture(folder / "unique_states.png")
    return folder


def write_picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with sheet(path, 2.0, caption="A line.") as figure:
        figure.subplots().plot([1, 2, 3], [1, 4, 9])


def write_everything(place: Path, *, claim: str = "ACB visits more states than RND", text: str = "plain") -> list[Path]:
    """Learners on three tasks, an ablation, a film strip, an unfinished and a broken run, a study; ``text`` in them."""
    runs = []
    for seed, height in ((0, 18.0), (1, 21.0), (2, 20.0)):
        for bonus, share in (("acb", 1.0), ("rnd", 0.7)):
            options = {"bonus": bonus, "seed": seed, "height": share * height}
            runs.append(write_run(place / f"free-{bonus}-{seed}", **{"extrinsic.weight": 0.0}, **options))
            runs.append(write_run(place / f"paid-{bonus}-{seed}", **options))
        runs.append(write_run(place / f"ridge-{seed}", bonus="acb", seed=seed, height=5.0, bonus_options=("ridge=9",)))
    write_picture(runs[0] / "play" / "film_strip.png")
    env = f"odd:{text}"
    odd = {"env": env, "bonus_options": (f"note={text}",)}
    runs += [write_run(place / "unfinished", steps=2000, **odd), write_run(place / "finished", seed=1, **odd)]
    runs.append(write_run(place / "plain", env=env))
    broken = write_run(place / "broken")
    (broken / "metrics.csv").write_text("")
    (broken / "error.txt").write_text(f"Traceback (most recent call last):\n  ...\nValueError: {text}\n")
    return [*runs, broken, write_study(place / "study", claim)]
