"""How documents fall into segments: figure 1 of the BiPE paper (2401.16421), and what it claims."""
