"""Moving Python definitions between files, and making functions of lines."""
