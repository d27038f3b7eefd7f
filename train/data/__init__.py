"""From documents to batches: readers, tokenizers, shards, packing, order and the data module.

Nothing is imported here, so that preparing data does not load torch and reading a shard does not
load a tokenizer: import from the file that holds what you need.
"""
