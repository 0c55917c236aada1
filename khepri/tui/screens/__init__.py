"""What lies over the conversation for a while, one screen a file."""
