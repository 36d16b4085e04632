"""Environments with known answers in TorchRL, and the host: its own PPO, as its tutorials write it."""

import gymnasium
import numpy as np
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.data import Bounded, Categorical, Composite, Unbounded
from torchrl.envs import EnvBase, ExplorationType, TransformedEnv, set_exploration_type
from torchrl.modules import ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from optimist.adapters.torchrl import BonusLoss, bonus_transform
from optimist.bonuses import Bonus


class Counter(gymnasium.Env):
    """Observes the steps since the episode began; it ends after ``length``. Pays nothing."""

    def __init__(self, length=3):
        self.length, self.count = length, 0
        self.observation_space = gymnasium.spaces.Box(0, 100, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.count += 1
        return np.full(1, self.count, np.float32), 0.0, self.count == self.length, False, {}


class Recorder(Bonus):
    """A bonus that is the successor itself, and keeps what it was taught."""

    def __init__(self):
        self.taught = []

    def compute(self, transitions):
        bonus = transitions.next_observations[..., 0].clone()
        return bonus if transitions.valid is None else bonus * transitions.valid

    def update(self, transitions):
        self.taught.append(transitions)
        return {"mean": 1.0}

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


class DeepSea(EnvBase):
    """``count`` grids at once: one row down a step, right or left; all rights pay 1, each right costs a little."""

    def __init__(self, size, count):
        super().__init__(batch_size=[count])
        self.size = size
        self.observation_spec = Composite(observation=Unbounded((count, size * size)), shape=(count,))
        self.action_spec = Categorical(2, shape=(count,))
        self.reward_spec = Unbounded((count, 1))
        self.done_spec = Categorical(2, shape=(count, 1), dtype=torch.bool)
        self.rightwards = torch.as_tensor(np.random.default_rng(42).integers(2, size=(size, size)))
        self.row, self.column = torch.zeros(count, dtype=torch.int64), torch.zeros(count, dtype=torch.int64)

    def _reset(self, tensordict):
        again = None if tensordict is None else tensordict.get("_reset", None)
        again = torch.ones(self.batch_size, dtype=torch.bool) if again is None else again.view(self.batch_size)
        self.row, self.column = self.row * ~again, self.column * ~again
        done = torch.zeros(*self.batch_size, 1, dtype=torch.bool)
        return TensorDict({"observation": self._observations(), "done": done}, self.batch_size)

    def _step(self, tensordict):
        right = tensordict["action"] == self.rightwards[self.row, self.column]
        reward = (right & (self.column == self.size - 1)).float() - 0.01 / self.size * right
        self.column = (self.column + torch.where(right, 1, -1)).clamp(0, self.size - 1)
        self.row = self.row + 1
        done = (self.row == self.size).unsqueeze(-1)
        entries = {"observation": self._observations(), "reward": reward.unsqueeze(-1), "done": done}
        return TensorDict(entries, self.batch_size)

    def _observations(self):
        cells = torch.zeros(*self.batch_size, self.size * self.size + self.size)  # the last row is below the grid
        cells.scatter_(1, (self.row * self.size + self.column).unsqueeze(1), 1.0)
        return cells[:, : self.size * self.size].clone()

    def _set_seed(self, seed):
        """Nothing is random."""


class Reacher(EnvBase):
    """Two environments with two observations by name, and actions of three dimensions."""

    def __init__(self, pays=0.0):
        super().__init__(batch_size=[2])
        self.pays = pays
        self.observation_spec = Composite(place=Unbounded((2, 3)), speed=Unbounded((2, 2)), shape=(2,))
        self.action_spec = Bounded(-1, 1, (2, 3))
        self.reward_spec = Unbounded((2, 1))
        self.done_spec = Categorical(2, shape=(2, 1), dtype=torch.bool)
        self.place = torch.zeros(2, 3)

    def _reset(self, tensordict):
        self.place = torch.zeros(2, 3)
        done = torch.zeros(2, 1, dtype=torch.bool)
        return TensorDict({"place": self.place, "speed": torch.zeros(2, 2), "done": done}, [2])

    def _step(self, tensordict):
        self.place = self.place + tensordict["action"]
        observed = {"place": self.place, "speed": tensordict["action"][:, :2].clone()}
        paid = {"reward": torch.full((2, 1), self.pays), "done": torch.zeros(2, 1, dtype=torch.bool)}
        return TensorDict(observed | paid, [2])

    def _set_seed(self, seed):
        """Nothing is random."""


def ppo(base, *, iterations, steps, seed=0, inputs, bonus="acb", whole=True, wrapped=True, **options):
    """The actor's network and the extrinsic return an iteration, after TorchRL's own PPO with or without the bonus."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
        value = nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        module = TensorDictModule(net, in_keys=["observation"], out_keys=["logits"])
        actor = ProbabilisticActor(
            module, in_keys=["logits"], distribution_class=torch.distributions.Categorical, return_log_prob=True
        )
        critic = ValueOperator(value, in_keys=["observation"])
        loss = ClipPPOLoss(actor, critic, clip_epsilon=0.2, entropy_coeff=0.01)
        gae = GAE(gamma=0.99, lmbda=0.95, value_network=critic, average_gae=True)
        env = base
        if wrapped:
            transform = bonus_transform(base, bonus, policy_network=net, seed=seed, **options)
            bonus_loss = BonusLoss(transform)
            gae.set_keys(reward="total_reward")
            env = base if whole else TransformedEnv(base, transform)
        optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3)
        returns = []
        for _ in range(iterations):
            with torch.no_grad(), set_exploration_type(ExplorationType.RANDOM):
                data = env.rollout(steps, actor, break_when_any_done=False)
                if wrapped:
                    data = transform(data) if whole else data
                    bonus_loss(data)
                gae(data)
            flat = data.reshape(-1)
            for _ in range(4):
                for rows in torch.randperm(len(flat)).chunk(4):
                    losses = loss(flat[rows])
                    optimizer.zero_grad()
                    sum(losses[key] for key in ("loss_objective", "loss_critic", "loss_entropy")).backward()
                    nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                    optimizer.step()
            episodes = float(data["next", "done"].sum()) or 1.0
            returns.append(float(data["next", "reward"].sum()) / episodes)
    return net, returns
