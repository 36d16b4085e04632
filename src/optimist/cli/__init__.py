"""The command line: the only package that prints, parses or exits."""

import sys
from typing import Annotated

try:
    import tyro
    from rich.console import Console

    from optimist.cli.bandit import BanditCommand, run_bandit
    from optimist.cli.claims import ClaimsCommand, run_claims
    from optimist.cli.play import PlayCommand, run_play
    from optimist.cli.report import ReportCommand, run_report
    from optimist.cli.study import STUDIES, StudyCommand, run_study
    from optimist.cli.theory import TheoryCommand, run_theory
    from optimist.cli.training import ResumeCommand, TrainCommand, run_resume, run_train
except ModuleNotFoundError as missing:
    sys.exit(f"optimist: the command line needs {missing.name}: install it with  pip install 'optimist[cli]'")

__all__ = [
    "STUDIES",
    "BanditCommand",
    "ClaimsCommand",
    "Command",
    "PlayCommand",
    "ReportCommand",
    "ResumeCommand",
    "StudyCommand",
    "TheoryCommand",
    "TrainCommand",
    "main",
]

Command = (
    Annotated[TrainCommand, tyro.conf.subcommand("train")]
    | Annotated[ResumeCommand, tyro.conf.subcommand("resume")]
    | Annotated[BanditCommand, tyro.conf.subcommand("bandit")]
    | Annotated[TheoryCommand, tyro.conf.subcommand("theory")]
    | Annotated[StudyCommand, tyro.conf.subcommand("study")]
    | Annotated[ClaimsCommand, tyro.conf.subcommand("claims")]
    | Annotated[PlayCommand, tyro.conf.subcommand("play")]
    | Annotated[ReportCommand, tyro.conf.subcommand("report")]
)


def main() -> None:
    """Runs one command. Exit codes: 0 done, 1 failed, 2 bad usage."""
    command = tyro.cli(Command, prog="optimist", description="Exploration by optimism.")  # pyrefly: ignore
    screen = Console()
    try:
        match command:
            case TrainCommand():
                run_train(command, screen)
            case ResumeCommand():
                run_resume(command, screen)
            case BanditCommand():
                run_bandit(command, screen)
            case TheoryCommand():
                run_theory(command, screen)
            case StudyCommand():
                run_study(command, screen)
            case ClaimsCommand():
                run_claims(command, screen)
            case PlayCommand():
                run_play(command, screen)
            case ReportCommand():
                run_report(command, screen)
    except (ValueError, FileExistsError) as problem:
        _leave(screen, str(problem), 2)
    except ModuleNotFoundError as missing:
        _leave(screen, f"this needs {missing.name}: install it with  pip install 'optimist[all]'", 1)
    except (OSError, ArithmeticError) as problem:
        _leave(screen, str(problem), 1)
    except KeyboardInterrupt:
        _leave(screen, "interrupted", 1)


def _leave(screen: Console, message: str, code: int) -> None:
    Console(stderr=True).print(f"optimist: {message}", style="red", markup=False, highlight=False, soft_wrap=True)
    sys.exit(code)
