"""RLlib with processes, as a script: run by tests/unit/adapters/test_rllib_cluster.py, given a folder to save into.

Remote environment runners feed two learners; their bonuses must be one and the same, and be saved and restored.
"""

import sys
from pathlib import Path

import ray
import torch

from optimist.adapters.rllib import with_bonus
from optimist.bonuses.checkpointing import require_same_layout
from rllib_tasks import Corridor, ppo

STEPS = 120
"""Of all environments together in one rollout."""


def bonus_states(algorithm):
    """The state of the bonus of every learner, and the sum of its policy's weights."""
    results = algorithm.learner_group.foreach_learner(
        lambda learner: (
            learner.intrinsic.state_dict(),
            sum(float(w.double().sum()) for w in learner.module["default_policy"].parameters()),
        )
    )
    return [result.get() if hasattr(result, "get") else result for result in results]


def alike(one, other):
    """Whether two nested states are the same to the last bit."""
    require_same_layout(one, other)
    if isinstance(one, dict):
        return all(alike(one[key], other[key]) for key in one)
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


def main(folder: Path) -> None:
    """Play, compare, save, restore; an assertion fails where something is not as it must be."""
    ray.init(
        address="local",
        num_cpus=8,  # more than there are: actors only wait for each other
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=80_000_000,
        _node_ip_address="127.0.0.1",
    )
    config = with_bonus(
        ppo()
        .environment(Corridor)
        .env_runners(num_env_runners=2, num_envs_per_env_runner=2, num_cpus_per_env_runner=1)
        .learners(num_learners=2, num_cpus_per_learner=1)
        .training(train_batch_size_per_learner=STEPS // 2),
        "acb*count",
        seed=5,
    )
    algorithm = config.build_algo()
    told = [algorithm.train() for _ in range(3)][-1]
    # What the environment pays for an episode of three steps, without the bonus; and the bonus beside it.
    assert told["env_runners"]["episode_return_mean"] == 6.0
    learned = told["learners"]["default_policy"]
    assert learned["extrinsic_reward_mean"] == 2.0
    assert learned["intrinsic_reward_mean"] > 0
    states = bonus_states(algorithm)
    assert len(states) == 2
    assert alike(states[0][0], states[1][0])
    assert states[0][1] == states[1][1]
    sampled = told["env_runners"]["num_env_steps_sampled_lifetime"]
    counted = int(states[0][0]["bonus"]["second"]["table"]["counts"].sum())
    assert counted == sampled >= 3 * STEPS  # each learner has learned from the steps of both
    path = algorithm.save_to_path(folder / "saved")
    algorithm.stop()

    # Another number of learners goes on from there; the page's test restores by Algorithm.from_checkpoint.
    alone = config.copy(copy_frozen=False).learners(num_learners=0).env_runners(num_env_runners=0).build_algo()
    alone.restore_from_path(path)
    (found,) = bonus_states(alone)
    assert alike(found[0], states[0][0])
    assert found[1] == states[0][1]
    alone.train()
    assert alone.learner_group._learner.intrinsic.updates == 4
    alone.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
