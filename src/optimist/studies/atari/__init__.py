"""Studies of Atari games: Figures 1 and 3 to 7. `games` and `comparison` are shared."""
