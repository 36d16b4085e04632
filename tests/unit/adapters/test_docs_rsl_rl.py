"""docs/adapters/rsl_rl.md: what it takes from Optimist is there; with rsl_rl installed, it plays, saves and loads."""

import re
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
import torch

PAGE = Path(__file__).parents[3] / "docs" / "adapters" / "rsl_rl.md"
(SNIPPET,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)


def test_what_the_page_imports_from_optimist_is_there():
    compile(SNIPPET, str(PAGE), "exec")
    lines = [line for line in SNIPPET.splitlines() if line.startswith("from optimist")]
    assert len(lines) == 3
    exec("\n".join(lines), {})


@pytest.mark.skipif(find_spec("rsl_rl") is None, reason="rsl_rl asks for ONNX and is no part of the set-up")
@pytest.mark.filterwarnings("ignore")  # of rsl_rl, about its own dependencies
def test_the_page_plays_in_rsl_rls_runner_and_pays_nothing_for_a_step_whose_successor_is_hidden(monkeypatch):
    from rsl_rl.env import VecEnv
    from rsl_rl.runners import OnPolicyRunner
    from tensordict import TensorDict

    class Walk(VecEnv):
        """Each environment adds its action to where it is; an episode has ten steps. Pays nothing."""

        num_envs, num_actions, max_episode_length, device = 4, 1, 10, "cpu"

        def __init__(self):
            self.cfg, self.unwrapped, self.step_dt = {}, self, 1.0
            self.episode_length_buf = torch.zeros(4, dtype=torch.long)
            self.x = torch.zeros(4, 1)

        def get_observations(self):
            return TensorDict({"policy": self.x.clone()}, batch_size=[4])

        def step(self, actions):
            self.x = self.x + actions.clamp(-1, 1)
            self.episode_length_buf = self.episode_length_buf + 1
            over = self.episode_length_buf >= 10
            self.x[over], self.episode_length_buf[over] = 0.0, 0
            return self.get_observations(), torch.zeros(4), over.long(), {"time_outs": over.float()}

    module = ModuleType("page_of_rsl_rl")
    monkeypatch.setitem(sys.modules, "page_of_rsl_rl", module)
    exec(compile(SNIPPET, str(PAGE), "exec"), module.__dict__)
    paid = []

    class Seen(module.BonusPPO):
        def compute_returns(self, obs):
            super().compute_returns(obs)
            paid.append((self.storage.rewards.squeeze(2).clone(), self.storage.dones.squeeze(2).bool().clone()))

    def runner():
        model = {"class_name": "MLPModel", "hidden_dims": [8, 8], "activation": "elu"}
        config = {
            "num_steps_per_env": 35,
            "save_interval": 100,
            "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
            "algorithm": {"class_name": Seen, "gamma": 0.0, "bonus_cfg": {"name": "acb", "seed": 3}},
            "actor": model | {"distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0}},
            "critic": dict(model),
        }
        return OnPolicyRunner(Walk(), config, None, "cpu")

    played = runner()
    played.learn(5)
    rewards, over = paid[-1]  # gamma is 0: a time limit adds nothing of the value
    assert rewards[over].eq(0).all()
    assert rewards[~over].gt(0).all()
    assert played.alg.intrinsic.updates == 5
    other = runner()
    other.alg.load(played.alg.save(), None, True)
    rollout = played.alg._transitions(Walk().get_observations())
    assert torch.equal(other.alg.intrinsic.raw(rollout), played.alg.intrinsic.raw(rollout))
