"""The compiled loops (Numba): each handles many independent learners, one after the other, without Python's lock.

Letters in shapes, here and in all of ``optimist.bandits``: l learner (a trial of a simulation; a policy in use is one
learner), b decision of a batch, n action, d feature, m target of a regression, a arm with a model of its own (one, if
all actions share a model), s sample. Axes of ``x`` of length 1 are shared: one action set for all learners, or one
context for all arms. What happens to a learner does not depend on who stands beside it, so a simulation may deal its
trials to any number of threads.
"""
