"""Code -> lines of statements and top-level definitions, one file a job.

`languages` names them and finds them by file name, `tables` says what a statement is in each,
`grammars` parses with tree-sitter, `statements` and `definitions` read the tree; Python has a state
machine of its own in `python_lines`, which can also run while text is generated.
"""
