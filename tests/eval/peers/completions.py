"""A client of the completions that every OpenAI-compatible server offers: what came, and when."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import requests

_TIMEOUT_S = 600.0


class PeerError(Exception):
    """A server cannot be used; the message says which and why."""


@dataclass(frozen=True)
class Completion:
    """One answer of a server."""

    text: str
    """All of it."""
    tokens: int
    """How many tokens the server says it has; else the pieces that came."""
    first_token_s: float
    """From the request to the first piece."""
    decode_s: float
    """From the first piece to the last."""

    @property
    def tokens_per_s(self) -> float:
        """Speed after the first token; 0 if there was no second."""
        return (self.tokens - 1) / self.decode_s if self.decode_s > 0 and self.tokens > 1 else 0.0


@dataclass(frozen=True)
class Server:
    """An OpenAI-compatible server."""

    address: str
    """Where it listens, such as ``http://127.0.0.1:8080``; ``/v1/completions`` is added."""
    model: str = ""
    """Name of the model, where the server wants one."""

    def complete(self, prompt: str, max_tokens: int, clock: Callable[[], float] = time.perf_counter) -> Completion:
        """Continue ``prompt`` greedily.

        Raises:
            PeerError: The server is not there, refuses, or speaks otherwise.
        """
        started_s = clock()
        times_s, pieces, said_tokens = [], [], 0
        try:
            for event in self._stream(prompt, max_tokens):
                usage = event.get("usage") or {}
                said_tokens = int(usage.get("completion_tokens") or said_tokens)
                piece = "".join(choice.get("text") or "" for choice in event.get("choices", ()))
                if piece:
                    times_s.append(clock())
                    pieces.append(piece)
        except (requests.RequestException, ValueError, AttributeError, TypeError) as error:
            raise PeerError(f"{self.address} does not answer as an OpenAI-compatible server: {error}") from error
        if not pieces:
            raise PeerError(f"{self.address} gave an empty answer")
        return Completion("".join(pieces), said_tokens or len(pieces), times_s[0] - started_s, times_s[-1] - times_s[0])

    def _stream(self, prompt: str, max_tokens: int) -> Iterator[dict[str, Any]]:
        body = {
            "prompt": prompt,
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **({"model": self.model} if self.model else {}),
        }
        address = f"{self.address.rstrip('/')}/v1/completions"
        with requests.post(address, json=body, stream=True, timeout=_TIMEOUT_S) as answer:
            answer.raise_for_status()
            for line in answer.iter_lines():
                data = line.partition(b"data:")[2].strip()
                if data and data != b"[DONE]":
                    yield json.loads(data)
