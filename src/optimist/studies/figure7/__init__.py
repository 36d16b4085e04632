"""Figure 7: the reward of agents trained on bonuses and rewards jointly, under ACB and RND."""
