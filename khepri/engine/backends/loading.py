"""Opens the backend that is asked for; no other library is loaded."""

from khepri.engine.backend import Backend, BackendName, LoadOptions


def load_backend(options: LoadOptions) -> Backend:
    """Load a model with the library that ``options`` name; the calling thread owns the backend.

    Raises:
        ModelLoadError: The library is missing, or refuses the file or the settings.
        OutOfMemoryError: The model or its context does not fit into memory.
    """
    # The libraries are imported only now: an import costs time, and one that dies takes the process along.
    if options.backend is BackendName.IK_LLAMA:
        from khepri.engine.backends.ik_llama import IkLlamaBackend

        return IkLlamaBackend(options)
    from khepri.engine.backends.llama_cpp import LlamaCppBackend

    return LlamaCppBackend(options)
