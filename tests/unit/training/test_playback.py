"""Playing back: whose bonus each step's is, that it repeats by its seed, and that nothing learns or is carried over."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

from optimist.bonuses.protocol import Transitions
from optimist.training.config import TrainConfig
from optimist.training.distributions import Gaussian, Greedy, Softmax
from optimist.training.playback import play_back
from optimist.training.ppo import Trainer
from optimist.training.runs import checkpoints
from optimist.training.runs.run import resume, train
from optimist.training.visits.unique_states import fingerprints
from tiny_host import LENGTH, Lock, vector

SIZE = 4
TINY = TrainConfig(
    env=f"DeepSea-{SIZE}",
    bonus="count",
    total_steps=64,
    n_envs=4,
    steps=6,  # no multiple of an episode: episodes are running when the checkpoint is written
    minibatches=2,
    width=8,
    warm_up_steps=0,
    device="cpu",
    threads=1,
)


@pytest.fixture
def trained(tmp_path):
    def run(**changes):
        train(replace(TINY, **changes), tmp_path / "run")
        return tmp_path / "run"

    return run


def test_the_bonus_of_a_step_is_that_of_its_true_successor_also_at_an_end(trained):
    folder = trained(bonus="rnd", warm_up_steps=6)
    (game,) = play_back(folder, steps=3 * SIZE, seed=1).games
    assert game.ends.tolist() == [SIZE - 1, 2 * SIZE - 1, 3 * SIZE - 1]
    assert (game.observations[game.ends] == SIZE * SIZE).all()  # below the last row, not the next episode's first
    trainer = Trainer(replace(TINY, bonus="rnd"))
    trainer.load_state_dict(checkpoints.newest(folder / "checkpoints")[1]["trainer"])
    for t in range(len(game)):  # RND is of the successor alone: any transition to it has its bonus
        state = torch.tensor([[int(game.observations[t])]])
        flags = torch.zeros(1, 1, dtype=torch.bool)
        one = trainer.bonus.compute(Transitions(torch.zeros_like(state), torch.zeros_like(state), state, flags, flags))
        assert game.bonuses[t] == pytest.approx(one.item())


def test_it_repeats_by_its_seed_and_leaves_the_run_as_it_was(trained):
    folder = trained()
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    once, again, other = (play_back(folder, steps=40, seed=seed, n_envs=2) for seed in (3, 3, 4))
    assert once.trained_steps == 72  # the first whole rollout after 64
    for a, b in zip(once.games, again.games, strict=True):
        for name, values in vars(a).items():
            assert np.array_equal(values, getattr(b, name)), name
    assert not np.array_equal(once.games[0].actions, other.games[0].actions)
    assert not np.array_equal(once.games[0].actions, once.games[1].actions)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == files


@pytest.mark.parametrize("bonus", ["episodic-count", "e3b", "rnd*episodic-count"])
def test_memory_of_an_episode_starts_empty_and_anew_after_every_end(bonus, trained):
    (game,) = play_back(trained(bonus=bonus), steps=4 * SIZE, seed=0, greedy=True).games
    episodes = game.bonuses.reshape(4, SIZE)
    assert (game.actions.reshape(4, SIZE) == game.actions[:SIZE]).all()  # a greedy agent plays one episode for ever
    assert episodes == pytest.approx(np.tile(episodes[0], (4, 1)), rel=1e-5)
    if bonus == "episodic-count":
        assert (episodes == 1).all()  # every row of DeepSea is seen once an episode


def lagging_locks(count):
    return vector(lambda number: Lock(), count, AutoresetMode.NEXT_STEP)


def test_steps_that_only_reset_are_left_out(trained):
    folder = trained(env="test_playback:lagging_locks", bonus="rnd", warm_up_steps=4)
    for game in play_back(folder, steps=3 * (LENGTH + 1), seed=0, n_envs=2).games:
        assert game.ends.tolist() == [LENGTH - 1, 2 * LENGTH - 1, 3 * LENGTH - 1]
        assert len(game) == len(game.observations) == len(game.actions) == 3 * LENGTH
        assert (game.bonuses > 0).all()


def test_greedy_takes_the_most_likely_action():
    generator = torch.Generator()
    logits, moments = torch.tensor([[0.0, 3.0, 1.0]]), torch.tensor([[0.5, -1.0, 2.0, 2.0]])
    assert Greedy(Softmax(3)).sample(logits, generator=generator).tolist() == [1]
    assert Greedy(Gaussian(2)).sample(moments, generator=generator).tolist() == [[0.5, -1.0]]


def test_the_best_checkpoint_is_played_where_it_is_asked_for(trained):
    folder = trained()
    step, state = checkpoints.newest(folder / "checkpoints")
    with pytest.raises(FileNotFoundError, match="once 100 episodes have ended"):
        play_back(folder, steps=1, best=True)
    checkpoints.save_if_best(folder / "checkpoints", step, state, (1.0, 1.0))
    resume(folder, total_steps=2 * step)
    assert play_back(folder, steps=1, best=True).trained_steps == step
    assert play_back(folder, steps=1).trained_steps == 2 * step


def test_a_run_without_a_bonus_shows_what_its_critic_expects_of_the_successor(trained):
    folder = trained(bonus="none", extrinsic=replace(TINY.extrinsic, weight=1.0))
    (game,) = play_back(folder, steps=3 * SIZE, seed=1).games
    trainer = Trainer(replace(TINY, bonus="none"))
    trainer.load_state_dict(checkpoints.newest(folder / "checkpoints")[1]["trainer"])
    values = trainer.agent(torch.from_numpy(game.observations))[1][:, 0]
    expected = torch.where(torch.from_numpy(game.terminated), 0.0, values)
    np.testing.assert_allclose(game.curve, expected.detach().numpy(), rtol=1e-5, atol=1e-7)
    assert game.shows == "value"
    assert len(np.unique(game.curve)) > 2
    with pytest.raises(ValueError, match="trained without a bonus: its games have none"):
        _ = game.bonuses


def test_what_cannot_be_played_back_is_said(trained, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no run in"):
        play_back(tmp_path / "nowhere", steps=1, seed=0)
    folder = trained(bonus="none")
    with pytest.raises(ValueError, match="steps must be a whole number >= 1, got 0"):
        play_back(folder, steps=0, seed=0)


@pytest.mark.parametrize("go_on", [resume, partial(play_back, steps=1, seed=0)])
def test_a_checkpoint_of_an_older_version_is_refused(go_on, trained):
    folder = trained()
    step, state = checkpoints.newest(folder / "checkpoints")
    del state["trainer"]["visits"]
    checkpoints.save(folder / "checkpoints", step, state)
    with pytest.raises(ValueError, match="has no entry visits: another version of Optimist wrote it"):
        go_on(folder)


@pytest.mark.parametrize("go_on", [resume, partial(play_back, steps=1, seed=0)])
def test_a_run_on_images_that_did_not_count_cells_yet_is_refused_as_of_an_older_version(go_on, trained):
    folder = trained(env="Breakout-v5", bonus="count", total_steps=8, n_envs=2, steps=4)
    step, state = checkpoints.newest(folder / "checkpoints")
    del state["trainer"]["visits"]["cells"]
    checkpoints.save(folder / "checkpoints", step, state)
    with pytest.raises(ValueError, match="has no entry cells: another version of Optimist wrote it; train it anew"):
        go_on(folder)


@pytest.mark.parametrize(("part", "entry"), [("episodes", "cut"), ("mixing", "unit")])
def test_so_is_a_part_that_lacks_an_entry(part, entry, trained):
    folder = trained()
    step, state = checkpoints.newest(folder / "checkpoints")
    del state["trainer"][part][entry]
    checkpoints.save(folder / "checkpoints", step, state)
    with pytest.raises(ValueError, match=f"has no entry {entry}: another version of Optimist wrote it"):
        resume(folder)


def test_frames_are_the_newest_of_a_stack(trained):
    folder = trained(env="Breakout-v5", bonus="count", total_steps=8, n_envs=2, steps=4)
    seen = play_back(folder, steps=3, seed=0)
    assert seen.observation_shape == (4, 84, 84)
    assert seen.games[0].observations.shape == (3, 1, 84, 84)


def test_a_step_is_familiar_if_its_successor_was_acted_on_in_training(trained):
    folder = trained(total_steps=24)  # one rollout of six steps: some of the ten states are still unseen
    acted_on = checkpoints.newest(folder / "checkpoints")[1]["trainer"]["visits"]["states"]["fingerprints"]
    (game,) = play_back(folder, steps=40 * SIZE, seed=1).games
    known = np.isin(fingerprints(game.observations), acted_on)
    np.testing.assert_array_equal(game.familiar, known)
    assert 0 < known.sum() < len(game)
    assert not game.familiar[game.ends].any()  # nobody acts on the state below the sea
