"""The gradient of every state in one backward pass: which layers are tapped, and what is not."""
