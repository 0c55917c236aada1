"""What a path alone says about a file: source, entry point, test, documentation, or nobody's own work.

Only names are looked at; nothing is read.
"""

import re
from enum import Enum
from functools import lru_cache

from khepri.repo.grammars import grammar_of

_TEST_FOLDER = re.compile(r"^(tests?|testing|specs?|__tests__|fixtures?|benchmarks?|testdata|e2e|mocks?|__mocks__)$")
_TEST_FILE = re.compile(r"^(test_.*|.*_test|.*_tests|.*_spec|.*\.test|.*\.spec|conftest|.*Tests?)$")
_DOC_FOLDER = re.compile(r"^(docs?|documentation|examples?|samples?|demos?|tutorials?|docs_src)$")
_DOC_SUFFIX = re.compile(r"^\.(md|markdown|rst|adoc|txt|org)$")
_VENDORED = re.compile(
    r"^(_?vendor(ed)?|third[_-]?party|external|node_modules|site-packages|extern|dist|build|out|target|generated|gen)$"
)
_GENERATED_FILE = re.compile(r"(_pb2(_grpc)?\.py|\.pb\.(go|cc|h)|\.min\.(js|css)|\.generated\.\w+|\.g\.\w+|\.lock)$")
_MIGRATION = re.compile(r"^(migrations?|alembic)$")
_ENTRY = re.compile(r"^(__main__|main|index|app|cli|manage|server)$", re.IGNORECASE)


class Role(Enum):
    """What a file is to its repository, with the weight that ranking gives it."""

    ENTRY = 1.3
    SOURCE = 1.0
    TEST = 0.15
    DOC = 0.12
    MIGRATION = 0.1
    OTHER = 0.05
    FOREIGN = 0.03

    @property
    def weight(self) -> float:
        """Factor on the rank of a file of this role."""
        return self.value


@lru_cache(maxsize=65_536)
def role_of(path: str) -> Role:
    """Return the role of the file at a POSIX path."""
    *folders, name = path.split("/")
    stem, dot, end = name.rpartition(".")
    stem, suffix = (stem, dot + end.lower()) if stem else (name, "")
    folders = [folder.lower() for folder in folders]
    if any(map(_VENDORED.match, folders)) or _GENERATED_FILE.search(name):
        return Role.FOREIGN
    if any(map(_TEST_FOLDER.match, folders)) or _TEST_FILE.match(stem):
        return Role.TEST
    if _DOC_SUFFIX.match(suffix) or any(map(_DOC_FOLDER.match, folders)):
        return Role.DOC
    if any(map(_MIGRATION.match, folders)):
        return Role.MIGRATION
    if grammar_of(path) is None:
        return Role.OTHER
    return Role.ENTRY if _ENTRY.match(stem) else Role.SOURCE
