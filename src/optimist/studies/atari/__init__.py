"""Two Atari games without reward: unique states and raw return on a small budget."""
