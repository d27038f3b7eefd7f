"""The configuration: YAML that Hydra composes (`pkg://conf`), one file a choice."""
