"""MiniGrid: DoorKey-8x8 beside published success rates, and MultiRoom-N4-S5, which PPO alone does not solve."""
