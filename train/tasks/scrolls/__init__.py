"""SCROLLS (Shaham et al., 2022, arXiv 2201.03533): tasks of long documents, real and synthetic."""
