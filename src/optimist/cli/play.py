"""``optimist play``: the bonus, or the value, along a game of a trained agent."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from optimist.checks import require_counts, require_seed
from optimist.cli.console import print_line, print_paths
from optimist.cli.outputs import output_folder, require_folder


@dataclass(frozen=True)
class PlayCommand:
    """Watch a trained agent: a film strip, a video and a page to scrub through, with the bonus of every step.

    Of a run without a bonus they show the value instead: what its critic expects of the task from each step on.
    """

    folder: Annotated[Path, tyro.conf.Positional]
    """The folder of a run that `optimist train` made."""
    steps: int = 1000
    """Steps of a game."""
    seed: int = 0
    """The seed of the games; it is not the seed of the run."""
    games: int = 1
    """Games side by side: the first is shown, the drop at the ends of episodes is measured in all."""
    greedy: bool = False
    """Take the most likely action instead of drawing one."""
    best: bool = False
    """Play the best checkpoint instead of the newest."""
    out: Path | None = None
    """Where to write; the folder play in the run's folder if not given. Files of an earlier play are replaced."""

    def __post_init__(self) -> None:
        require_counts(self, "steps", "games")
        require_seed(self.seed)


def run_play(command: PlayCommand, screen: Console) -> None:
    """``optimist play``."""
    from optimist.reporting.play.playing import write_play  # PyTorch, which the other commands do not need
    from optimist.training.playback import play_back

    out = require_folder(command.out or command.folder / "play")
    with screen.status(f"playing {command.games * command.steps:,} steps") as status:
        played = play_back(
            command.folder,
            steps=command.steps,
            seed=command.seed,
            n_envs=command.games,
            greedy=command.greedy,
            best=command.best,
        )
        status.update("drawing")
        with output_folder(out, may_overwrite=True) as folder:
            drop = write_play(played, folder, title=command.folder.resolve().name)
    if drop is not None:
        print_line(screen, f"the bonus at the end of an episode: {drop}")
        print_line(screen, f"that it drops there: {drop.judgement}")
    print_paths(screen, folder)
