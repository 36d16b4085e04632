"""Figure 5: the reward that agents trained on bonuses alone meet, under ACB, RND and ICM."""
