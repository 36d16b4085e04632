"""Linear bandits beyond the paper: published regret tables, changing actions, labelled data, the open question."""
