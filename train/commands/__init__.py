"""What each command does with a study, one file a command."""
