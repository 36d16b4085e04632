"""How DeepSea is judged: unique states against RND and counts, and the largest sea that is solved."""

import math
from collections.abc import Sequence

from optimist.reporting.tables import Row
from optimist.studies.training_rows import conditions, values_of
from optimist.studies.training_verdicts import judge_at_least, judge_majority, judge_more
from optimist.studies.verdicts import Verdict


def judge(free: Sequence[Row], paid: Sequence[Row]) -> list[Verdict]:
    """Without reward, two verdicts a size; with it, whether ACB solves the largest and whether none fails there."""
    result: list[Verdict] = []
    for task in dict.fromkeys(row["task"] for row in free):
        acb, rnd, count = (values_of(free, task, learner, "unique_states") for learner in ("acb", "rnd", "count"))
        result.append(judge_more(f"DeepSea, {task}: ACB visits more states than RND", acb, rnd))
        result.append(judge_at_least(f"DeepSea, {task}: ACB visits at least as many states as counts", acb, count))
    shares = solved_share(paid)
    if shares:
        largest = max(shares, key=size_of)["task"]
        solved = [not math.isnan(step) for step in values_of(paid, largest, "acb", "solved_at")]
        verdict = judge_majority(f"DeepSea, {largest}: ACB solves the largest sea", solved)
        result.append(Verdict(verdict.claim, f"{verdict.measured}; {largest_solved(shares)}", verdict.judgement))
    return result


def solved_share(rows: Sequence[Row]) -> list[Row]:
    """The share of the seeds that solved each sea, by learner, and the mean step at which they did."""
    result: list[Row] = []
    for task, learner in conditions(rows):
        steps = values_of(rows, task, learner, "solved_at")
        solved = [step for step in steps if not math.isnan(step)]
        result.append(
            {
                "task": task,
                "learner": learner,
                "size": int(task.rpartition(" ")[2]),
                "seeds": len(steps),
                "solved": len(solved),
                "share": len(solved) / len(steps),
                "steps": sum(solved) / len(solved) if solved else math.nan,
            }
        )
    return result


def largest_solved(shares: Sequence[Row]) -> str:
    """The largest N that more than half of the seeds solved, for every learner, in words."""
    best = {row["learner"]: 0 for row in shares}
    for row in shares:
        if row["share"] > 0.5:
            best[row["learner"]] = max(best[row["learner"]], row["size"])
    return "largest N solved by a majority: " + ", ".join(f"{learner} {size or '-'}" for learner, size in best.items())


def size_of(row: Row) -> int:
    """N."""
    return row["size"]
