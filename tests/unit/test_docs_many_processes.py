"""docs/many_processes.md: every command of it is one that torchrun and optimist read."""

import re
import shlex
from pathlib import Path

import pytest
from torch.distributed.run import get_args_parser

from optimist.cli.commands import parse

TEXT = (Path(__file__).parents[2] / "docs/many_processes.md").read_text(encoding="utf-8").replace("\\\n", " ")
COMMANDS = re.findall(r"^.*(?:torchrun|srun) .*-m optimist .*$", TEXT, re.M)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_read_by_its_launcher_and_by_optimist(command):
    launch, _, words = command.partition(" -m optimist ")
    assert parse(shlex.split(words)).command is not None
    if "torchrun" in launch:
        told = get_args_parser().parse_args([*shlex.split(launch.partition("torchrun ")[2]), "script"])
        assert int(told.nproc_per_node) >= 2
        assert ("TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1" in launch) == (told.rdzv_backend == "c10d")
        assert bool(told.max_restarts) == (told.rdzv_backend == "c10d"), "only with it are restarts clean"


def test_there_are_commands():
    assert len(COMMANDS) == 6
