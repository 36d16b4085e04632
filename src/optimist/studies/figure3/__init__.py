"""Figure 3: gradient against penultimate features, by the states that an agent without reward visits."""
