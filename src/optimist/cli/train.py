"""``optimist train``: one run, in one folder."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from optimist.cli.outputs import require_new_folder
from optimist.cli.running import run_to_end
from optimist.files import only_leftovers
from optimist.training.config import TrainConfig
from optimist.training.presets import defaults_for, folder_name


@dataclass(frozen=True)
class TrainCommand:
    """Train an agent with an exploration bonus, in one process or, started by torchrun or srun, in several.

    `optimist train --env ID --help` shows the defaults of that environment, `--bonus NAME --help` also the settings of
    that bonus. Code of your own, `package.module:function`, is found in the current folder and in installed packages.
    """

    settings: Annotated[TrainConfig, tyro.conf.arg(name="")] = field(default_factory=TrainConfig)
    out: Path | None = None
    """The folder of the run; runs/ENV-BONUS-SEED if not given."""


def defaults(options: Sequence[str]) -> TrainCommand:
    """The command with the defaults of the family of environments that ``--env`` names among ``options``."""
    env = last_value(options, "--env")
    return TrainCommand(TrainConfig() if env is None else defaults_for(env))


def more_help(options: Sequence[str], screen: Console) -> None:
    """Print the settings of the bonus that ``--bonus`` names among ``options``."""
    bonus = last_value(options, "--bonus")
    if bonus is not None:
        from optimist.cli.bonus_help import print_settings  # PyTorch

        print_settings(bonus, screen)


def last_value(options: Sequence[str], option: str) -> str | None:
    """What the last ``option VALUE`` or ``option=VALUE`` among ``options`` gives, as the parser would read it."""
    found = None
    for k, word in enumerate(options):
        if word == option and k + 1 < len(options):
            found = options[k + 1]
        elif word.startswith(f"{option}="):
            found = word.partition("=")[2]
    return found


def run_train(command: TrainCommand, screen: Console) -> int:
    """``optimist train``."""
    config = command.settings
    folder = command.out or Path("runs") / folder_name(config)
    from optimist.ranks import joined, restarts  # PyTorch
    from optimist.training.runs import run as runs

    with joined() as ranks:
        # Started again after a process was lost: the run that is there is this one, and the first rank says so.
        if ranks.any(ranks.is_first and restarts() > 0 and (folder / "config.json").is_file()):
            return run_to_end(lambda show: runs.resume(folder, callbacks=[show], ranks=ranks), folder, screen, ranks)
        if not ranks.is_first:
            return run_to_end(lambda _: runs.train(config, folder, ranks=ranks), folder, screen, ranks)
        if not (folder.is_dir() and only_leftovers(folder)):  # of a process that was killed before it wrote anything
            require_new_folder(folder, f"choose another with --out, or go on with  optimist resume {folder}")
        run = lambda show: runs.train(config, folder, callbacks=[show], ranks=ranks)  # noqa: E731
        return run_to_end(run, folder, screen, ranks)
