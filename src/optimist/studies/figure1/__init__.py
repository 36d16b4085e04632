"""Figure 1: the bonus of ACB along games of Breakout and Q*bert, and how it drops where an episode ends."""
