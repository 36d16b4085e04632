"""Figure 4: how the size of the ensemble changes the reward that an agent trained on bonuses alone meets."""
