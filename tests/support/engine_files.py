from pathlib import Path

from khepri.engine.launch import EngineFiles


def files_in(folder: Path) -> EngineFiles:
    """Return where an engine keeps its files in a test."""
    return EngineFiles(
        probe=folder / "probe.json",
        pass_costs=folder / "pass-costs.json",
        exactness=folder / "exact.txt",
        choices=folder / "backends.json",
        prefixes=folder / "prefixes",
    )
