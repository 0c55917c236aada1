"""Configuration: one dataclass, one loader. Neither knows what the settings do."""

from khepri.config.loader import Loaded, Origin, Source, load
from khepri.config.schema import (
    Backend,
    Config,
    Decoding,
    Draft,
    EditForm,
    ExtraBuffers,
    KvType,
    NetworkLock,
    Permission,
)
from khepri.config.values import Key, Value, keys

__all__ = [
    "Backend",
    "Config",
    "Decoding",
    "Draft",
    "EditForm",
    "ExtraBuffers",
    "Key",
    "KvType",
    "Loaded",
    "NetworkLock",
    "Origin",
    "Permission",
    "Source",
    "Value",
    "keys",
    "load",
]
