"""What is known of programs: which run nothing of what their words say, and which variables make them run more.

A program that is not here may run any of its words, as hundreds do, from ``setpriv`` to ``tar --to-command``.
"""

import re
from collections.abc import Sequence
from typing import Final

from khepri.agent.shell_words import Assignment, Word

QUIET: Final = frozenset(
    (
        ": [ [[ ag apropos base64 basename black break bzip2 cat cd chgrp chmod chown cksum clear cmp column comm "
        "continue cp curl cut date dd declare df diff dirname dirs du echo egrep exit expand export false fgrep "
        "file flake8 fmt fold getopts grep groups gunzip gzip head help hexdump history hostname id isort jobs "
        "join jq kill killall let ln local ls lsof md5sum mkdir mktemp mv mypy nl nproc numfmt od paste pgrep pip "
        "pip3 pkill popd printf ps pushd pwd py.test pylint pyright pytest read readlink readonly realpath return "
        "rev rmdir ruff seq set sha1sum sha256sum shift shopt shuf sleep stat strings tac tail tee test touch tr "
        "tree true truncate tty type typeset ulimit umask uname unexpand uniq unset uptime wait wc whatis whereis "
        "which whoami xxd yes zcat"
    ).split()
)
"""Programs whose words are only data to them."""
QUIET_GIT: Final = frozenset(
    (
        "add am apply archive blame branch cat-file check-ignore checkout cherry cherry-pick clean commit "
        "count-objects describe diff diff-files diff-tree fetch for-each-ref fsck gc grep hash-object init log "
        "ls-files ls-remote ls-tree merge merge-base mv name-rev notes prune pull push range-diff reflog remote "
        "reset restore rev-list rev-parse revert rm shortlog show show-ref stash status switch tag version "
        "whatchanged worktree"
    ).split()
)
"""Commands of git whose words are only data, but for those that ``GIT_HELPER`` finds."""
GIT_RUNNING: Final = {
    "rebase": re.compile(r"-\w*x|--e"),
    "submodule": re.compile("foreach"),
    "bisect": re.compile("run"),
    "clone": re.compile(r"-\w*[uc]|--(?:up|co|te)|ext::"),
}
"""Other commands of git, and the beginning of a word with which they run something.

Those that are not here always may: what ``config`` sets may be a program to run, and an unknown one may be an alias.
"""
GIT_HELPER: Final = re.compile(r"-O|--(?:up|rec|ex|op)|ext::")
"""The beginning of a word that names a program which git runs."""
GOES: Final = frozenset({"cd", "pushd", "popd"})
"""Commands after which the next ones are run in another folder."""
RUNS_TARGETS: Final = frozenset({"make", "gmake", "ninja", "tox", "nox"})
"""Programs whose plain words name something in a file of theirs."""
TAKES_VARIABLES: Final = frozenset({"make", "gmake"})
"""Those of them whose words set variables for what they run."""
RUNS_SCRIPTS: Final = frozenset({"python", "pypy", "perl", "ruby", "node", "php", "lua", "luajit", "Rscript"})
"""Interpreters: their words are a script's, unless they are code."""
RUNS_FOLDERS: Final = frozenset(
    (
        "make gmake ninja tox nox just rake task invoke ant gradle mvn cmake meson cargo npm pnpm yarn pytest py.test"
    ).split()
)
"""Programs that run what files of a folder say: those of the repository, unless a word names others."""
MORE_POWER: Final = frozenset({"sudo", "doas", "su", "pkexec", "chroot", "unshare", "systemd-run", "ssh"})
"""Wrappers under which a command may do more than it may alone."""
_MAKE: Final = (
    r"-\w*E|--ev|[^=]*!=|\.SHELLFLAGS|[^=]+=.*[$`;|&<>\n]"
    r"|(?!(?:DESTDIR|PREFIX|prefix)\s*:*=)[^=-][^=]*=\s*(?:[/~]|.*\.\.)"
)
"""What of make's words is code, or a variable whose value may be a program of another folder, or several commands."""
_PYTEST: Final = (
    r"@|--(?:pdbcls|tx)\b|(?:-\w*o|--override-ini=)?(?:pythonpath=|addopts=.|\w+=(?:.*\s)?(?:[/~]|\S*\.\.))"
)
"""A file of words, a class to debug with, another interpreter, or a setting that loads more than the repository's."""
RUNS_VALUE: Final = {
    "": (
        r"--?(?:[\w]+-)*(?:command|cmd|program|prog|exec|execute|toolexec|vettool|rsh|shell|pager|editor|eval|run|hook"
        r"|askpass|wrapper|pre|preprocessor|interpreter)(?:-[\w-]+)?(?:=|$)"
    ),
    "tar": r"(?:-(?!-)|[cxtru])[A-Za-z]*[IF]|--(?:to|use|checkpoint-|rsh|rmt|info|new)",
    "rsync": r"-[A-Za-z]*e",
    "man": r"-[HP]",
    "scp": r"-[A-Za-z]*[So]",
    "sftp": r"-[A-Za-z]*[DSo]",
    "fd": r"-[A-Za-z]*[xX]",
    "zip": r"-TT",
    "nc": r"-[A-Za-z]*[ec]",
    "tcpdump": r"-[A-Za-z]*z",
    "apt-get": r"-o",
    "gcc": r"-B|-fplugin|-specs",
    **dict.fromkeys(("make", "gmake"), _MAKE),
    **dict.fromkeys(("pytest", "py.test"), _PYTEST),
    "tox": r"-\w*x|--ov|exec$|e$",
    "just": r"-\w*c|--(?:set|ch)",
    "rake": r"-\w*[eEpr]|--req",
    "cmake": r"-[EPC]|-D\w*(?:COMPILER|LAUNCHER|COMMAND|PROGRAM|TOOLCHAIN)",
    "meson": r"devenv$",
    "cargo": r"--config|\+",
    **dict.fromkeys(("npm", "pnpm", "yarn"), r"--node-options"),
    "mvn": r"-Dexec\.",
}
"""The beginning of a word whose value a program runs: by the name of the program, and what most of them call it."""
SUBSCRIPT: Final = re.compile(r"\[.*(?:\$\(|`)", re.DOTALL)
"""A subscript from which builtins of the shell work out a command: ``test -v 'a[$(b)]'``."""

_LOADING: Final = re.compile(
    r"PATH|IFS|ENV|BASH_ENV|SHELLOPTS|BASHOPTS|PS4|PROMPT_COMMAND|SHELL|HOME|XDG_CONFIG_HOME|CDPATH|BASH_FUNC_.*"
    r"|(?:LD|DYLD|GIT|PYTEST)_.*|PYTHON(?:HOME|STARTUP|BREAKPOINT|INSPECT|USERBASE|PLATLIBDIR|EXECUTABLE)"
    r"|.*PAGER|.*EDITOR|VISUAL|BROWSER|LESSOPEN|LESSCLOSE|(?:GNU)?MAKEFLAGS|MAKEFILES|.*_OPTIONS|RUBYOPT|PERL5(?:OPT|DB)"
    r"|(?:SSH|SUDO)_ASKPASS|.*_WRAPPER|RUSTC|CC|CXX|CFLAGS|LDFLAGS"
)
_SEARCHED: Final = frozenset({"PYTHONPATH", "NODE_PATH", "RUBYLIB", "PERLLIB", "PERL5LIB", "CLASSPATH", "GOFLAGS"})
_OPEN_DEVICES: Final = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})


def loads_more(variable: Assignment) -> bool:
    """Return True if a program may run or load something else because of a variable.

    A folder of the repository to look for modules in is nothing else: what is run reads the repository anyway.
    """
    if variable.name in _SEARCHED:
        return not variable.value.is_literal or not all(map(_is_inside, variable.value.text.split(":")))
    return _LOADING.fullmatch(variable.name) is not None


def runs_value(name: str, words: Sequence[Word]) -> bool:
    """Return True if a program is told by one of its words to run something."""
    usual = re.compile(RUNS_VALUE[""])
    return runs_own_value(name, words) or any(usual.match(word.text) for word in words[1:])


def runs_own_value(name: str, words: Sequence[Word]) -> bool:
    """Return True if a word tells a program to run something in a way of its own."""
    pattern = re.compile(RUNS_VALUE[name]) if name in RUNS_VALUE else None
    return pattern is not None and any(pattern.match(word.text) for word in words[1:])


def is_harmless_output(file: Word) -> bool:
    """Return True if a redirection to ``file`` stays in the repository, and out of what git runs."""
    return file.is_literal and (file.text in _OPEN_DEVICES or _is_inside(file.text))


def _is_inside(path: str) -> bool:
    return not path.startswith(("/", "~")) and {"..", ".git"}.isdisjoint(path.split("/"))
