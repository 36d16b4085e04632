"""``optimist resume``: a run goes on from its newest checkpoint."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from optimist.checks import require_count
from optimist.cli.console import print_line
from optimist.cli.running import run_to_end


@dataclass(frozen=True)
class ResumeCommand:
    """Go on with a run from its newest checkpoint."""

    folder: Annotated[Path, tyro.conf.Positional]
    """The folder of the run."""
    total_steps: int | None = None
    """Another end than the run was started with."""

    def __post_init__(self) -> None:
        if self.total_steps is not None:
            require_count("total_steps", self.total_steps)


def run_resume(command: ResumeCommand, screen: Console) -> int:
    """``optimist resume``."""
    from optimist.ranks import joined  # PyTorch
    from optimist.training.runs import run as runs

    with joined() as ranks:

        def resume(show: runs.Callback) -> None:
            def say(text: str) -> None:
                if ranks.is_first:
                    print_line(screen, text)

            runs.resume(command.folder, total_steps=command.total_steps, callbacks=[show], say=say, ranks=ranks)

        return run_to_end(resume, command.folder, screen, ranks)
