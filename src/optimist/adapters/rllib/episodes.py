"""RLlib's episodes as one stream of `Transitions`, those of all learners together if there are several."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from torch import Tensor

from optimist.adapters.spaces import ActionReader, SpaceReader
from optimist.bonuses.observations import join, map_observations
from optimist.bonuses.transitions import Transitions


@dataclass(frozen=True)
class Chunk:
    """Some steps of one episode, in their order, as raw arrays: what learners send to each other.

    Shapes: observations (n + 1, ...), the last one being the true one after the last step; actions (n, ...).
    """

    episode: str
    start: int
    observations: Any
    actions: Any
    terminated: bool

    def __len__(self) -> int:
        return len(self.actions)


def chunk_of(episode: SingleAgentEpisode) -> Chunk:
    """The steps that were played in an episode of a learner's pipeline.

    There RLlib has added one step that was not played, and a number to the name, by which it tells chunks apart.
    """
    steps = len(episode) - 1
    return Chunk(
        episode.id_.rpartition("_")[0],
        episode.t_started,
        episode.get_observations(slice(0, steps + 1)),
        episode.get_actions(slice(0, steps)),
        bool(episode.is_terminated),
    )


@dataclass(frozen=True)
class Stream:
    """Chunks one after the other as the steps of one environment, (T, 1), and where each of them begins."""

    transitions: Transitions
    starts: tuple[int, ...]


def stream_of(chunks: Sequence[Chunk], read: SpaceReader, read_actions: ActionReader) -> Stream:
    """All ``chunks`` as one stream; those of one episode follow each other, as they were played.

    An episode that was cut ends as truncated, unless its next chunk is there too: learners share episodes out in parts.
    """
    first: dict[str, int] = {}
    for chunk in chunks:
        first.setdefault(chunk.episode, len(first))
    order = sorted(range(len(chunks)), key=lambda k: (first[chunks[k].episode], chunks[k].start))
    starts, ends, steps = [0] * len(chunks), [], 0
    for k, follower in zip(order, [*order[1:], None], strict=True):
        chunk = chunks[k]
        starts[k], steps = steps, steps + len(chunk)
        goes_on = follower is not None and (
            (chunk.episode, chunk.start + len(chunk)) == (chunks[follower].episode, chunks[follower].start)
        )
        ends.append((steps - 1, chunk.terminated, not chunk.terminated and not goes_on))
    last, terminated, truncated = zip(*ends, strict=True)
    ordered = [chunks[k] for k in order]
    observed = [read(chunk.observations) for chunk in ordered]
    transitions = Transitions(
        join([map_observations(lambda part: part[:-1].unsqueeze(1), each) for each in observed]),
        torch.cat([read_actions(chunk.actions) for chunk in ordered]).unsqueeze(1),
        join([map_observations(lambda part: part[1:].unsqueeze(1), each) for each in observed]),
        _flags(steps, last, terminated),
        _flags(steps, last, truncated),
    )
    return Stream(transitions, tuple(starts))


def _flags(steps: int, places: Sequence[int], values: Sequence[bool]) -> Tensor:
    flags = torch.zeros(steps, 1, dtype=torch.bool)
    flags[list(places), 0] = torch.tensor(values)
    return flags
