"""The command line: each module here is one command, ``common`` is what they share."""
