"""Option spellings of version 0.1.0: accepted with a warning that names today's, or refused if the meaning changed."""

from collections.abc import Sequence

from optimist.cli.errors import BAD_USAGE, tell, warn

RENAMED = {
    "train": {
        "environments": "n-envs",
        "extrinsic-weight": "extrinsic.weight",
        "intrinsic-weight": "intrinsic.weight",
        "extrinsic-discount": "extrinsic.discount",
        "intrinsic-discount": "intrinsic.discount",
        "extrinsic-episodic": "extrinsic.episodic",
        "intrinsic-episodic": "intrinsic.episodic",
        "no-extrinsic-episodic": "extrinsic.no-episodic",
        "no-intrinsic-episodic": "intrinsic.no-episodic",
        "normalise-advantages": "normalize-advantages",
        "no-normalise-advantages": "no-normalize-advantages",
    },
}
"""Today's spelling by the former one, for each command."""
CHANGED = {
    "train": {
        "intrinsic-memory": "it counted rollouts, and --bonus-memory-steps counts steps of all environments: "
        "give its former number times n_envs times steps",
    },
}
"""Options that are gone because their value meant something else, and what to do."""


def modernized(command: str, options: Sequence[str]) -> list[str]:
    """``options`` in today's spelling; each former one is told on stderr, and one with another meaning is refused."""
    return [_modern(command, option) for option in options]


def _modern(command: str, option: str) -> str:
    if not option.startswith("--"):
        return option
    name, equals, value = option[2:].partition("=")
    former = name.replace("_", "-")
    if former in CHANGED.get(command, {}):
        tell(f"--{name} is no longer an option: {CHANGED[command][former]}")
        raise SystemExit(BAD_USAGE)
    today = RENAMED.get(command, {}).get(former)
    if today is None:
        return option
    warn(f"--{name} is now --{today}; the former spelling will go")
    return f"--{today}{equals}{value}"
