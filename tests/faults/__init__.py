"""What the user's cache and the log of trials are put through: killed writers, damaged files, full disks, no home."""
