"""Text -> ids, and for each token the character that decides its segment."""

CONFIG = "tokenizer_config.json"  # beside tokenizer.json, as transformers has it
