"""Generalized advantage estimation of one reward signal, episodic or not."""

import torch
from torch import Tensor


def advantages(
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    valid: Tensor | None,
    *,
    discount: float,
    gae_lambda: float,
    episodic: bool,
) -> Tensor:
    """``A_t = d_t + discount lambda A_{t+1}`` with ``d_t = r_t + discount V' - V(s_t)``.

    An episodic signal ends with its episode: after termination V' is 0, after truncation the value of the final
    observation, and nothing is carried over either. A signal that is not episodic goes on: V' is the value of whatever
    is acted on next, the first state of the new episode included, and A_{t+1} is carried over. A step that is not valid
    (the environment was only resetting) passes everything through and has the advantage 0.

    Shapes: rewards, values, terminated, truncated, valid (T, N); next_values (T, N), the value of the true successor
    for an episodic signal and of the state acted on next for another -> (T, N).
    Paper: Schulman et al. 2016, equation 16; RND, section 2.3, non-episodic intrinsic returns.
    """
    goes_on = 1 - (terminated | truncated).float() if episodic else torch.ones_like(rewards)
    bootstrap = 1 - terminated.float() if episodic else torch.ones_like(rewards)
    errors = rewards + discount * bootstrap * next_values - values
    carry = discount * gae_lambda * goes_on
    if valid is not None:
        errors, carry = torch.where(valid, errors, 0.0), torch.where(valid, carry, 1.0)
    result, current = torch.empty_like(errors), torch.zeros_like(errors[0])
    for t in range(len(errors) - 1, -1, -1):
        current = torch.addcmul(errors[t], carry[t], current)
        result[t] = current
    return result if valid is None else torch.where(valid, result, 0.0)
