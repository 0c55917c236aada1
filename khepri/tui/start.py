"""What the app is started with; whoever starts it knows the command line and the configuration."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from khepri.agent.conversation import Conversation


@dataclass(frozen=True)
class Start:
    """What the app begins with."""

    conversation: Conversation
    """What is shown and gone on with."""
    network: str
    """How the network is locked, in two words."""
    branch: Callable[[], str]
    """Returns the branch of the repository, empty where there is none. Runs git: call it on a thread."""
    theme: str
    """Name of the theme; one that does not exist means the default."""
    settings: Callable[[], str]
    """Returns the settings in force as text."""
    check_machine: Callable[[], str]
    """Returns what ``khepri doctor`` says. Takes its time: call it on a thread."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Keys by the ids of their bindings, where they differ from the defaults."""
    choose_session: bool = False
    """Let the user choose a session first."""
    drawn: Callable[[], object] = lambda: None
    """Called once, when the first frame is on the screen."""
