"""Code -> lines of statements and top-level definitions, one file per job.

`tables` defines statements in each language, `grammars` parses with tree-sitter, `statements`
reads the tree; Python has a state machine of its own in `python_lines`, which can also run while
text is generated, and Haskell its layout rule.
"""
