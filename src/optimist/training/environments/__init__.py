"""N copies of a task at once: ours, EnvPool's, Gymnasium's, or yours, all under one contract (`Environments`)."""

from optimist.training.environments.gymnasium_vector import GymnasiumVector
from optimist.training.environments.names import make
from optimist.training.environments.protocol import Environments, Parted, Step
from optimist.training.trunks import Grid

__all__ = ["Environments", "Grid", "GymnasiumVector", "Parted", "Step", "make"]
