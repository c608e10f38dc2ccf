"""Where things lie on a host."""

from __future__ import annotations

PREFIX = "/opt/pdctl"
BUNDLE = f"{PREFIX}/bundle"
VENVS = f"{PREFIX}/venvs"
MODELS = f"{PREFIX}/models"
# Weights that engines load by name, once for all instances of a host; Hugging Face appends `hub`.
DOWNLOADS = f"{MODELS}/huggingface"
# Vocabulary files that engines would download themselves; the folder has the same name in the bundle.
VOCABULARY = f"{MODELS}/vocabulary"
VOCABULARY_IN_BUNDLE = "models/vocabulary"
CONFIG = "/etc/pdctl"
STATE = "/var/lib/pdctl"
CACHE = "/var/cache/pdctl"
UNITS = "/etc/systemd/system"
SERVICE_USER = "pdctl"


def config_dir(cluster: str) -> str:
    return f"{CONFIG}/{cluster}"


def record_path(cluster: str) -> str:
    return f"{STATE}/{cluster}/record.json"


def unit_name(cluster: str, instance: str) -> str:
    return f"pdctl-{cluster}-{instance}.service"


def control_path(cluster: str) -> str:
    """The proxy's control socket, in the folder that systemd makes for it (`RuntimeDirectory=`)."""
    return f"/run/pdctl/{cluster}/proxy/control.sock"


def instance_of(cluster: str, unit: str) -> str:
    """The inverse of `unit_name`."""
    return unit.removeprefix(f"pdctl-{cluster}-").removesuffix(".service")


def unit_path(cluster: str, instance: str) -> str:
    return f"{UNITS}/{unit_name(cluster, instance)}"


def cache_dir(cluster: str, instance: str) -> str:
    """Made by systemd (`CacheDirectory=`), owned by the service user."""
    return f"{CACHE}/{cluster}/{instance}"
