"""What Hydra imports before DVC composes conf/: the resolvers that conf/config.yaml names."""

from pathlib import Path

from shiyan.selection import register

register(Path(__file__).resolve().parent.parent / "conf")
