"""The tools that the model may call, one module each, beside their manifests in ``tools/``."""
