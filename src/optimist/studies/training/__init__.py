"""Studies of training runs. `runs`, `rows`, `tasks` and `verdicts` are shared, by the Atari studies too."""
