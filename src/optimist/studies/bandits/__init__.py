"""Studies of bandits: Figure 2, and every policy on linear problems. `comparison` is shared."""
