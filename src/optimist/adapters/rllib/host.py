"""The Ray that is installed, checked before anything of RLlib is imported."""

from optimist.adapters.building import missing_host

try:
    import ray
    import ray.rllib
except ModuleNotFoundError as missing:
    raise missing_host("ray.rllib", extra="rllib") from missing

MINOR = "2.60"
"""The minor version of Ray that this room was written for and is tested with: RLlib's own parts move in each."""


def require_minor(version: str) -> None:
    """An error unless ``version`` is one of `MINOR`."""
    if version.split(".")[:2] != MINOR.split("."):
        raise ImportError(f"this adapter is for Ray {MINOR}, got {version}: pip install 'optimist[rllib]'")


require_minor(ray.__version__)
