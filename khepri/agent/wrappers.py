"""Programs that run another command: which of their own words come before it.

A row says which options a program has; an option that is not among them leaves open where the command begins.
"""

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True)
class Wrapper:
    """How to find the command that a program runs."""

    flags: str = ""
    """Letters of options that stand alone."""
    valued: str = ""
    """Letters of options that take a value, attached or as the next word."""
    attached: str = ""
    """Letters of options whose value, if any, is attached."""
    long_flags: frozenset[str] = field(default_factory=frozenset)
    """Long options that stand alone, or whose value follows ``=``."""
    long_valued: frozenset[str] = field(default_factory=frozenset)
    """Long options that take a value, after ``=`` or as the next word."""
    line_options: frozenset[str] = field(default_factory=frozenset)
    """Of all these, the options whose value is a shell line, as in ``su -c LINE``."""
    own_words: int = 0
    """Words of its own that come after the options."""
    subcommand: str = ""
    """The word that makes it a wrapper, as in ``uv run``."""
    adds_words: bool = False
    """True if it adds words of its own behind the command, as ``xargs`` does."""
    joins: bool = False
    """True if the command is handed to a shell as one line."""
    names_files: bool = False
    """True if an option or a word of its own may name a file that it writes, or a folder that it goes to."""
    opens_shell: bool = False
    """True if it starts a shell where no command is named."""


def _long(words: str) -> frozenset[str]:
    return frozenset(f"--{word}" for word in words.split())


_RUN: Final = Wrapper(subcommand="run")
_EXEC: Final = Wrapper(subcommand="exec")
WRAPPERS: Final = {
    "env": Wrapper(
        flags="i0v",
        valued="uCSa",
        long_flags=_long(
            "ignore-environment null debug block-signal default-signal ignore-signal list-signal-handling"
        ),
        long_valued=_long("unset chdir split-string argv0"),
        line_options=frozenset({"-S", "--split-string"}),
        names_files=True,
    ),
    "sudo": Wrapper(
        flags="AbBEeHiKklnPSsVv",
        valued="CDghprRtTuU",
        long_flags=_long(
            "askpass background bell preserve-env edit set-home login remove-timestamp reset-timestamp list "
            "non-interactive preserve-groups stdin shell validate"
        ),
        long_valued=_long("close-from chdir group host prompt chroot role type command-timeout other-user user"),
        opens_shell=True,
    ),
    "doas": Wrapper(flags="nLs", valued="uCa", opens_shell=True),
    "su": Wrapper(
        flags="lmpfP",
        valued="csgGwT",
        long_flags=_long("login preserve-environment pty"),
        long_valued=_long("command shell group supp-group whitelist-environment session-command"),
        line_options=frozenset({"-c", "--command", "--session-command"}),
        own_words=1,
        opens_shell=True,
    ),
    "newgrp": Wrapper(flags="l", own_words=1, opens_shell=True),
    "pkexec": Wrapper(long_flags=_long("disable-internal-agent keep-cwd"), long_valued=_long("user"), opens_shell=True),
    "chroot": Wrapper(
        long_flags=_long("skip-chdir"), long_valued=_long("userspec groups"), own_words=1, opens_shell=True
    ),
    "timeout": Wrapper(
        flags="fpv",
        valued="ks",
        long_flags=_long("foreground preserve-status verbose"),
        long_valued=_long("kill-after signal"),
        own_words=1,
    ),
    "nice": Wrapper(flags="0123456789", valued="n", long_valued=_long("adjustment")),
    "ionice": Wrapper(flags="t", valued="cnpPu", long_flags=_long("ignore"), long_valued=_long("class classdata")),
    "nohup": Wrapper(),
    "setsid": Wrapper(flags="cfw", long_flags=_long("ctty fork wait")),
    "stdbuf": Wrapper(valued="ioe", long_valued=_long("input output error")),
    "time": Wrapper(
        flags="pvaqV",
        valued="fo",
        long_flags=_long("append portability quiet verbose"),
        long_valued=_long("format output"),
        names_files=True,
    ),
    "command": Wrapper(flags="pvV"),
    "exec": Wrapper(flags="cl", valued="a"),
    "builtin": Wrapper(),
    "coproc": Wrapper(),
    "busybox": Wrapper(),
    "xargs": Wrapper(
        flags="0rtxpo",
        valued="aEILnPsdRJS",
        attached="eil",
        long_flags=_long("null no-run-if-empty verbose exit interactive open-tty replace eof max-lines show-limits"),
        long_valued=_long("arg-file delimiter max-args max-procs max-chars process-slot-var"),
        adds_words=True,
    ),
    "chrt": Wrapper(
        flags="abdfioRv",
        valued="TPD",
        long_flags=_long("batch deadline fifo idle other rr all-tasks reset-on-fork verbose"),
        own_words=1,
    ),
    "taskset": Wrapper(flags="ac", long_flags=_long("all-tasks cpu-list"), own_words=1),
    "flock": Wrapper(
        flags="sxeunoFv",
        valued="wEc",
        long_flags=_long("shared exclusive unlock nonblock nb close no-fork verbose"),
        long_valued=_long("timeout wait conflict-exit-code command"),
        line_options=frozenset({"-c", "--command"}),
        own_words=1,
    ),
    "unshare": Wrapper(
        flags="muinpUTCrcf",
        long_flags=_long(
            "mount uts ipc net pid user cgroup time fork map-root-user map-current-user mount-proc kill-child"
        ),
        opens_shell=True,
    ),
    "script": Wrapper(
        flags="aefq",
        valued="cEOIBTm",
        long_flags=_long("append return flush force quiet"),
        long_valued=_long("command echo log-out log-in log-io log-timing logging-format output-limit"),
        line_options=frozenset({"-c", "--command"}),
        own_words=1,
        names_files=True,
        opens_shell=True,
    ),
    "watch": Wrapper(
        flags="bcdegprtwx",
        valued="nqs",
        long_flags=_long("beep color differences errexit chgexit precise no-title no-wrap exec"),
        long_valued=_long("interval equexit"),
        joins=True,
    ),
    "strace": Wrapper(flags="cCdDfFiknqrtTvwxyYzZ", valued="abeEIoOpPsSuUX", names_files=True),
    # Another process runs it, which no lock of Khepri's holds.
    "systemd-run": Wrapper(
        flags="GPqrStdC",
        valued="HMpuE",
        long_flags=_long(
            "user system scope no-block wait pty pipe quiet same-dir remain-after-exit collect shell no-ask-password"
        ),
        long_valued=_long(
            "host machine property unit description slice service-type uid gid nice working-directory setenv "
            "on-active on-boot on-startup on-unit-active on-unit-inactive on-calendar"
        ),
        opens_shell=True,
    ),
    # Of its options, -o may name commands itself.
    "ssh": Wrapper(
        flags="46AaCfGgKkMNnqsTtVvXxYy", valued="BbcDEeFIiJLlmOpQRSWw", own_words=1, joins=True, opens_shell=True
    ),
    "fakeroot": Wrapper(flags="u", valued="lsib", opens_shell=True),
    "uv": _RUN,
    "poetry": _RUN,
    "pipenv": _RUN,
    "pdm": _RUN,
    "hatch": _RUN,
    "rye": _RUN,
    "bundle": _EXEC,
    "npm": _EXEC,
    "pnpm": _EXEC,
    "yarn": _EXEC,
    "npx": Wrapper(),
}
"""By the name of the program."""

_SHELL: Final = Wrapper(
    flags="aCefnuvxbmhiklpstBEHPTlr",
    valued="oOc",
    long_flags=_long("login norc noprofile posix restricted verbose noediting"),
    long_valued=_long("rcfile init-file"),
)
_NAMES: Final = ("sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "yash", "csh", "tcsh")
SHELLS: Final = dict.fromkeys(_NAMES, _SHELL) | {"fish": Wrapper(flags="ilnPNc")}
"""By their names, with their options; ``-c`` means that the first word behind the options is a line."""
BASH: Final = frozenset({"bash", "rbash"})
"""Shells that read a line as it is read here."""
UNLIKE_SH: Final = frozenset({"csh", "tcsh", "fish", "zsh"})
"""Shells that take a line apart in another way."""
RENAMING: Final = frozenset({"alias", "hash", "enable"})
"""Builtins after which a name may mean another command."""
PATHS: Final = frozenset({"PATH", "IFS", "ENV", "BASH_ENV", "LD_PRELOAD", "LD_LIBRARY_PATH", "PS4", "PROMPT_COMMAND"})
"""Variables by which a name may come to mean another command."""
