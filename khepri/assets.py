"""Finds the texts that ship with Khepri: ``prompts/`` and the manifests in ``tools/``.

In a wheel they live in ``khepri/_assets``; in a checkout or an editable install they are read from the repository
root, so that an edit takes effect at once. What the texts mean is not known here.
"""

from pathlib import Path
from string import Template

from khepri.errors import KhepriError

_PACKAGE = Path(__file__).resolve().parent


def assets_root() -> Path:
    """Return the folder that holds ``prompts`` and ``tools``."""
    packed = _PACKAGE / "_assets"
    return packed if packed.is_dir() else _PACKAGE.parent


def tools_dir() -> Path:
    """Return the folder of the tool manifests that ship with Khepri."""
    return assets_root() / "tools"


def render_prompt(name: str, /, **variables: str) -> str:
    """Return the text ``prompts/<name>`` with every ``$variable`` filled in.

    Args:
        name: File name within ``prompts/``, suffix included, such as ``system.md``.
        variables: The value of each variable in the text.

    Raises:
        KhepriError: The text does not exist or names a variable that was not given.
    """
    path = assets_root() / "prompts" / name
    try:
        template = Template(path.read_text(encoding="utf-8"))
        return template.substitute(variables)
    except FileNotFoundError as error:
        raise KhepriError(f"the prompt {name} is missing from {path.parent}", "reinstall khepri") from error
    except (KeyError, ValueError) as error:
        raise KhepriError(f"the prompt {name} cannot be filled in: {error}") from error
