"""Figure 2 of the paper: regret against ensemble size."""
