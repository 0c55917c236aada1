"""Native libraries behind the ``Backend`` seam, one module each."""
