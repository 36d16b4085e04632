"""Training: PPO with two value heads, environments, rollouts, metrics, checkpoints: runs that survive anything."""
