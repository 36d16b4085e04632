"""The error of a host that is not installed."""


def missing_host(host: str, *, extra: str) -> ModuleNotFoundError:
    """An error that names the extra which installs ``host``. Raise it from the ImportError that was caught."""
    return ModuleNotFoundError(f"this adapter needs {host}: pip install 'optimist[{extra}]'", name=host)
